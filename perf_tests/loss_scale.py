"""Loss scaling in the words of Keras 3, also where Keras 2 has others for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ScaledByKeras2:
    """Keras 2's optimizer takes gradients that were scaled back by who calls it; Keras 3's does that itself."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def build(self, variables: Sequence[Any]) -> None:
        """Make room for what is kept of each variable."""
        self._inner.build(variables)

    def scale_loss(self, loss: Any) -> Any:
        """The loss, so large that its gradients are no zeros in float16."""
        return self._inner.get_scaled_loss(loss)

    def apply(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Take one step along the gradients of the scaled loss."""
        unscaled = self._inner.get_unscaled_gradients(gradients)
        self._inner.apply_gradients(zip(unscaled, variables, strict=True))


def loss_scaled(tf: Any, inner: Any, initial_scale: float = 2.0**15) -> Any:
    """The optimizer with loss scaling around it."""
    if hasattr(tf.keras.optimizers, "LossScaleOptimizer"):
        return tf.keras.optimizers.LossScaleOptimizer(inner, initial_scale=initial_scale)
    return ScaledByKeras2(tf.keras.mixed_precision.LossScaleOptimizer(inner, initial_scale=initial_scale))
