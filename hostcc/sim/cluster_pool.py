"""Runs replays in several processes; what comes out does not depend on how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from hostcc.sim.cluster_run import ClusterResult

Case = Callable[[], ClusterResult]
"""A replay that can be pickled."""


def results(cases: Sequence[Case], workers: int) -> Iterator[tuple[int, ClusterResult]]:
    """Yield the index and result of each case, as they finish."""
    if workers < 2 or len(cases) < 2:
        for index, case in enumerate(cases):
            yield index, case()
        return
    with ProcessPoolExecutor(min(workers, len(cases)), mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(case): index for index, case in enumerate(cases)}
        try:
            for one in as_completed(waiting):
                yield waiting[one], one.result()
        except BaseException:
            # What has not begun is not begun because somebody waits for nothing.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
