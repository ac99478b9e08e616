"""The NVML adapter against a library that answers the same calls (nvml_fake.c)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.measure.nvml_world import build, run

pytestmark = [pytest.mark.unit, pytest.mark.slow]

HOPPER = (
    "H = dict(devices=1, d0__cc=90, d0__cores=16896, d0__clock=1500, d0__maxclock=1980,"
    " d0__gpm=1, d0__metric__2=95, d0__metric__5=80, d0__metric__7=80, d0__metric__12=2,"
    " d0__util=99, d0__procs='41,42', d0__use='41:60,42:20')\nworld(**H)\n"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


def test_without_a_driver(tmp_path: Path) -> None:
    script = (
        "a = show(nvml.sample()); b = show(nvml.sample()); nvml.close(); json.dump([a, b],"
        " sys.stdout)"
    )
    try:
        import ctypes

        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        pass
    else:
        pytest.skip("not on this machine: the absence of an NVIDIA driver")
    first, second = run(None, tmp_path, script)
    assert first == second == {"why": first["why"], "readings": []}
    assert "libnvidia-ml" in first["why"]


def test_counters(library: Path, tmp_path: Path) -> None:
    script = HOPPER + (
        "out = [show(nvml.sample())]\ntick(); out.append(show(nvml.sample()))\n"
        "change(d0__clock=1700)\ntick(0.2); out.append(show(nvml.sample()))\n"
        "import pynvml\nnvml.close()\n"
        "out.append(pynvml.nvmlLib.fake_live_samples())\njson.dump(out, sys.stdout)"
    )
    first, second, third, left = run(library, tmp_path, script)
    assert first == {"why": "", "readings": []}
    [reading] = second["readings"]
    assert reading == {
        "uuid": "GPU-0",
        "name": "Stand-in",
        "capability": [9, 0],
        "sms": 132.0,
        "max_clock": 1980e6,
        "span": 0.1,
        "clock": 1500e6,
        "sm": 0.95,
        "pipes": {"tensor": 0.8, "fp32": 0.02},
        "util": 0.99,
        "pids": [41, 42],
        "use": {"41": 60.0, "42": 20.0},
        "busy": 0.95,
    }
    assert third["readings"][0]["clock"] == 1600e6
    assert third["readings"][0]["span"] == 0.2
    assert left == 0


def test_work_split_between_jobs(library: Path, tmp_path: Path) -> None:
    script = HOPPER + (
        "nvml.sample(); tick(); done = attribute(nvml.sample().readings, {41: 'a', 42: 'b'})\n"
        "json.dump({j: [i.flop, i.busy, str(i.source)] for j, i in done.items()}, sys.stdout)"
    )
    done = run(library, tmp_path, script)
    whole = 0.1 * 132 * 1500e6 * (0.8 * 4096 + 0.02 * 256)
    assert done["a"] == [pytest.approx(whole * 0.75), pytest.approx(0.95 * 0.75), "counters"]
    assert done["b"] == [pytest.approx(whole * 0.25), pytest.approx(0.95 * 0.25), "counters"]


def test_what_is_missing_is_none(library: Path, tmp_path: Path) -> None:
    script = (
        "world(devices=2, d0__procs=7, d1__cc=80, d1__sms=108, d1__clock=1410, d1__util=50,"
        " d1__procs='7,8')\nnvml.sample(); tick(); s = nvml.sample()\n"
        "done = attribute(s.readings, {7: 'a'})\n"
        "json.dump([show(s), done['a'].flop, str(done['a'].source)], sys.stdout)"
    )
    shown, flop, source = run(library, tmp_path, script)
    bare, ampere = shown["readings"]
    for key in ("capability", "sms", "max_clock", "clock", "sm", "util", "use", "busy"):
        assert bare[key] is None, key
    assert bare["pids"] == [7]
    assert ampere["util"] == ampere["busy"] == 0.5
    assert ampere["use"] is None  # the driver does not tell: processes count alike
    assert flop is None  # one of the job's two GPUs is unknown
    assert source == "unknown"


def test_a_failing_call_costs_its_value_only(library: Path, tmp_path: Path) -> None:
    functions = (
        "nvmlGpmSampleGet",
        "nvmlGpmMetricsGet",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetProcessUtilization",
    )
    script = HOPPER + (
        f"out = []\nfor name in {functions!r}:\n"
        "    nvml.sample(); tick(5); change(**{'fail.' + name: 3})\n"
        "    out.append(show(nvml.sample())['readings'][0]); tick(5); world(**H)\n"
        "tick(5); nvml.sample(); tick(5); out.append(show(nvml.sample())['readings'][0])\n"
        "json.dump(out, sys.stdout)"
    )
    no_sample, no_metrics, no_clock, no_processes, no_rate, no_use, whole = run(
        library, tmp_path, script
    )
    for reading in (no_sample, no_metrics):
        assert reading["pipes"] == {}
        assert reading["busy"] == 0.99
    assert no_clock["clock"] == 1500e6  # from the look before
    assert no_processes["pids"] == []
    assert no_rate["util"] is None
    assert no_rate["busy"] == 0.95
    assert no_use["use"] is None
    assert whole["pipes"]["tensor"] == 0.8


def test_a_gpu_in_parts(library: Path, tmp_path: Path) -> None:
    script = (
        "world(devices=1, d0__cc=90, d0__cores=16896, d0__clock=1000, d0__gpm=1, d0__mig=1,"
        " d0__m0__gi=3, d0__m0__sms=16, d0__m0__ci_slices=1, d0__m0__gi_slices=2,"
        " d0__m0__procs=51, d0__m2__gi=3, d0__m2__sms=16, d0__m2__ci_slices=1,"
        " d0__m2__gi_slices=2, d0__m2__procs=52, d0__m5__gi=9, d0__m5__sms=60,"
        " d0__m5__ci_slices=4, d0__m5__gi_slices=4, d0__m5__procs=53,"
        " d0__gi3__metric__5=50, d0__gi9__metric__5=10)\n"
        "nvml.sample(); tick(1); s = nvml.sample()\n"
        "done = attribute(s.readings, {51: 'a', 52: 'b', 53: 'b'})\n"
        "json.dump([show(s), {j: [i.flop, i.gpus] for j, i in done.items()}], sys.stdout)"
    )
    shown, done = run(library, tmp_path, script)
    third, ninth = shown["readings"]
    assert (third["uuid"], third["sms"], third["pids"]) == ("GPU-0/gi3", 32.0, [51, 52])
    assert (ninth["uuid"], ninth["sms"], ninth["pids"]) == ("GPU-0/gi9", 60.0, [53])
    half = 0.5 * 32 * 4096 * 1e9 / 2
    assert done["a"] == [pytest.approx(half), ["GPU-0/gi3"]]
    assert done["b"] == [pytest.approx(half + 0.1 * 60 * 4096 * 1e9), ["GPU-0/gi3", "GPU-0/gi9"]]


def test_a_driver_that_is_reloaded(library: Path, tmp_path: Path) -> None:
    script = HOPPER + (
        "nvml.sample(); tick(); out = [show(nvml.sample())]\n"
        "change(**{'fail.nvmlDeviceGetClockInfo': 9, 'fail.nvmlInitWithFlags': 9})\n"
        "tick(); out.append(show(nvml.sample()))\n"
        "tick(); out.append(show(nvml.sample()))\n"
        "tick(11); out.append(show(nvml.sample()))\n"
        "world(**H); tick(1); out.append(show(nvml.sample()))\n"
        "tick(11); nvml.sample(); tick(); out.append(show(nvml.sample()))\n"
        "import pynvml\nout.append(pynvml.nvmlLib.fake_inits())\njson.dump(out, sys.stdout)"
    )
    before, lost, still, again, early, back, inits = run(library, tmp_path, script)
    assert len(before["readings"]) == len(back["readings"]) == 1
    for gone in (lost, still, again, early):
        assert gone == {"why": "the NVIDIA driver is not loaded", "readings": []}
    assert inits == 2


def test_gpus_that_come_and_go(library: Path, tmp_path: Path) -> None:
    script = HOPPER + (
        "nvml.sample(); tick(); out = [show(nvml.sample())]\n"
        "change(devices=2); tick(); out.append(show(nvml.sample()))\n"
        "tick(31); nvml.sample(); tick(); out.append(show(nvml.sample()))\n"
        "change(devices=0); tick(31); out.append(show(nvml.sample()))\n"
        "json.dump([[r['uuid'] for r in o['readings']] for o in out] + [out[-1]['why']],"
        " sys.stdout)"
    )
    assert run(library, tmp_path, script) == [
        ["GPU-0"],
        ["GPU-0"],
        ["GPU-0", "GPU-1"],
        [],
        "no GPU",
    ]


def test_nobody_waits_for_a_driver_that_hangs(library: Path, tmp_path: Path) -> None:
    """The thread hangs in the library for a minute; the process ends all the same."""
    script = HOPPER + (
        "import hostcc.measure.gpu.poller as module\nmodule.STALLED_S = 0.2\n"
        "poller = Poller(Nvml, 0.01)\n"
        "poller.start()\nfound = []\n"
        "while len(found) < 3:\n    found += poller.take(); time.sleep(0.005)\n"
        "change(hang_ms=60000)\n"
        "while not poller.stalled:\n    time.sleep(0.005)\n"
        "poller.take(); left = poller.take()\n"
        "json.dump([len(found[0].readings), left, poller.stop(0.05)], sys.stdout)"
    )
    assert run(library, tmp_path, script) == [1, [], False]
