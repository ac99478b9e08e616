"""What `hostcc status` says of RDMA: what jobs are told, their queue pairs, turns at PCIe links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostcc.answers.parts import (
    DcqcnPart,
    Part,
    PciePart,
    QueuePair,
    RdmaJob,
    RdmaPlanPart,
    SharedLink,
    ToldRdma,
)
from hostcc.cli.common import size

ENDS_SHOWN = 8
"""Pairs of addresses of one job."""


def lines(parts: Iterable[Part]) -> list[str]:
    """The parts `rdma-plan`, `pcie` and `dcqcn` of the answer, for people."""
    shown: list[str] = []
    for part in parts:
        match part:
            case RdmaPlanPart():
                shown += [line for job in part.rdma if _is_used(job) for line in _job(job)]
                shown += [f"RDMA paths {ends}: {why}" for ends, why in part.unknown.items()]
            case PciePart():
                shown += [_link(link) for link in part.shared_links]
            case DcqcnPart():
                shown += [f"DCQCN {target}: {value}" for target, value in part.set.items()]
    return shown


def _is_used(job: RdmaJob) -> bool:
    """Every job is told something; those without RDMA are of no interest here."""
    return bool(job.processes)


def _job(job: RdmaJob) -> list[str]:
    told = job.told
    words = ["no plan"] if told is None else _told(told)
    seen = f"{_count(job.queue_pairs, 'queue pair')} of {_count(job.processes, 'process')}"
    words += [seen, f"{size(job.bytes)} in {_count(job.iterations, 'iteration')}"]
    words += [f"{job.moves} moved live"] if job.moves else []
    words += [f"{job.failed} could not be moved"] if job.failed else []
    words += [f"{job.left_alone} left alone for want of room"] if job.left_alone else []
    words += [f"{job.short} with short messages stay where they are"] if job.short else []
    ends: dict[tuple[str, str], list[QueuePair]] = {}
    for pair in job.largest:
        ends.setdefault((pair.source or pair.device, pair.destination), []).append(pair)
    made = [f"RDMA {job.job}: {', '.join(words)}"]
    made += [f"  {src} to {dst}: {_pairs(those)}"
             for (src, dst), those in list(ends.items())[:ENDS_SHOWN]]  # fmt: skip
    made += [f"  to {to}: {why}" for to, why in [*job.elsewhere.items()][:ENDS_SHOWN]]
    if len(ends) > ENDS_SHOWN:
        made.append(f"  and {len(ends) - ENDS_SHOWN} more")
    return made


def _told(told: ToldRdma) -> list[str]:
    dscp = "class as it is" if told.tclass is None else f"DSCP {told.tclass >> 2}"
    words = [f"level {told.level}", dscp]
    words += [f"at most F times {size(told.rate)}/s"] if told.rate is not None else []
    return [*words, "takes turns at PCIe"] if told.links else words


def _pairs(those: Sequence[QueuePair]) -> str:
    """Where queue pairs with the same ends are."""
    paths = sorted({pair.path or "" for pair in those})
    ports = sorted({pair.port for pair in those if pair.port})
    path = ", ".join(f"path {one}" if one else "path unknown" for one in paths)
    port = f"source port{'s' if len(ports) > 1 else ''} {' '.join(map(str, ports))}"
    classes = " ".join(str(one >> 2) for one in sorted({pair.tclass for pair in those}))
    return f"{path}, {port if ports else 'source port as the device likes'}, DSCP {classes}"


def _link(link: SharedLink) -> str:
    words = [f"{_count(link.participants, 'participant')}, {link.handovers} hand-overs"]
    words += [f"{link.rescues} rescued"] if link.rescues else []
    words += [f"{link.given_up} out of patience"] if link.given_up else []
    if link.utilisation is not None:
        words.append(f"{link.utilisation:.0%} full")
    words += ["contended"] if link.contended else []
    return f"PCIe {link.link}, shared by {', '.join(link.jobs)}: {', '.join(words)}"


def _count(number: int, what: str) -> str:
    if number == 1:
        return f"1 {what}"
    return f"{number} {what}{'es' if what.endswith('s') else 's'}"
