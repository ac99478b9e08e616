"""`hostcc compare` against an agent in memory, on a clock of its own."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from hostcc.cli import compare
from hostcc.cli.main import main
from hostcc.client import RefusedError
from hostcc.errors import Exit, HostccError, InputError, NoAgentError
from hostcc.measure.series import series
from tests.daemon.api.recorded import status as recorded_status

pytestmark = pytest.mark.unit

PERIOD_S = {"off": 0.30, "mltcp": 0.24, "static": 0.28}
SIZE = 2_000_000
BIN_NS = 1_000_000


class Agent:
    """Jobs whose iterations are longer under some modes; what was asked of it."""

    def __init__(self, periodic: tuple[str, ...] = ("train",), silent: bool = False) -> None:
        self.now_s = 1000.0
        self.mode = "mltcp"
        self.borrowed: list[tuple[float, str | None]] = []
        self.together: list[float] = []
        self.spans: list[tuple[float, str]] = [(0.0, "mltcp")]
        self.periodic, self.silent = periodic, silent
        self.dies_at_s = float("inf")
        self.ends_at_s: dict[str, float] = {}
        self.gates = True
        self.state = "active"
        self.period_s, self.confidence = 0.25, 0.9

    def ask(self, path: Path, op: str, timeout_s: float = 15.0, **fields: Any) -> dict[str, Any]:
        if self.now_s >= self.dies_at_s:
            raise NoAgentError("no agent")
        found: dict[str, Any] = getattr(self, f"_{op}")(**fields)
        return json.loads(json.dumps(found))  # type: ignore[no-any-return]

    def sleep(self, for_s: float) -> None:
        self.now_s += for_s

    def _status(self) -> dict[str, Any]:
        status: Any = msgspec.to_builtins(recorded_status())
        status["agent"]["state"], status["agent"]["reason"] = self.state, "rolled back"
        row = status["jobs"][0]
        status["jobs"] = [{**row, "name": name} for name in ("train", "idle")]
        return dict(status)

    def _borrow(
        self, mode: str | None = None, alike: bool = False, together_s: float = 0.0
    ) -> dict[str, Any]:
        self.borrowed.append((self.now_s, mode))
        if together_s:
            assert (mode, alike) == ("static", True)
            self.together.append(together_s)
        if (mode or "mltcp") != self.mode:
            self.mode = mode or "mltcp"
            self.spans.append((self.now_s, self.mode))
        return {"mode": self.mode, "hosts_told": 0, "together": self.gates, "lease_s": 15.0}

    def _profile(self, job: str, series: bool = False) -> dict[str, Any]:
        if self.now_s >= self.ends_at_s.get(job, float("inf")):
            raise RefusedError("no-job", f"no job {job} on this host")
        periodic = job in self.periodic
        figures: dict[str, Any] = {"periodic": periodic, "mean_period_s": self.period_s}
        figures["confidence"] = self.confidence
        figures |= {"tx_bytes": SIZE, "rx_bytes": 0}
        answer: dict[str, Any] = {"schema": "hostcc.profile/1", "job": job, "profile": figures}
        if not periodic:
            figures["reason"] = "it sends all the time"
        if series and not self.silent:
            answer["recording"] = self._recording()
        return answer

    def _recording(self) -> dict[str, Any]:
        # The last sixteen seconds: a burst of two fifths of an iteration, by the mode of then.
        bins = np.zeros(16_000, np.int64)
        start_s = self.now_s - 16.0
        at_s = start_s
        while at_s < self.now_s:
            mode = [name for since_s, name in self.spans if since_s <= at_s][-1]
            period_s = PERIOD_S[mode]
            first, last = (
                round((at_s - start_s) * 1000),
                round((at_s - start_s + 0.4 * period_s) * 1000),
            )
            share = bins[first:last]
            share += SIZE // round(400 * period_s)
            at_s += period_s

        def packed(values: Any) -> str:
            return base64.b64encode(values.tobytes()).decode()

        none = packed(np.empty(0))
        return {
            "bin_ns": BIN_NS, "start_ns": round(start_s * 1e9), "tx": packed(bins),
            "rx": packed(np.zeros_like(bins)), "links": {}, "flop": None,
            "busy_start_s": none, "busy_end_s": none, "busy": none,
        }  # fmt: skip


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    made = Agent()
    monkeypatch.setattr(compare, "ask", made.ask)
    clock = SimpleNamespace(sleep=made.sleep, monotonic=lambda: made.now_s)
    monkeypatch.setattr(compare, "time", clock)
    return made


def call(*words: str) -> int:
    return main(["compare", *words])


def test_the_factor_is_found(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--for", "10m", "--seed", "3", "--json") == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["modes"]) == ("hostcc.compare/1", ["off", "mltcp"])
    assert (found["other_hosts"], found["in_step"]) == (0, True)
    (job,) = found["jobs"]
    off, mltcp = job["figures"]
    assert off["mean_s"]["value"] == pytest.approx(0.30, rel=0.01)
    assert mltcp["mean_s"]["value"] == pytest.approx(0.24, rel=0.01)
    assert mltcp["gain"]["value"] == pytest.approx(1.25, rel=0.01)
    assert mltcp["gain"]["low"] <= 1.25 * 1.005
    assert agent.borrowed[-1] == (agent.now_s, None)
    assert agent.mode == "mltcp"


def test_the_mode_is_asked_for_before_it_ends(agent: Agent) -> None:
    call("--for", "5m", "--modes", "off,static,mltcp")
    asked = [at_s for at_s, _ in agent.borrowed]
    assert max(later - earlier for earlier, later in itertools.pairwise(asked)) <= 7.5
    assert len(agent.together) % 3 == 0
    assert set(agent.together) == {0.25}
    order = [mode for _, mode in agent.borrowed if mode != "static"]
    assert order[:20] != order[20:40] or len(set(order)) > 1


def test_long_iterations_are_asked_for_all_the_time(agent: Agent) -> None:
    plan = compare.schedule(100.0, 24 * 3600.0, 2)
    assert plan.step_s == 100
    assert compare.schedule(130.0, 24 * 3600.0, 2).step_s == 120
    agent.period_s = 20.0
    call("--for", "3h")
    asked = [at_s for at_s, _ in agent.borrowed]
    assert max(later - earlier for earlier, later in itertools.pairwise(asked)) <= 7.5


def test_recordings_that_overlap_are_one() -> None:
    burst = np.where(np.arange(60_000) % 250 < 100, SIZE // 100, 0)
    whole = series(burst, None, BIN_NS, 5 * 10**9)
    subject = compare.Subject("train", 0.25, SIZE)
    pieces = [whole.part(at - 16_000, at) for at in range(20_000, 60_001, 10_000)]
    times = compare.iteration_times(pieces, subject, since_s=10.0)
    assert times == pytest.approx([0.25] * len(times))
    assert len(times) in (218, 219)
    # Twenty seconds are missing in the middle, and no iteration is made of them.
    several = compare.iteration_times([pieces[0], pieces[-1]], subject, since_s=10.0)
    assert several == pytest.approx([0.25] * len(several))
    assert len(several) in range(120, 124)
    other = series(burst[::2], None, 2 * BIN_NS, whole.end_ns)
    assert len(compare.iteration_times([*pieces, other], subject, 10.0)) > len(times)
    assert compare.iteration_times([], subject, 10.0) == ()


def test_a_table_for_people(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--jobs", "train", "--seed", "1") == Exit.OK
    shown = capsys.readouterr().out
    assert "1.25" in shown
    assert "confidence" in shown
    assert "Switched: this host alone" in shown
    assert "in step" not in shown
    agent.gates = False
    assert call("--jobs", "train", "--seed", "1") == Exit.OK
    assert "Blocks did not begin in step" in capsys.readouterr().out


def test_too_few_iterations_are_no_answer(agent: Agent, capsys: pytest.CaptureFixture[str]) -> None:
    agent.silent = True
    assert call("--for", "3m") == Exit.FAILED
    assert "not enough iterations: 0 in " in capsys.readouterr().out


def test_a_job_that_ends_costs_the_others_nothing(
    agent: Agent, capsys: pytest.CaptureFixture[str]
) -> None:
    agent.periodic, agent.ends_at_s = ("train", "idle"), {"idle": agent.now_s + 60}
    assert call("--for", "10m", "--seed", "3", "--json") == Exit.FAILED
    train, idle = json.loads(capsys.readouterr().out)["jobs"]
    assert train["figures"][1]["gain"]["value"] == pytest.approx(1.25, rel=0.01)
    assert idle["figures"] == []
    assert "not enough iterations" in idle["reason"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--for", "10x"), "--for: expected a time like 90s"),
        (("--for", "30s"), "--for: expected at least 82s for 3 rounds"),
        (("--for", "0"), "--for: expected at most 24 h"),
        (("--modes", "off"), "--modes: expected at least two of off, mltcp, static"),
        (("--modes", "off,off"), "--modes: expected at least two"),
        (("--modes", "off,best"), "--modes: expected at least two"),
        (("--jobs", "a b"), "--jobs: expected"),
    ],
)
def test_wrong_words(
    agent: Agent, words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words) == Exit.BAD_INPUT
    assert expected in capsys.readouterr().err
    assert agent.borrowed == []


def test_jobs_without_iterations(agent: Agent) -> None:
    with pytest.raises(HostccError, match="job idle has no iterations to compare: it sends all"):
        compare.subjects_of(Path("s"), ["idle"])
    agent.confidence = 0.6
    with pytest.raises(HostccError, match=r"job train has no .*: its pattern is not sure yet"):
        compare.subjects_of(Path("s"), ["train"])
    agent.periodic = ()
    with pytest.raises(HostccError, match="no job here has a known pattern"):
        compare.subjects_of(Path("s"), [])
    agent.state = "observing"
    with pytest.raises(HostccError, match="nothing to compare: rolled back"):
        compare.subjects_of(Path("s"), [])


def test_what_was_before_is_given_back_after_a_failure(agent: Agent) -> None:
    def failing() -> None:
        with compare.borrowing(Path("s")) as borrow:
            borrow("off")
            raise InputError("something")

    with pytest.raises(InputError):
        failing()
    assert agent.mode == "mltcp"
    agent.dies_at_s = agent.now_s + 60
    assert call("--for", "5m") == Exit.NO_AGENT  # and no traceback of giving back
