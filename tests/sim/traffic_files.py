"""A small set of traffic files in the routing paper's format."""

from __future__ import annotations

from pathlib import Path

TOPOLOGY = """\
num_nodes=11
switches=incl_range(0,4)
switches_which_are_tors=incl_range(0,2)
cores=incl_range(3,4)
servers=incl_range(5,10)
undirected_edges=incl_range(0:2-3:4,5:6-0,7:8-1,9:10-2)
link_data_rate_bit_per_ns=100
"""
HEAD = "#src dst src_tor dst_tor start_time flow_size compute_time stage_index\n"


def write(folder: Path) -> Path:
    """Two sets of jobs on three ToRs, two spines, six NICs."""
    (folder / "topology.properties").write_text(TOPOLOGY)
    for name, jobs in (("jobs_2/ring_2", 2), ("jobs_10/ring_2", 1)):
        inner = folder / name
        inner.mkdir(parents=True)
        for job in range(jobs):
            rows = f"5 7 0 1 10 {100 + job} 20 0\n7 5 1 0 10 {100 + job} 20 0\n9 6 2 0 1 7 2 1\n"
            (inner / f"job_{job}-M_{job}.txt").write_text(HEAD + rows)
    return folder
