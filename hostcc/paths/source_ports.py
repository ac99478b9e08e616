"""How many source ports have to be tried to find n paths, and to be sure of it.  Pure.

A switch's hash spreads ports over n equal paths like a fair die.  Seeing all n takes n H_n
ports on average (coupon collector); knowing that there is no further one takes more: after m
ports that showed k paths, one of k + 1 equal paths is still unseen with a probability of at
most (k + 1) (k / (k + 1))^m, which is the stopping rule of multipath traceroute (Augustin,
Friedman, Teixeira: Multipath tracing with Paris traceroute, 2007).
"""

from __future__ import annotations

import math

FIRST_PORT, LAST_PORT = 49152, 65535
"""RoCEv2's source ports, and the upper part of most hosts' range of TCP's."""


def expected_ports(paths: int) -> float:
    """Compute the mean number of ports until each of `paths` equal paths was seen: n H_n."""
    return paths * math.fsum(1 / k for k in range(1, paths + 1))


def missed_risk(paths: int, ports: int) -> float:
    """Bound the probability that `ports` ports which showed `paths` paths missed one."""
    if paths <= 0:
        return 1.0
    return min(1.0, (paths + 1) * (paths / (paths + 1)) ** ports)


def stop_after(paths: int, risk: float) -> int:
    """Compute the ports after which the risk that there are more than `paths` paths is below
    `risk`."""
    if paths <= 0:
        return 1
    return math.ceil(math.log(risk / (paths + 1)) / math.log(paths / (paths + 1)))


def candidate_ports() -> range:
    """Return ports in the order to try them.

    In order: a good hash does not care, and an XOR sends n = 2^b neighbours to n different paths.
    """
    return range(FIRST_PORT, LAST_PORT + 1)
