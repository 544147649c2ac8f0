"""Matrix products one after another, in each precision: speed and temperature."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SEED = (7, 11)
AT_A_TIME_S = 0.05  # the products that are submitted before the program waits for them
MOST_AT_A_TIME = 32


def choose_tf32(tf: Any, on: bool) -> bool:
    """Enable or disable TF32 for float32 products; return whether this TensorFlow supports the choice."""
    switch = getattr(tf.config.experimental, "enable_tensor_float_32_execution", None)  # from 2.4 on
    if switch:
        switch(on)
    return bool(switch)


def chain(tf: Any, device: str, steps: int) -> Any:
    """A function of that many products, each of the previous one; its value is a single element of the last."""

    @tf.function  # type: ignore[untyped-decorator]
    def products(left: Any, right: Any) -> Any:
        with tf.device(device):
            for _ in range(steps):
                left = tf.linalg.matmul(left, right)
            return tf.cast(left[0, 0], tf.float32)

    return products


def factors(tf: Any, device: str, side: int, precision: str) -> tuple[Any, Any]:
    """Two random matrices whose repeated product neither grows nor fades; zeros would use less power."""
    kind = tf.as_dtype("float32" if precision == "tf32" else precision)
    with tf.device(device):
        left, right = (tf.random.stateless_normal((side, side), (seed, side)) for seed in SEED)
        return tf.cast(left, kind), tf.cast(right / side**0.5, kind)


def sustain(tf: Any, device: str, precision: str, side: int, seconds: float) -> dict[str, object]:
    """Multiply for that long, and return the number of operations per second."""
    if not choose_tf32(tf, precision == "tf32") and precision == "tf32":
        raise NotImplementedError("this TensorFlow has no switch for TF32")
    left, right = factors(tf, device, side, precision)
    single = chain(tf, device, 1)
    float(single(left, right))  # the first one loads and chooses kernels
    started = time.monotonic()
    float(single(left, right))
    steps = max(1, min(MOST_AT_A_TIME, int(AT_A_TIME_S / (time.monotonic() - started + 1e-9))))
    products = chain(tf, device, steps)
    value, iterations, spent = float(products(left, right)), 0, 0.0
    began = time.monotonic()
    while spent < seconds:
        value = float(products(left, right))
        iterations += steps
        spent = time.monotonic() - began
    return {
        "precision": precision,
        "side": side,
        "iterations": iterations,
        "seconds": spent,
        "began_s": began,
        "teraflops": 2.0 * side**3 * iterations / spent / 1e12,
        "finite": value == value and abs(value) != float("inf"),
    }
