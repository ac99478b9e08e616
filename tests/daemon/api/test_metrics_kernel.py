"""What a scrape of an agent in the lab says of its job, against the job's own records."""

from __future__ import annotations

import threading
import urllib.request
from dataclasses import replace
from itertools import pairwise
from statistics import median

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hostcc.bpf.loader.netns import in_netns
from hostcc.lab import netns, phase, scenario
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.scenario_hosts import hosts_of
from hostcc.lab.variants import merge, resolve

pytestmark = pytest.mark.kernel

LISTEN = "127.0.0.1:9464"
ITERATIONS = 50
SKIPPED = 4
"""The agent's histogram leaves out the first iterations."""


class Scraper(threading.Thread):
    """Scrapes an agent in a network namespace until it is stopped; keeps the last answer that has
    a job's iterations: an agent may live a little longer than its jobs."""

    def __init__(self, namespace: str) -> None:
        super().__init__(daemon=True)
        self._where = netns.NAMESPACE_DIRECTORY / namespace
        self._over = threading.Event()
        self.text = ""

    def run(self) -> None:
        while not self._over.wait(0.1):
            try:
                text = in_netns(self._where, self._scrape)
            except OSError:
                continue
            if "hostcc_job_iteration_seconds_count{" in text:
                self.text = text

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _scrape(self) -> str:
        with urllib.request.urlopen(f"http://{LISTEN}/metrics", timeout=2) as answer:
            return str(answer.read().decode())


def test_the_mean_of_the_histogram_is_the_jobs_own() -> None:
    wanted = scenario.load(scenario.find("two-jobs"))
    control = resolve(("hostcc",), wanted)[0]
    assert control.agent is not None
    control = replace(control, agent=merge(control.agent, {"agent": {"metrics_listen": LISTEN}}))
    with Dumbbell(wanted.fabric, hosts_of(wanted)) as fabric:
        scraper = Scraper(fabric.namespace("h1"))
        scraper.start()
        plan = phase.PhasePlan(wanted, wanted.job, control, ITERATIONS, seed=1)
        try:
            measured = phase.run(fabric, plan, lambda _: None)
        finally:
            scraper.stop()
    job = wanted.job[0].name
    samples = {
        (one.name, one.labels.get("training_job")): one.value
        for family in text_string_to_metric_families(scraper.text)
        for one in family.samples
    }
    count = samples["hostcc_job_iteration_seconds_count", job]
    mean = samples["hostcc_job_iteration_seconds_sum", job] / count
    times = measured.iterations[job]
    own = [later.start - one.start for one, later in pairwise(times)]
    own.append(times[-1].end - times[-1].start)
    over = SKIPPED + round(count)
    counted = own[SKIPPED:over]
    # The agent's iterations begin with what is sent: a job that stood still just before the first
    # or the last one has that time on the other side.
    edges = [*own[SKIPPED - 2 : SKIPPED + 2], *own[over - 2 : over + 2]]
    still_s = sum(max(0.0, one - median(own)) for one in edges)
    expected = sum(counted) / len(counted)
    assert count > ITERATIONS / 2
    assert mean == pytest.approx(expected, abs=0.01 * expected + still_s / count)
    assert samples["hostcc_part_up", None] == 1.0
