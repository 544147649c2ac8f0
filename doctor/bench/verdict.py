"""Judge the result of a comparison."""

from __future__ import annotations

import math

from tfgpu_doctor.bench.ratio import Ratio
from tfgpu_doctor.model.facts.bench import Verdict

LEAST_EFFECT = 0.02  # a difference from 1 that is smaller than this is not actionable
CLOCK_FELL = "the SM clock of GPU"  # with this begins what a reason says of a clock that fell meanwhile
NOISE_LIMIT = 0.15  # an interval wider than this share of the ratio on either side is too noisy


def judge(ratio: Ratio, at_least: float = 1.0) -> tuple[Verdict, str]:
    """Return the verdict, and the reason if it is not `faster`.

    `faster`: the whole interval is above `at_least`, and above 1 by the smallest effect that counts. `slower`: the
    whole interval is below 1 by that effect. A wide interval has to be further away, by half its own width: other work
    on the machine makes it wide, and may affect one side by chance.
    """
    interval = f"{ratio.value:.2f} times as fast, 95 % interval {ratio.low:.2f} to {ratio.high:.2f}"
    noisy = ratio.half_width > NOISE_LIMIT
    margin = (math.log(ratio.high) - math.log(ratio.low)) / 2 if noisy else 0.0
    if math.log(ratio.low) - margin > math.log(max(at_least, 1 + LEAST_EFFECT)):
        return "faster", ""
    if math.log(ratio.high) + margin < math.log(1 - LEAST_EFFECT):
        return "slower", interval
    if noisy:
        return "too noisy", f"{interval}: wider than {NOISE_LIMIT:.0%} on either side"
    if at_least > 1 and ratio.low > 1 + LEAST_EFFECT:
        return "not shown", f"{interval}; at least {at_least:g} is required"
    return "not shown", interval
