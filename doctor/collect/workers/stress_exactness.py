"""Operations whose results must be bitwise equal on every repetition, and close to a reference in float64."""

from __future__ import annotations

import hashlib
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SEED = 20211
LEAST_REPEATS = 3
PARTS = 16  # of a result, each with a digest: they show where GPUs disagree
SAMPLED = 256  # elements of a result that are computed in float64
# The error that rounding allows in an element of sum(a * b), as a share of sum(|a| * |b|): the sums are taken in
# float32 (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), after TF32 has rounded each factor to
# 10 bits (https://blogs.nvidia.com/blog/tensorfloat-32-precision-format), or float16 the result to as many.
ROUNDED_FACTORS, SUMMED = 2.0**-10 + 2.0**-11, 2.0**-24
TRANSFORMED = 8  # the factor if cuDNN transforms a convolution (Winograd, FFT) and sums intermediate values


def matmul(np: Any, side: int, precision: str) -> tuple[list[Any], Any]:
    """Two matrices, and the reference for sampled elements of their product: indices, values, allowed rounding errors."""
    random = np.random.RandomState(SEED)
    left, right = (random.uniform(-1, 1, (side, side)).astype(precision) for _ in range(2))

    def reference() -> tuple[Any, Any, Any]:
        rows, columns = (random.randint(0, side, SAMPLED) for _ in range(2))
        a, b = left[rows].astype("float64"), right[:, columns].astype("float64").T
        return (rows, columns), (a * b).sum(1), (abs(a * b)).sum(1) * (ROUNDED_FACTORS + side * SUMMED)

    return [left, right], reference


def convolution(np: Any, side: int, precision: str) -> tuple[list[Any], Any]:
    """Images and kernels of 3 by 3, with about as many operations as matrices of that side, and their reference."""
    random = np.random.RandomState(SEED)
    count, edge, channels = max(1, side // 128), max(4, side // 64), max(2, side // 32)
    images = random.uniform(-1, 1, (count, edge, edge, channels)).astype(precision)
    kernels = random.uniform(-1, 1, (3, 3, channels, channels)).astype(precision)

    def reference() -> tuple[Any, Any, Any]:
        image, channel = random.randint(0, count, SAMPLED), random.randint(0, channels, SAMPLED)
        row, column = (random.randint(1, edge - 1, SAMPLED) for _ in range(2))  # away from the padding
        values, bounds = [], []
        for n, y, x, c in np.stack((image, row, column, channel), axis=1):
            terms = images[n, y - 1 : y + 2, x - 1 : x + 2].astype("float64") * kernels[:, :, :, c].astype("float64")
            values.append(terms.sum())
            bounds.append(abs(terms).sum() * (ROUNDED_FACTORS + terms.size * SUMMED) * TRANSFORMED)
        return (image, row, column, channel), np.array(values), np.array(bounds)

    return [images, kernels], reference


OPERATIONS = (("matmul", "float32", matmul), ("convolution", "float32", convolution), ("matmul", "float16", matmul))


def compute(tf: Any, operation: str, inputs: list[Any]) -> Any:
    if operation == "convolution":
        return tf.nn.conv2d(inputs[0], inputs[1], strides=1, padding="SAME")
    return tf.linalg.matmul(inputs[0], inputs[1])


def words(tf: Any, tensor: Any) -> Any:
    """The bits of a tensor as integers of 8 bytes: those are compared on the GPU, and without NaN semantics."""
    return tf.bitcast(tf.reshape(tensor, (-1, 8 // tensor.dtype.size)), tf.int64)


def differing(np: Any, found: Any, expected: Any) -> int:
    """The number of elements of two arrays that differ in any bit."""
    kind = "uint%d" % (8 * found.dtype.itemsize)
    return int(np.count_nonzero(np.ascontiguousarray(found).view(kind) != np.ascontiguousarray(expected).view(kind)))


def deviation(np: Any, result: Any, reference: tuple[Any, Any, Any]) -> float:
    """The distance of the sampled elements from their reference, as a share of the rounding limit; infinite for NaN."""
    places, values, bounds = reference
    off = abs(result[places].astype("float64") - values) / bounds
    return float("inf") if np.isnan(off).any() else float(off.max())


def digests(result: Any) -> list[str]:
    """A digest of each part of a result."""
    content = memoryview(result.tobytes())
    size = -(-len(content) // PARTS)
    return [hashlib.blake2b(content[at : at + size], digest_size=8).hexdigest() for at in range(0, len(content), size)]


class Repeated:
    """An operation and its first result; every later result is compared with that."""

    def __init__(self, np: Any, side: int, operation: str, precision: str, make: Any) -> None:
        self.operation, self.precision = operation, precision
        self._inputs, self._reference = make(np, side, precision)
        self._first: Any = None

    def repeat(self, tf: Any, np: Any, device: str, seconds: float) -> dict[str, object]:
        """Compute repeatedly for that long, and return how many elements ever differed."""
        started = time.monotonic()
        with tf.device(device):
            inputs = [tf.constant(each) for each in self._inputs]
            result = compute(tf, self.operation, inputs)
            row = {"operation": self.operation, "precision": self.precision, "placed_on": result.device}
            if self._first is None:
                self._first = result.numpy()
            expected = words(tf, tf.constant(self._first))
            iterations, mismatches = 0, 0
            while iterations < LEAST_REPEATS or time.monotonic() < started + seconds:
                result = compute(tf, self.operation, inputs)
                if int(tf.reduce_sum(tf.cast(tf.not_equal(words(tf, result), expected), tf.int64))):
                    mismatches += differing(np, result.numpy(), self._first)
                iterations += 1
        last = result.numpy()
        off = deviation(np, last, self._reference())
        row.update(iterations=iterations, mismatches=mismatches, elements=int(last.size), digests=digests(last))
        # JSON has no infinity.
        row.update(deviation=min(off, 1e9), seconds=time.monotonic() - started)
        return row
