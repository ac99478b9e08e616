"""What the configuration means once it has been read."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from hostcc import limits
from hostcc.config.schema import Config, expand_ports, job_params, port_rules, variants
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.job import JobConfig, JobRequest
from hostcc.config.sections.mltcp import MltcpConfig
from hostcc.mltcp.params import Mode, Scope, ShapeKind, Variant

HEADER = Path(limits.__file__).parent / "bpf/programs/intf.h"


def test_limits_are_those_of_the_kernel_side() -> None:
    constants = dict(re.findall(r"(HCC_\w+) = (\d+)", HEADER.read_text()))
    assert int(constants["HCC_MAX_JOBS"]) == limits.MAX_JOBS
    assert int(constants["HCC_F_POINTS"]) == limits.F_POINTS
    assert int(constants["HCC_PORT_RULES"]) == limits.MAX_PORTS
    assert int(constants["HCC_CGROUPS"]) == limits.MAX_CGROUPS


def test_job_names() -> None:
    assert all(map(limits.is_job_name, ["a", "a.b:c-d_e", "...", "x" * 64]))
    assert not any(map(limits.is_job_name, ["", ".", "..", "a/b", "a b", "x" * 65, "a\n", "é"]))


def test_defaults_of_a_job_nobody_configured() -> None:
    params = job_params(Config(), "a", Mode.MLTCP)
    assert params.name == "a"
    assert params.variant is Variant.HOSTCC
    assert (params.shape.slope, params.shape.intercept) == (1.75, 0.25)
    assert params.silence_us is None
    assert params.bytes_per_iteration is None


def test_a_job_overrides_and_inherits() -> None:
    config = Config(
        mltcp=MltcpConfig(variant=Variant.CUBIC, slope=2.0, silence_us=5000),
        job=(
            JobConfig(
                name="a",
                intercept=0.5,
                silence_us=0,
                ratio_scope=Scope.FLOW,
                shape=ShapeKind.EXPONENTIAL,
                delay_target_max_us=900,
                weight=3,
                bytes_per_iteration=7,
            ),
        ),
    )
    params = job_params(config, "a", Mode.STATIC)
    assert params.variant is Variant.CUBIC
    assert (params.shape.kind, params.shape.slope) == (ShapeKind.EXPONENTIAL, 2.0)
    assert params.shape.intercept == 0.5
    assert params.silence_us is None
    assert job_params(config, "b", Mode.MLTCP).silence_us == 5000
    assert params.scope is Scope.FLOW
    assert (params.target_min_us, params.target_max_us) == (300, 900)
    assert (params.weight, params.static_weight, params.bytes_per_iteration) == (3, 3, 7)


def test_what_was_asked_at_run_wins() -> None:
    config = Config(job=(JobConfig(name="a", weight=3, bytes_per_iteration=7),))
    asked = JobRequest(weight=2.0, bytes_per_iteration=9)
    params = job_params(config, "a", Mode.STATIC, wishes=asked)
    assert (params.weight, params.static_weight, params.bytes_per_iteration) == (2, 2, 9)
    assert job_params(config, "a", Mode.STATIC, 0.5, asked).static_weight == 0.5


def test_ports() -> None:
    assert [list(r) for r in expand_ports((5, "7-9", "9-7", "0-3", "1-70000"))] == [
        [5],
        [7, 8, 9],
        [],
        [],
        [],
    ]
    config = Config(
        job=(
            JobConfig(name="a", local_ports=("10-11",), remote_ports=(12,)),
            JobConfig(name="b", local_ports=(12,)),
        )
    )
    assert port_rules(config) == {
        (10, False): "a",
        (11, False): "a",
        (12, True): "a",
        (12, False): "b",
    }


def test_only_variants_in_use() -> None:
    config = Config(job=(JobConfig(name="a", variant=Variant.DCTCP),))
    assert variants(config) == [Variant.HOSTCC, Variant.RENO, Variant.DCTCP]


def test_socket_path() -> None:
    assert Config().socket_path == Path("/run/hostcc/control.sock")
    assert Config(agent=AgentConfig(socket="/x/y")).socket_path == Path("/x/y")


def test_defaults_are_within_their_own_bounds() -> None:
    msgspec.convert(msgspec.to_builtins(AgentConfig()), AgentConfig)
    msgspec.convert(msgspec.to_builtins(MltcpConfig()), MltcpConfig)
