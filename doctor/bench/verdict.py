"""The verdict of a duel."""

from __future__ import annotations

import math

from tfgpu_doctor.bench.ratio import Ratio
from tfgpu_doctor.facts.bench import Verdict

LEAST_EFFECT = 0.02  # what is nearer to 1 than this is no difference that anybody would act on
NOISE_LIMIT = 0.15  # an interval wider than this share of the ratio, to either side, tells nothing
NOISE_FACTOR = 3.0  # ... unless the ratio's logarithm is this many times as large


def judge(ratio: Ratio, at_least: float = 1.0) -> tuple[Verdict, str]:
    """The verdict, and in words why it is not `faster`.

    `faster`: the whole interval lies above `at_least`, and above 1 by the least effect that counts. `slower`: the
    whole interval lies below 1 by that effect. A wide interval only speaks for an effect much larger than its width:
    what makes it wide, other work on the machine, may fall on one side by chance.
    """
    interval = f"{ratio.value:.2f} times as fast, 95 % interval {ratio.low:.2f} to {ratio.high:.2f}"
    if ratio.half_width > NOISE_LIMIT and abs(math.log(ratio.value)) < NOISE_FACTOR * ratio.half_width:
        return "too noisy", f"{interval}: wider than {NOISE_LIMIT:.0%} to either side"
    if ratio.low > max(at_least, 1 + LEAST_EFFECT):
        return "faster", ""
    if ratio.high < 1 - LEAST_EFFECT:
        return "slower", interval
    if at_least > 1 and ratio.low > 1 + LEAST_EFFECT:
        return "not shown", f"{interval}; at least {at_least:g} is asked for"
    return "not shown", interval
