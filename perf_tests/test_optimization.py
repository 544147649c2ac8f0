"""Steps of training until a loss is reached: normalization, optimizers, and the learning rate from step to step.

Steps are not time: the suite model_architecture measures what a normalization costs. Each figure is the median of some
networks, each with its own data and initial weights.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest

from tfgpu_doctor.perf_tests.placement import prove

Keep = Callable[..., None]
Array: TypeAlias = np.ndarray[Any, Any]
SEEDS = 5
FEATURES, WIDTH, CLASSES = 16, 32, 4
BATCH, BATCHES = 64, 8  # of an epoch
MOST, LOSS = 200, 0.6  # steps, and the mean loss of an epoch to reach; guessing has ln(4) = 1.39
RATES = (
    0.1,
    0.3,
)  # of SGD; 0.03 is slower with each normalization and without, 0.6 and 1 change little or do not train
SMALL = 0.05  # standard deviation of the initial weights: the default of Keras's RandomNormal
LOW, USUAL, MIDDLE, HIGH = 0.001, 0.003, 0.01, 0.04  # of Adam: USUAL needs the fewest steps, HIGH does not train
WARM, HALF_CYCLE = 100, 20  # steps


def warmed_up(rate: float) -> list[float]:
    """Return rates that increase linearly, and then stay."""
    return [rate * min(1.0, (step + 1) / WARM) for step in range(MOST)]


def triangular(low: float, high: float) -> list[float]:
    """Return rates that increase and decrease linearly between two bounds, again and again."""
    return [low + (high - low) * (1 - abs(step / HALF_CYCLE % 2 - 1)) for step in range(MOST)]


def problem(seed: int) -> tuple[Array, Array]:
    """Return the batches of an epoch, and the classes that a random network gives to their samples."""
    numbers = np.random.default_rng(seed)
    inputs = numbers.standard_normal((BATCHES, BATCH, FEATURES))
    first, second = numbers.standard_normal((FEATURES, 24)) / 4, numbers.standard_normal((24, CLASSES))
    return inputs, np.argmax(np.tanh(1.5 * inputs @ first) @ second, axis=-1)


def initial(seed: int, layer: int, shape: tuple[int, int], deviation: float | None) -> Array:
    """Return initial weights: normal ones with a standard deviation, otherwise Keras's default, Glorot's uniform ones."""
    numbers, limit = np.random.default_rng([seed, layer]), (6 / sum(shape)) ** 0.5
    return numbers.normal(0, deviation, shape) if deviation else numbers.uniform(-limit, limit, shape)


def schedule_of(tf: Any, rate: Callable[[Any], Any]) -> Any:
    """Return a schedule of Keras whose learning rate is this function of the step."""
    methods = {"__call__": lambda _, step: rate(step), "get_config": lambda _: {}}
    return type("Schedule", (tf.keras.optimizers.schedules.LearningRateSchedule,), methods)()


class Course(NamedTuple):
    """For each schedule (rows) and seed: the steps until LOSS, infinite if it is not reached, and the loss at the end."""

    steps: Array
    losses: Array

    def best(self) -> float:
        """Return the median steps of the schedule that needs the fewest."""
        return float(np.median(self.steps, axis=1).min())


class Trials:
    """Dense networks that are trained side by side in one step: one for each schedule of the learning rate and each seed.

    The first axis of each tensor is for the trials. The gradients of the sum of all losses are those of each loss, and
    optimizers compute each element by itself: so a trial trains as it would alone.
    """

    def __init__(
        self, tf: Any, device: str, optimizer: Callable[[Any], Any], schedules: Sequence[Sequence[float]], *, depth: int,
        normalisation: str = "no", deviation: float | None = None, scales: Array | float = 1.0,
    ) -> None:  # fmt: skip
        self._tf, self._normalisation, self._shape = tf, normalisation, (len(schedules), SEEDS)
        sizes = list(itertools.pairwise([FEATURES, *[WIDTH] * depth, CLASSES]))
        inputs, classes = zip(*map(problem, range(SEEDS)), strict=True)
        rates = np.repeat(schedules, SEEDS, axis=0).T[:, :, None, None]

        def stacked(of_seeds: Sequence[Array], axis: int = 0) -> Array:
            return np.concatenate([np.stack(of_seeds, axis)] * len(schedules), axis)

        with tf.device(device):
            self._inputs = tf.constant(stacked(inputs, 1) * scales, tf.float32)
            self._classes = tf.constant(stacked(classes, 1), tf.int32)
            self._kernels = [
                tf.Variable(
                    stacked([initial(seed, layer, shape, deviation) for seed in range(SEEDS)]).astype(np.float32)
                )
                for layer, shape in enumerate(sizes)
            ]
            flat = [np.zeros((len(schedules) * SEEDS, 1, wide), np.float32) for _, wide in sizes]
            self._biases = [tf.Variable(zeros) for zeros in flat]
            self._gains = [tf.Variable(zeros + 1) for zeros in flat[:-1] if normalisation != "no"]
            table = tf.constant(rates, tf.float32)
            self._optimizer = optimizer(schedule_of(tf, lambda step: tf.gather(table, tf.cast(step, tf.int32))))
            self._optimizer.build(self._variables)
        self._device, self._step = device, tf.function(self._one_step)

    @property
    def _variables(self) -> list[Any]:
        return [*self._kernels, *self._biases, *self._gains]

    def _hidden(self, given: Any, layer: int) -> Any:
        """Return the weighted sums of a layer, normalized."""
        tf, kernel = self._tf, self._kernels[layer]
        if self._normalisation == "no":
            return given @ kernel
        if self._normalisation == "weight":
            return given @ (self._gains[layer] * kernel / tf.norm(kernel, axis=1, keepdims=True))
        sums = given @ kernel
        mean, variance = tf.nn.moments(sums, [{"batch": 1, "layer": 2}[self._normalisation]], keepdims=True)
        return self._gains[layer] * (sums - mean) * tf.math.rsqrt(variance + 1e-3)

    def _one_step(self, inputs: Any, classes: Any) -> Any:
        tf = self._tf
        with tf.GradientTape() as tape:
            given = inputs
            for layer, bias in enumerate(self._biases[:-1]):
                given = tf.nn.relu(self._hidden(given, layer) + bias)
            logits = given @ self._kernels[-1] + self._biases[-1]
            losses = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits), axis=1)
            total = tf.reduce_sum(losses)
        gradients = tape.gradient(total, self._variables)
        self._optimizer.apply_gradients(zip(gradients, self._variables, strict=True))
        return losses

    def _losses(self, step: int) -> Any:
        with self._tf.device(self._device):
            return self._step(self._inputs[step % BATCHES], self._classes[step % BATCHES])

    def train(self, *, race: bool = False) -> Course:
        """Train for MOST steps, or until all trials have reached LOSS; in a race, until all seeds of one schedule have."""
        epoch = [prove(lambda: self._losses(0), self._device, ("MatMul",)).numpy()]
        assert np.all(epoch[0] > 1.0), "the networks know the classes before the training"
        steps = np.full(epoch[0].shape, np.inf)
        for step in range(1, MOST):
            epoch = [*epoch[1 - BATCHES :], self._losses(step).numpy()]
            if len(epoch) == BATCHES:
                steps[(np.mean(epoch, axis=0) <= LOSS) & np.isinf(steps)] = step + 1
            reached = np.isfinite(steps).reshape(self._shape)
            if reached.all() or (race and reached.all(axis=1).any()):
                break
        return Course(steps.reshape(self._shape), np.mean(epoch, axis=0).reshape(self._shape))


def keep(metric: Keep, name: str, steps: float, device: str, about: str) -> None:
    """Record the steps; those that were not enough as the most."""
    missed = f"; a loss of {LOSS} is not reached in so many" if np.isinf(steps) else ""
    metric(f"steps with {name}", min(steps, MOST), "steps", device=device, about=about + missed)


@pytest.mark.priority(6, needs_s=20)
@pytest.mark.parametrize("start", ["usual", "small"])
def test_normalisation(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep, start: str) -> None:
    """Measure the steps of SGD with layer, batch and weight normalization, each with the best of the learning rates.

    True here, for a dense network of 6 hidden layers: from usual initial weights, batch normalization needs a third of the
    steps, layer normalization three quarters, weight normalization nearly as many as no normalization. From small initial
    weights, the network trains only with one of them.
    """
    steps = {}
    for kind in ("no", "weight", "layer", "batch"):
        schedules = [[rate] * MOST for rate in RATES]
        deviation = SMALL if start == "small" else None
        trials = Trials(
            tensorflow, gpu_or_cpu, tensorflow.keras.optimizers.SGD, schedules, depth=6, normalisation=kind, deviation=deviation
        )  # fmt: skip
        steps[kind] = trials.train(race=True).best()
        name = f"{kind} normalization, {start} initial weights"
        keep(metric, name, steps[kind], gpu_or_cpu, f"the best of {RATES}")
    if start == "usual":
        assert steps["batch"] < 0.67 * steps["no"], f"batch normalization does not need fewer steps: {steps}"
    else:
        assert np.isinf(steps.pop("no")), "the network trains from small initial weights without normalization"
        assert max(steps.values()) < MOST, f"not every normalization makes the network train: {steps}"


@pytest.mark.priority(6, needs_s=20)
def test_optimizers(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Measure the steps of SGD, SGD with momentum, and Adam, each with the best of four learning rates.

    True here: on features whose scales differ by a factor of 100, Adam needs less than half of the steps, because it
    scales the gradient of each weight. On standardized features the three need nearly the same number.
    """
    optimizers, steps = tensorflow.keras.optimizers, {}
    ways: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
        "SGD": (optimizers.SGD, (0.03, 0.1, 0.3, 1.0)),
        "momentum": (functools.partial(optimizers.SGD, momentum=0.9), (0.01, 0.03, 0.1, 0.3)),
        "Adam": (optimizers.Adam, (0.003, 0.01, 0.03, 0.1)),
    }
    for features, scales in (("raw", np.logspace(-1, 1, FEATURES)), ("standardized", 1.0)):
        for name, (optimizer, rates) in ways.items():
            schedules = [[rate] * MOST for rate in rates]
            trials = Trials(tensorflow, gpu_or_cpu, optimizer, schedules, depth=1, scales=scales)
            steps[name, features] = trials.train(race=True).best()
            keep(metric, f"{name}, {features} features", steps[name, features], gpu_or_cpu, f"the best of {rates}")
    plain = min(steps["SGD", "raw"], steps["momentum", "raw"], MOST)
    assert steps["Adam", "raw"] < plain / 2, f"Adam does not need fewer steps on raw features: {steps}"
    assert steps["SGD", "standardized"] < plain / 2, f"SGD does not need fewer steps on standardized features: {steps}"


@pytest.mark.priority(6, needs_s=15)
def test_warm_up(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Measure the steps and the final loss of Adam with and without a warm-up of the learning rate.

    True here, for 8 hidden layers with layer normalization: with a rate that is too high the network trains only after a
    warm-up. With a usual rate a warm-up only delays the training, so it is no substitute for the search of a rate.
    """
    schedules = {
        "a usual rate": [USUAL] * MOST, "a warm-up to a usual rate": warmed_up(USUAL),
        "a high rate": [HIGH] * MOST, "a warm-up to a high rate": warmed_up(HIGH),
    }  # fmt: skip
    course = adam(tensorflow, gpu_or_cpu, list(schedules.values())).train()
    losses = dict(zip(schedules, np.median(course.losses, axis=1), strict=True))
    for name, steps in zip(schedules, np.median(course.steps, axis=1), strict=True):
        rate = USUAL if "usual" in name else HIGH
        keep(metric, name, steps, gpu_or_cpu, f"Adam, {rate}; final loss {losses[name]:.2g}")
    high, warm = losses["a high rate"], losses["a warm-up to a high rate"]
    assert warm < 0.6 * high, f"after a warm-up the final loss is {warm:.2g}, without it {high:.2g}"
    assert warm < LOSS, f"after a warm-up the network does not train: its final loss is {warm:.2g}"


@pytest.mark.priority(7, needs_s=15)
def test_cyclical_rate(share_s: float, tensorflow: Any, gpu_or_cpu: str, metric: Keep) -> None:
    """Measure the steps of Adam with a triangular learning rate, and with constant rates between its bounds.

    True here: it needs about as many steps as the best constant rate, and half of those with its lower bound. So it
    spares the search of a rate between the bounds, but it is not faster than the rate that a search finds.
    """
    rates = (LOW, USUAL, MIDDLE)
    course = adam(tensorflow, gpu_or_cpu, [*([rate] * MOST for rate in rates), triangular(LOW, MIDDLE)]).train()
    *constant, cyclical = np.median(course.steps, axis=1)
    for rate, steps in zip(rates, constant, strict=True):
        keep(metric, f"a constant rate of {rate}", steps, gpu_or_cpu, "Adam")
    about = f"Adam, between {LOW} and {MIDDLE} in {HALF_CYCLE} steps"
    keep(metric, "a triangular rate", cyclical, gpu_or_cpu, about)
    assert cyclical < 0.8 * constant[0], f"{cyclical} steps, but {constant[0]} with the lower bound"
    assert cyclical < 1.35 * min(constant), f"{cyclical} steps, but {min(constant)} with the best constant rate"


def adam(tf: Any, device: str, schedules: Sequence[Sequence[float]]) -> Trials:
    return Trials(tf, device, tf.keras.optimizers.Adam, schedules, depth=8, normalisation="layer")


@pytest.mark.priority(6)
def test_integer_step(tensorflow: Any, metric: Keep) -> None:
    """Check schedules of the learning rate that compute with the step, which is an integer in Keras 2 and in Keras 3.

    A schedule that casts the step first must be right. Without the cast, it must raise an error or be right as well.
    """
    tf = tensorflow
    forms: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
        "tf.math.exp(-step)": (lambda step: tf.math.exp(-step), lambda step: np.exp(-step)),
        "tf.math.exp(-0.1 * (step - 2))": (
            lambda step: tf.math.exp(-0.1 * (step - 2)), lambda step: np.exp(-0.1 * (step - 2)),
        ),
        "tf.math.rsqrt(step + 1)": (lambda step: tf.math.rsqrt(step + 1), lambda step: (step + 1) ** -0.5),
    }  # fmt: skip
    refused = {}
    for form, (rate, exact) in forms.items():
        due = [exact(float(step)) for step in range(3)]
        found = rates_of(tf, after_cast(tf, rate))
        assert np.allclose(found, due, rtol=1e-5), f"the rates of {form} are {found}, but the exact ones {due}"
        try:
            found = rates_of(tf, rate)
        except (TypeError, tf.errors.InvalidArgumentError) as error:
            refused[form] = f"{form}: {' '.join(str(error).split())[:90]}"
        else:
            assert np.allclose(found, due, rtol=1e-5), f"without a cast, the rates of {form} are {found}"
    about = next(iter(refused.values()), "all are right")
    metric("schedules that fail without a cast of the step", len(refused), f"of {len(forms)}", about=about)


def after_cast(tf: Any, rate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda step: rate(tf.cast(step, tf.float32))


def rates_of(tf: Any, rate: Callable[[Any], Any]) -> list[float]:
    """Return the learning rates of three steps of SGD with this schedule."""
    weight, optimizer = tf.Variable(0.0), tf.keras.optimizers.SGD(schedule_of(tf, rate))
    places = [0.0]
    for _ in range(3):
        optimizer.apply_gradients([(tf.constant(-1.0), weight)])
        places.append(float(weight))
    return list(np.diff(places))
