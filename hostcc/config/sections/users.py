"""What users other than root may do."""

from __future__ import annotations

from msgspec import Struct

from hostcc.config.sections.words import Weight


class UsersConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[users]`: jobs of users other than root.

    Who reaches the control socket is decided by agent.socket_group.
    """

    enabled: bool = True
    """Whether they may start jobs with `hostcc run` and change their own with `hostcc job`."""
    max_weight: Weight = 1.0
    """The largest weight of their jobs, by option or by HOSTCC_WEIGHT."""
    declare: bool = False
    """Whether they may declare FLOP or bytes per iteration, on which rank and F depend."""
    rdma: bool = True
    """Whether their jobs are in the plan of the RDMA shim."""
    marks: bool = True
    """Whether iteration marks of their jobs are taken."""
