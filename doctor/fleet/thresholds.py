"""The thresholds beyond which a node counts as slow or different, with the reason for each number.

With 10,000 nodes of 30 measurements each, and one in a thousand healthy nodes allowed as a false suspect, a single
measurement may be wrong once in 30,000 times, and less often if a node has several GPUs. A fixed z cannot guarantee
that: the noise of real machines has heavier tails than a normal distribution. So there are three limits, and the widest
applies: the z for the number of peers, the smallest difference that matters, and the reach of the peers' own tail.
The tail is estimated from the better side, which slow values cannot distort.
"""

from __future__ import annotations

import bisect
import math

# One healthy node in a thousand may be suspected; the factor of four covers the uncertainty of the tail fit.
FALSE_SUSPECTS = 1e-3 / 4
# Less than 5 % is within the variation by temperature, placement and chip quality (the sniff test of Megatron-LM uses
# 10 %, https://github.com/NVIDIA/Megatron-LM/pull/4662); a difference too small to act on is not a finding.
LEAST_EFFECT = 0.05
# Clocks and counters are discrete, so the median deviation of many peers can be 0.
LEAST_SPREAD = 0.005
MAD_TO_SIGMA = 1.4826  # of a normal distribution
# With fewer values, the median deviation is meaningless: with 5, one in 30,000 healthy values has a robust z above 100.
FEWEST_PEERS = 6
# The robust z that one in 30,000 values of a normal distribution exceeds, by the number of values (20 million simulated
# values each); at least 6, to allow for tails where there are too few values to estimate one.
_Z_OF_PEERS = ((6, 31.5), (8, 18.4), (10, 13.3), (12, 10.6), (16, 8.3), (20, 7.1), (30, 6.0))
# From this number of values on, the last 5 % of the better side show a tail: 50 values give its shape to 0.2.
TAIL_FROM = 1000
TAIL_SHARE = 0.05
_HEAVIEST_TAIL = 0.5  # beyond this, a distribution has no variance
# Smaller series are pooled, from 30 values on, where a median deviation is meaningful.
# (Each is scaled by its own standard deviation; together they must have TAIL_FROM values.)
POOLED_FROM = 30
# Below that, a value is suspected only beyond 1.5 times the distance of the best values from the median. An implausibly
# good value cannot hide a value that is twice as far out as the z requires.
MIRROR = 1.5
MIRROR_SHARE = 0.02
# Times have a longer tail on the worse side. It is extrapolated from the range between the worst fifth and the worst
# twentieth of the values, so that a fleet with one slow node in fifty does not hide any of them.
WORSE_FROM = 0.2
# If more than this share of the peers would be suspects, the noise is one-sided, or they are a separate group.
MOST_SUSPECTS = 0.025
A_FEW = 10  # exceptions allowed in a fleet of any size
# More than that are a slow group if they are whole nodes: at least this share of the values of each, of three nodes or more,
# with a gap to the others, and alike. Noise that all devices of a node share has no gap (a short tail), or its nodes are not
# alike (a long one): of simulated fleets of 12 to 1,000 nodes, in which a tenth of the nodes was slower by an exponential of
# 6 to 30 standard deviations, 2 % had a group at most, and with Student's t of 2 or 3 degrees of freedom 0.2 %.
WHOLE = 0.75
FEWEST_SLOW_NODES = 3
MOST_STRAY = 0.25  # values of other nodes beyond the limit, as a share of those of the group
GAP, MOST_BETWEEN = 0.5, 0.1  # nodes beyond half of the limit, as a share of the nodes of the group
ALIKE = 0.2  # the standard deviation of the nodes of the group, as a share of their distance from the median
# Against its own history, a node is judged relative to the change of its peers; this is a change of the whole fleet.
FLEET_CHANGE = 0.05

# The kernel keeps a part of the memory for itself, which depends on its version and options: equal nodes lie on both sides
# of half a GiB. A module of 64 that is lost is 1.6 %.
SAME_MEMORY, SAME_MEMORY_GIB = 0.01, 1

# A value of a setting is legitimate if a quarter of the nodes has it, or a batch: 20 nodes and 5 %.
GROUP_SHARE = 0.25
BATCH_NODES = 20
BATCH_SHARE = 0.05
# Another value is drift only if legitimate values cover this share of the nodes; otherwise the setting varies in general.
COVERED = 0.6


def is_batch(nodes: int, total: int) -> bool:
    """Return whether so many nodes of so many are a batch that was bought or installed together."""
    return nodes >= BATCH_NODES and nodes >= BATCH_SHARE * total


def least_z(count: int) -> float:
    """Return the robust z beyond which one of `count` values is an outlier."""
    counts = [each for each, _ in _Z_OF_PEERS]
    if count >= counts[-1]:
        return _Z_OF_PEERS[-1][1]
    place = max(0, bisect.bisect_right(counts, count) - 1)
    (low, high_z), (high, low_z) = _Z_OF_PEERS[place], _Z_OF_PEERS[place + 1]
    share = math.log(count / low) / math.log(high / low)
    return math.exp((1 - share) * math.log(high_z) + share * math.log(low_z))


def reach_of_worse(start: float, end: float, chance: float) -> float:
    """Return the reach of an exponential tail at a chance, given where WORSE_FROM and TAIL_SHARE of the values remain."""
    return start + (end - start) * math.log(WORSE_FROM / chance) / math.log(WORSE_FROM / TAIL_SHARE)


def reach_of_tail(start: float, mean: float, weighted_mean: float, count: int, chance: float) -> float:
    """Return the reach of a tail at a chance (per value), by a generalized Pareto distribution of its last part.

    `start` is where the last TAIL_SHARE begins. The means are those of the excesses over it: plain, and weighted by the
    share of larger ones (Hosking and Wallis 1987, probability-weighted moments). The shape counts only as far as it is
    certain, because a wrong one would hide slow values. A heavy tail gets a margin for what the fit misses (simulated
    noise of Student's t with 3 and 5 degrees of freedom, 400 to 80,000 values).
    """
    if mean <= 0 or count < 2:
        return start
    raw = 2 - mean / (mean - 2 * weighted_mean) if mean > 2 * weighted_mean else _HEAVIEST_TAIL
    shape = min(_HEAVIEST_TAIL, max(0.0, raw - 0.8 / math.sqrt(count)))
    scale, times = mean * (1 - shape), TAIL_SHARE / chance
    beyond = scale * math.log(times) if shape < 1e-3 else scale / shape * (times**shape - 1)
    return (start + beyond) * (1 + 2 * shape)
