"""Measurement on the real kernel, used by its command line."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hostcc.client import ask
from hostcc.measure.meter_kernel import SETTLE_NS
from hostcc.measure.replay import received
from tests.daemon.profiling.wired import QUIET, THERE, WiredHost
from tests.real import PATIENCE_S, until

pytestmark = pytest.mark.kernel

PERIOD_S, SIZE = 0.16, 1_000_000
TIMES = 100_000
"""Bursts: more than there can be until the test ends, which ends the sender."""


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[WiredHost]:
    made = WiredHost(tmp_path, cgroup2)
    yield made
    made.close()
    assert made.ours() == set()


def test_a_job_with_bursts_is_profiled_kept_and_analysed_again(
    host: WiredHost, tmp_path: Path
) -> None:
    host.start(QUIET)
    host.sender(PERIOD_S, SIZE, TIMES, "", "train", "--flops", "2e12")
    got = host.until_known("train", PERIOD_S, SIZE)
    assert got["tx_bytes"] == pytest.approx(SIZE, rel=0.05)
    assert got["bytes_to"] == {THERE: pytest.approx(got["tx_bytes"])}
    assert (got["flop"], got["flop_source"]) == (2e12, "declared")
    kept, again = tmp_path / "series.npz", tmp_path / "again.png"
    words = ("profile", "train", "--record", str(kept), "--json")
    recorded: dict[str, Any] = {}

    # On a busy machine a pattern can be lost, and is learned again.
    def with_pattern() -> bool:
        recorded.update(json.loads(host.client(*words).stdout))
        period_s = (recorded.get("analysis") or {}).get("period_s")
        return bool(period_s and period_s == pytest.approx(PERIOD_S, rel=0.05))

    until(with_pattern, lambda: f"a recording with the pattern: {recorded}", PATIENCE_S)
    link: dict[str, Any] = {}

    def linked() -> bool:
        """Its time is that of the bytes that are known at the moment."""
        for one in host.profile("train").get("links", ()):
            link.update(one)
        wanted = pytest.approx(8 * SIZE / link.get("bits_per_s", 1.0), rel=0.05)
        return bool(link) and bool(link["time_s"] == wanted)

    until(linked, lambda: f"the link: {link}", PATIENCE_S)
    assert (link["name"], link["nominal"]) == ("eth0", True)
    done = host.client("profile", "--replay", str(kept), "--plot", str(again), "--json")
    replayed = json.loads(done.stdout)
    assert replayed["analysis"] == recorded["analysis"]
    assert again.read_bytes().startswith(b"\x89PNG")
    shown = "10 Gbit/s (nominal), t "
    until(lambda: shown in host.client("profile", "train").stdout, shown, PATIENCE_S)
    assert "train" in host.client("jobs", "--detail").stdout
    assert host.json("verify")["differences"] == []


def test_a_recording_ends_when_it_is_asked_for(host: WiredHost) -> None:
    host.start(QUIET)
    host.sender(PERIOD_S, SIZE, TIMES, "", "train")
    host.until_known("train", PERIOD_S, SIZE)
    got: Mapping[str, Any] = {}

    def regular() -> bool:
        """Only of a job that goes on as expected bins wait for long."""
        nonlocal got
        got = host.profile("train")
        return bool(got["confidence"] >= 0.7 and got["total_tx_bytes"] > 60 * SIZE)

    until(regular, lambda: str(got), PATIENCE_S)
    for _ in range(3):
        asked_ns = time.monotonic_ns()
        sent = ask(host.socket, "profile", job="train", series=True)["recording"]
        series = received("train", "here", sent).series
        assert series.end_ns > asked_ns - 2 * SETTLE_NS
        assert series.part(-2000).tx.sum() > 4 * SIZE


def test_a_job_without_a_rhythm_is_reported_as_such(host: WiredHost) -> None:
    host.start(QUIET)
    host.sender(0.08, SIZE // 8, TIMES, "random", "restless")
    got: Mapping[str, Any] = {}

    def seen_without() -> bool:
        """A sender that waits for a processor can look regular for a moment."""
        nonlocal got
        got = host.profile("restless")
        return (
            got.get("total_tx_bytes", 0) > 3 * SIZE
            and not got["periodic"]
            and "restless: no period: " in host.client("jobs", "--detail").stdout
        )

    until(seen_without, lambda: str(got), PATIENCE_S)
    assert got["period_s"] is None
    assert got["reason"]
    assert "W unknown: gpu.enabled is false" in host.client("jobs", "--detail").stdout


def test_start_up_is_not_in_the_iteration_times(host: WiredHost) -> None:
    host.start(QUIET)
    host.sender(PERIOD_S, SIZE, TIMES, "late", "train")
    found: dict[str, Any] = {}

    def several() -> bool:
        found.update(host.json("status")["jobs"][0])
        return bool(found["recent"]["iterations"] >= 20)

    until(several, lambda: f"20 iterations: {found}", PATIENCE_S)
    assert found["recent"]["p99_period_s"] < 3.0


def test_a_job_on_loopback_is_not_said_to_have_no_traffic(host: WiredHost) -> None:
    host.start(QUIET)
    host.sender(PERIOD_S, SIZE, TIMES, "", "inside", where="127.0.0.1")
    shown = "inside was seen to exchange over loopback only"
    until(lambda: shown in host.client("jobs", "--detail").stdout, shown, PATIENCE_S)
    until(lambda: shown in host.client("profile", "inside").stdout, shown, PATIENCE_S)
    sent = next(job for job in host.json("status")["jobs"] if job["name"] == "inside")
    assert sent["bytes_acked"] > SIZE


def test_only_a_job_that_sends_one_way_is_steered(host: WiredHost) -> None:
    host.start(QUIET)
    host.sender(PERIOD_S, SIZE, TIMES, "both", "ring")
    host.sender(PERIOD_S, SIZE, TIMES, "", "one-way")

    def job(name: str) -> Mapping[str, Any]:
        return next((row for row in host.json("status")["jobs"] if row["name"] == name), {})

    until(lambda: job("ring").get("direction") == "two-way", lambda: str(job("ring")), PATIENCE_S)
    until(lambda: job("one-way").get("stance") == "scaled", lambda: str(job("one-way")), PATIENCE_S)
    until(lambda: job("ring").get("stance") == "scaled", lambda: str(job("ring")), PATIENCE_S)
    until(
        lambda: job("ring")["plain_reason"] == "it receives while it sends",
        lambda: str(job("ring")),
        PATIENCE_S,
    )

    def steered() -> bool:
        seen = job("one-way")
        return (seen["direction"], seen["plain_reason"]) == ("one-way", None)

    until(steered, lambda: str(job("one-way")), PATIENCE_S)

    def row() -> str:
        return next(each for each in status().splitlines() if each.startswith("ring"))

    def status() -> str:
        return host.client("status").stdout

    until(lambda: " two-way " in row(), status)  # a late iteration on a busy machine is no proof
    assert host.json("verify")["differences"] == []


def test_marks_settle_the_period(host: WiredHost) -> None:
    host.start(QUIET)
    host.sender(PERIOD_S, SIZE, TIMES, "mark", "marked")
    words = "iterations by the job's marks"

    def by_marks(found: dict[str, Any]) -> bool:
        return (found["marks"] or 0) >= 5 and words in (found["reason"] or "")

    host.until_known("marked", PERIOD_S, SIZE, by_marks)


def test_an_observer_measures_what_it_finds_by_port(host: WiredHost) -> None:
    rule = f'[[job]]\nname = "ruled"\nremote_ports = [{host.port}]\nflops = 1e9\n'
    host.start(QUIET + rule, observe_only=True)
    host.sender(PERIOD_S, SIZE, TIMES)
    got = host.until_known("ruled", PERIOD_S, SIZE)
    assert got["flop"] == 1e9
    assert host.json("status")["agent"]["state"] == "observing"
    assert not (host.root / "hostcc").exists()


def test_a_job_of_somebody_elses_cgroup_is_found_managed_and_let_go(host: WiredHost) -> None:
    rule = "[discover]\nevery_s = 1\n[gpu]\nenabled = false\n"
    rule += '[[discover.unit]]\nunit = "train@*.service"\njob = "found"\n'
    host.start(rule)
    job = host.sender(PERIOD_S, SIZE, TIMES, group="train@1.service")
    host.until_known("found", PERIOD_S, SIZE)
    group = host.root / "train@1.service"
    detail = host.detail("found")
    assert detail["managed"] is True
    assert detail["how"].startswith("unit: unit train@1.service matches")
    assert detail["cgroup"] == str(group)
    assert "job-followed:found" in [c["id"] for c in host.json("changes")["in_force"]]
    job.kill()
    until(lambda: host.detail("found") == {}, "its end", PATIENCE_S)
    assert "job-followed:found" not in [c["id"] for c in host.json("changes")["in_force"]]
    assert group.exists()
    assert host.json("verify")["differences"] == []


def test_found_jobs_are_managed_again_by_another_engine_without_waiting_for_a_look(
    host: WiredHost,
) -> None:
    rule = "[discover]\nevery_s = 3600\n[gpu]\nenabled = false\n"
    rule += '[[discover.unit]]\nunit = "train@*.service"\njob = "found"\n'
    job = host.sender(PERIOD_S, SIZE, TIMES, group="train@1.service")
    agent = host.start(rule)

    def managed() -> bool:
        return bool(host.detail("found").get("managed"))

    until(managed, "the job", PATIENCE_S)
    assert host.client("rollback").returncode == 0
    assert not managed()
    assert host.client("unfair", "mltcp").returncode == 0
    until(managed, "the job after a roll-back", PATIENCE_S)
    host.configure(rule + '[mltcp]\nvariant = "cubic"\n')
    agent.send_signal(signal.SIGHUP)
    until(lambda: "configuration reloaded" in host.log(), "the reload", PATIENCE_S)
    until(managed, "the job after a reload", PATIENCE_S)
    job.kill()


def test_processes_without_a_cgroup_of_their_own_are_gathered_and_sent_home(
    host: WiredHost,
) -> None:
    home = host.root / "login"
    home.mkdir()
    host.start("[discover]\nevery_s = 1\n[gpu]\nenabled = false\n")
    environment = ["env", "RANK=0", "MASTER_ADDR=198.18.9.7", "MASTER_PORT=29500"]
    # It is seen to be a rank only when it is at home.
    enter = ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(home)]
    rank = host.spawn(*enter, *environment, "sleep", "3600")
    name = "rdv:198.18.9.7:uid0:29500"
    until(lambda: host.detail(name).get("managed") is True, "the job", PATIENCE_S)
    where = Path(f"/proc/{rank.pid}/cgroup")
    assert where.read_text().endswith(f"/{host.name}/hostcc/{name}\n")
    assert host.client("rollback").returncode == 0
    assert where.read_text().endswith(f"/{host.name}/login\n")
