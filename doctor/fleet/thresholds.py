"""From where on a node is called slow, or different: every number that decides it, and why it is that number.

With 10,000 nodes of 30 measurements each, one in a thousand of which may be suspected although it is well, a single
measurement may be wrong once in 30,000 times, and more seldom where a node has several GPUs. A fixed z cannot promise
that: noise of real machines has heavier tails than a normal distribution. So three limits hold at once, and the widest
counts: the z that so many peers allow, the least difference that matters, and how far the peers' own tail would reach.
The tail is read off the better side, where nothing that is slow can hide it.
"""

from __future__ import annotations

import bisect
import math

# One healthy node in a thousand may be suspected; a margin of four is for what the fit of a tail does not know.
FALSE_SUSPECTS = 1e-3 / 4
# Less than 5 % is within what temperature, placement and luck of the chip make (Megatron-LM's sniff test of GPUs takes
# 10 %, https://github.com/NVIDIA/Megatron-LM/pull/4662); what nobody would act on is no finding.
LEAST_EFFECT = 0.05
# Clocks and counters come in steps, so that the median deviation of many peers is 0.
LEAST_SPREAD = 0.005
MAD_TO_SIGMA = 1.4826  # of a normal distribution
# Of fewer values the median deviation tells nothing: one in 30,000 healthy ones has a robust z above 100 among 5.
FEWEST_PEERS = 6
# The robust z that one in 30,000 values of a normal distribution exceeds, by how many values there are (20 million
# made-up values each); never below 6, which leaves room for tails where there are too few values to see one.
_Z_OF_PEERS = ((6, 31.5), (8, 18.4), (10, 13.3), (12, 10.6), (16, 8.3), (20, 7.1), (30, 6.0))
# From so many values on, the better side's last 5 % show a tail: of 50 values its shape is known to 0.2.
TAIL_FROM = 1000
TAIL_SHARE = 0.05
_HEAVIEST_TAIL = 0.5  # beyond that a distribution has no variance
# Series of fewer show theirs together, from 30 values on, where a median deviation is worth something.
# (Each in its own standard deviations; together they must have TAIL_FROM values.)
POOLED_FROM = 30
# Below, nothing is suspected that is not half as far again from the median as the best ones are on their side; but one
# that is far too good to be true hides nobody who is twice as far out as the z asks for.
MIRROR = 1.5
MIRROR_SHARE = 0.02
# Times have a longer tail where they are worse. It is taken to go on as it does from the worst fifth to the worst
# twentieth of the values: far enough inside that a fleet of which one in fifty is slow hides none of them.
WORSE_FROM = 0.2
# Where more than this share of the peers would be suspects, the noise is one-sided, or they are a group of their own.
MOST_SUSPECTS = 0.025
A_FEW = 10  # so many may be exceptions in any fleet
# Against its own history a node is judged by how its peers changed; the fleet itself has changed by this much.
FLEET_CHANGE = 0.05

# A value of a setting is a legitimate one where a quarter of the nodes has it, or a batch of them: 20 nodes and 5 %.
GROUP_SHARE = 0.25
BATCH_NODES = 20
BATCH_SHARE = 0.05
# Only where legitimate values cover so much of the nodes is another one drift; else the setting differs everywhere.
COVERED = 0.6


def least_z(count: int) -> float:
    """The robust z from which on one of so many values is an outlier."""
    counts = [each for each, _ in _Z_OF_PEERS]
    if count >= counts[-1]:
        return _Z_OF_PEERS[-1][1]
    place = max(0, bisect.bisect_right(counts, count) - 1)
    (low, high_z), (high, low_z) = _Z_OF_PEERS[place], _Z_OF_PEERS[place + 1]
    share = math.log(count / low) / math.log(high / low)
    return math.exp((1 - share) * math.log(high_z) + share * math.log(low_z))


def reach_of_worse(start: float, end: float, chance: float) -> float:
    """How far an exponential tail reaches with that chance, that leaves WORSE_FROM at its start and TAIL_SHARE at its end."""
    return start + (end - start) * math.log(WORSE_FROM / chance) / math.log(WORSE_FROM / TAIL_SHARE)


def reach_of_tail(start: float, mean: float, weighted_mean: float, count: int, chance: float) -> float:
    """How far a tail reaches with that chance (of a value), by a generalized Pareto distribution of its last part.

    `start` is where the last TAIL_SHARE begins, the means are those of the excesses over it: plain, and weighted by the
    share of larger ones (Hosking and Wallis 1987, probability-weighted moments). Its shape counts as far as it is
    sure, for a wrong one would hide what is slow; a heavy tail gets room for what the fit leaves out of it (made-up
    noise of Student's t with 3 and 5 degrees of freedom, of 400 to 80,000 values).
    """
    if mean <= 0 or count < 2:
        return start
    raw = 2 - mean / (mean - 2 * weighted_mean) if mean > 2 * weighted_mean else _HEAVIEST_TAIL
    shape = min(_HEAVIEST_TAIL, max(0.0, raw - 0.8 / math.sqrt(count)))
    scale, times = mean * (1 - shape), TAIL_SHARE / chance
    beyond = scale * math.log(times) if shape < 1e-3 else scale / shape * (times**shape - 1)
    return (start + beyond) * (1 + 2 * shape)
