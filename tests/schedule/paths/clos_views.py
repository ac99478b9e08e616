"""Views of two- and three-layer fabrics as hosts find them: host links first and last, link names
of which nothing but their order on a path tells where they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable

Sent = tuple[str, str, str, float, str]
"""Job, source host, destination host, bytes, present path or ""."""


def two_layers(
    sent: Sequence[Sent],
    *,
    per_tor: int = 4,
    spines: int = 3,
    dead: Collection[str] = (),
    missed: Collection[tuple[str, str, str]] = (),
) -> ClusterView:
    """Hosts h0, h1 ... with `per_tor` on each ToR. `dead`: links as "t0s1" or "s1t0";
    `missed`: (source, destination, path) that a search has not found."""

    def paths(src: int, dst: int) -> dict[str, tuple[str, ...]]:
        a, b = src // per_tor, dst // per_tor
        if a == b:
            return {"here": (f"h{src}>", f">h{dst}")}
        return {
            f"p{s}": (f"h{src}>", name(f"t{a}s{s}"), name(f"s{s}t{b}"), f">h{dst}")
            for s in range(spines)
        }

    return _view(sent, paths, dead, missed)


def three_layers(
    sent: Sequence[Sent],
    *,
    tors: int = 2,
    planes: int = 2,
    cores: int = 2,
    dead: Collection[str] = (),
    missed: Collection[tuple[str, str, str]] = (),
) -> ClusterView:
    """Two hosts on a ToR, `tors` ToRs in a pod. Links: "t0a1" from ToR 0 to aggregation 1 of its
    pod, "a0.1c2" from aggregation 1 of pod 0 to core 2 of plane 1, and back."""

    def paths(src: int, dst: int) -> dict[str, tuple[str, ...]]:
        a, b = src // 2, dst // 2
        if a == b:
            return {"here": (f"h{src}>", f">h{dst}")}
        p, q = a // tors, b // tors
        found: dict[str, tuple[str, ...]] = {}
        for plane in range(planes):
            up, down = name(f"t{a}a{plane}"), name(f"a{plane}t{b}")
            if p == q:
                found[f"p{plane}"] = (f"h{src}>", up, down, f">h{dst}")
                continue
            for core in range(cores):
                high = name(f"a{p}.{plane}c{core}"), name(f"c{core}a{q}.{plane}")
                found[f"p{plane}.{core}"] = (f"h{src}>", up, *high, down, f">h{dst}")
        return found

    return _view(sent, paths, dead, missed)


def name(link: str) -> str:
    """Name a link as a router's address would: the same everywhere, and without any sense."""
    rng = random.Random(link)
    return f">10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}"


def _view(
    sent: Sequence[Sent],
    paths: Callable[[int, int], Mapping[str, tuple[str, ...]]],
    dead: Collection[str],
    missed: Collection[tuple[str, str, str]],
) -> ClusterView:
    flows, tables, links = [], {}, dict[str, float]()
    failed = {name(link) for link in dead}
    for number, (job, src, dst, size, on) in enumerate(sent):
        flows.append(Flow(f"{src}/f{number}", job, src, dst, size, path=on))
        found = paths(int(src[1:]), int(dst[1:]))
        table = PathTable(
            src,
            dst,
            tuple(Path(at, way) for at, way in found.items() if (src, dst, at) not in missed),
        )
        tables[src, dst] = table
        for path in table.paths:
            # Hosts' own links are ten times as fast, so that they never matter.
            links |= {
                link: 0.0 if link in failed else 10.0 if link.strip(">").startswith("h") else 1.0
                for link in path.links
            }
    jobs = tuple(JobProfile(job, 1.0, 1.0, 1.0, 8.0) for job in sorted({one[0] for one in sent}))
    return ClusterView(jobs, tuple(flows), tuple(tables.values()), tuple(links.items()), digest="d")
