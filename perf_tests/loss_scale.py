"""Loss scaling with the interface of Keras 3, also for Keras 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ScaledByKeras2:
    """Adapts the optimizer of Keras 2, whose caller must unscale the gradients; the one of Keras 3 unscales them itself."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def build(self, variables: Sequence[Any]) -> None:
        """Create the optimizer's state for each variable."""
        self._inner.build(variables)

    def scale_loss(self, loss: Any) -> Any:
        """Return the scaled loss, so that its gradients are not zero in float16."""
        return self._inner.get_scaled_loss(loss)

    def apply(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Apply one step with the gradients of the scaled loss."""
        unscaled = self._inner.get_unscaled_gradients(gradients)
        self._inner.apply_gradients(zip(unscaled, variables, strict=True))


def loss_scaled(tf: Any, inner: Any, initial_scale: float = 2.0**15) -> Any:
    """Return the optimizer wrapped in loss scaling."""
    if hasattr(tf.keras.optimizers, "LossScaleOptimizer"):
        return tf.keras.optimizers.LossScaleOptimizer(inner, initial_scale=initial_scale)
    return ScaledByKeras2(tf.keras.mixed_precision.LossScaleOptimizer(inner, initial_scale=initial_scale))
