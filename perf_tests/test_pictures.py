"""Pictures: where to cache and where to augment them, and how they get to the GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tfgpu_doctor.bench import measure
from tfgpu_doctor.perf_tests.figures import interval, plan_of
from tfgpu_doctor.perf_tests.images import as_written, augment, change, draw_changes, make_jpegs, shrink
from tfgpu_doctor.perf_tests.placement import prove, short_device
from tfgpu_doctor.perf_tests.runner import Variant

Hold = Callable[..., None]
Keep = Callable[..., None]
PICTURES = 24
ON_DEVICE, ON_DEVICE_SIDE, AT_A_TIME = 96, 160, 32  # pictures that the GPU or the CPU changes
ROUNDS = 8  # times that a loop reads these pictures, so that its start costs little
FEW = 4  # pictures whose result is compared with the CPU's
DEPTH, WIDTH = 6, 256  # layers and channels of a network that keeps a GPU busy


@pytest.fixture(scope="session")
def pictures(tensorflow: Any) -> Any:
    """Numbered JPEGs, as a dataset."""
    return tensorflow.data.Dataset.from_tensor_slices(make_jpegs(tensorflow, PICTURES)).enumerate()


@pytest.mark.priority(4)
def test_cache_before_augmentation(compare: Hold, tensorflow: Any, pictures: Any) -> None:
    """Compare caching the decoded and resized JPEGs before a random augmentation with decoding them in each epoch."""
    tf = tensorflow
    small = pictures.map(lambda _, content: shrink(tf, content))
    originals = list(small)

    def side(name: str, dataset: Any) -> Variant:
        changed = as_written(tf, with_draws(tf, dataset).map(lambda draw, picture: (draw, augment(tf, draw, picture))))

        def verify(seen: Any) -> None:
            with tf.device("CPU:0"):
                exact = [augment(tf, draw, picture) for (draw, _), picture in zip(seen, originals, strict=True)]
            assert np.allclose([picture for _, picture in seen], exact, atol=1e-5)

        return Variant(name, lambda: list(changed), verify)

    compare(side("cache before augmentation", small.cache()), side("no cache", small), at_least=1.1)


def with_draws(tf: Any, dataset: Any) -> Any:
    """Add a random number to each element, another one in each epoch; equal datasets get equal numbers."""
    return tf.data.Dataset.zip((tf.data.Dataset.random(seed=8, rerandomize_each_iteration=True), dataset))


@pytest.mark.priority(6)
def test_fresh_augmentation(share_s: float, tensorflow: Any, pictures: Any, metric: Keep) -> None:
    """Check what an epoch changes anew: everything with a cache before the augmentation, nothing with one after it.

    Nor does anything with a counter as the seed, which begins again. The same is measured for an operation with a seed.
    """
    tf = tensorflow
    small = pictures.map(lambda _, content: shrink(tf, content)).cache()
    augmented = with_draws(tf, small).map(partial(augment, tf))
    counted = tf.data.Dataset.zip((tf.data.Dataset.range(PICTURES), small)).map(partial(augment, tf))
    seeded = small.map(lambda picture: tf.image.random_brightness(picture, 0.1, seed=9))
    anew = {
        "cache before augmentation": changed_share(augmented),
        "cache after augmentation": changed_share(augmented.cache()),
        "a counter as the seed": changed_share(counted),
        "a random operation with a seed": changed_share(seeded),
    }
    for name, share in anew.items():
        metric(
            f"changed anew, {name}", 100 * share, "%", device="CPU:0", limit=100.0, about="of the pictures, each epoch"
        )
    assert list(anew.values())[:3] == [1, 0, 0], anew


def changed_share(dataset: Any) -> float:
    """Return the share of the pictures that differ between two epochs."""
    first, second = (list(dataset.as_numpy_iterator()) for _ in range(2))
    return float(np.mean([not np.array_equal(*pair) for pair in zip(first, second, strict=True)]))


class Network:
    """A few convolutions on a device, applied to the batches of a dataset; `before` runs on the same device."""

    def __init__(
        self, tf: Any, device: str, depth: int, width: int, before: Callable[..., Any] = lambda batch: batch
    ) -> None:
        numbers = np.random.default_rng(seed=10)
        shapes = [(5, 5, 3, width), *[(3, 3, width, width)] * (depth - 1)]
        self._filters = [
            (numbers.standard_normal(shape) / np.prod(shape[:3]) ** 0.5).astype(np.float32) for shape in shapes
        ]
        self._tf, self._device, self._before = tf, device, before
        self._graph = tf.function(self._placed)

    def _placed(self, *batch: Any) -> Any:
        with self._tf.device(self._device):
            return self._apply(*batch)

    def _apply(self, *batch: Any) -> Any:
        tf = self._tf
        pictures = self._before(*batch)
        pictures = tf.nn.conv2d(pictures, self._filters[0], 4, "SAME")
        for filters in self._filters[1:]:
            pictures = tf.nn.conv2d(tf.nn.relu(pictures), filters, 1, "SAME")
        return pictures[:, ::8, ::8, :8]

    def step(self, *batch: Any) -> Any:
        """Return a few activations for each picture of a batch."""
        return self._graph(*batch)

    def epoch(self, batches: Any) -> Any:
        """Return the activations of all steps, like a training loop that looks at no result before the end."""
        with self._tf.device(self._device):
            return self._tf.concat([self.step(*batch) for batch in batches], 0)

    def verify(self, result: Any, *all_of_them: Any) -> None:
        """Compare the activations for a few pictures with the CPU's, as exactly as TF32 allows."""
        few = slice(None, None, ON_DEVICE // FEW)
        exact = self._on_cpu(*(each[few] for each in all_of_them)).numpy()
        assert len(result) == ON_DEVICE
        assert np.allclose(result[few], exact, rtol=0, atol=0.05 * exact.std())

    def _on_cpu(self, *batch: Any) -> Any:
        with self._tf.device("CPU:0"):
            return self._tf.function(self._apply)(*map(self._tf.constant, batch))


def raw_pictures() -> tuple[Any, Any]:
    """Return 8-bit pictures, and how to change each: drawn in advance, so that all sides change them in the same way."""
    shape = (ON_DEVICE, ON_DEVICE_SIDE, ON_DEVICE_SIDE, 3)
    return np.random.default_rng(seed=12).integers(0, 256, shape, np.uint8), draw_changes(ON_DEVICE)


def sides_of_augmentation(tf: Any, gpu: str, depth: int, width: int) -> tuple[Variant, Variant]:
    """Flip, rotate and change contrast and brightness on the GPU, in batches, or on all CPUs, in a tuned pipeline."""
    drawn, at_once = raw_pictures(), tf.data.AUTOTUNE
    raw = tf.data.Dataset.from_tensor_slices(drawn)
    ready = raw.map(lambda picture, how: (change(tf, picture[None], how[None])[0],), num_parallel_calls=at_once)
    augmenting = Network(tf, gpu, depth, width, partial(change, tf))

    def side(name: str, dataset: Any, network: Network, carriers: tuple[str, ...]) -> Variant:
        batches = dataset.batch(AT_A_TIME).prefetch(at_once)

        def verify(result: Any) -> None:
            augmenting.verify(result.numpy(), *drawn)

        return Variant(name, lambda: network.epoch(batches), verify, gpu, carriers)

    on_gpu = side("augmentation on the GPU", raw, augmenting, ("ImageProjectiveTransform", "Conv2D"))
    return on_gpu, side("augmentation in the pipeline", ready, Network(tf, gpu, depth, width), ("Conv2D",))


@pytest.mark.priority(4, needs_s=8)
def test_augmentation_on_gpu(compare: Hold, tensorflow: Any, gpu: str) -> None:
    """Compare augmentation in batches on the GPU with augmentation of each picture on the CPU, where the CPU limits.

    A small network follows. The GPU gets 8-bit pictures in the one case, and pictures in float32 in the other.
    """
    compare(*sides_of_augmentation(tensorflow, gpu, 1, 8))


@pytest.mark.priority(6, needs_s=10)
def test_augmentation_on_cpu(share_s: float, tensorflow: Any, gpu: str, metric: Keep) -> None:
    """Measure the opposite advice: augmentation on the CPU during the GPU's step, for a network that keeps the GPU busy."""
    on_gpu, on_cpu = sides_of_augmentation(tensorflow, gpu, DEPTH, WIDTH)
    for each in (on_gpu, on_cpu):
        each.verify(prove(each.call, gpu, each.carriers))
    wait = tensorflow.test.experimental.sync_devices
    measured = measure(on_cpu.call, on_gpu.call, plan=plan_of(share_s, gpu), synchronise=wait)
    metric(
        "augmentation on the CPU", measured.ratio.value, "times as fast as on the GPU", device=gpu,
        about=f"with a network of {DEPTH} convolutions on the GPU; {interval(measured)}",
    )  # fmt: skip


@pytest.mark.priority(6, needs_s=8)
def test_prefetch_to_device(share_s: float, tensorflow: Any, gpu: str, metric: Keep) -> None:
    """Measure batches that the pipeline copies to the GPU ahead of the step, relative to batches that the step copies."""
    tf = tensorflow
    pictures = raw_pictures()[0].astype(np.float32) / 255
    with tf.device("CPU:0"):
        batches = tf.data.Dataset.from_tensor_slices((pictures,)).batch(AT_A_TIME).cache().repeat(ROUNDS)
    network = Network(tf, gpu, 2, 8)
    ahead = tf.data.experimental.prefetch_to_device(f"/{gpu}", 2)
    to_gpu, to_host = (partial(network.epoch, each) for each in (batches.apply(ahead), batches.prefetch(2)))
    for call, device in ((to_gpu, gpu), (to_host, "CPU:0")):
        assert short_device(next(iter(call.args[0]))[0].backing_device) == device
        for each in np.split(prove(call, gpu, ("Conv2D",)).numpy(), ROUNDS):
            network.verify(each, pictures)
    measured = measure(
        to_gpu,
        to_host,
        plan=plan_of(share_s, gpu),
        synchronise=tf.test.experimental.sync_devices,
    )
    metric(
        "prefetch_to_device", measured.ratio.value, "times as fast as prefetch", device=gpu, about=interval(measured)
    )
