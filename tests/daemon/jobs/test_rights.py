"""Whose a job is, and what users may ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.config.sections.job import JobRequest
from hostcc.config.sections.users import UsersConfig
from hostcc.daemon.jobs import rights
from hostcc.errors import DeniedError, InputError, NoJobError
from hostcc.limits import JOB_NAME, is_job_name
from hostcc.system.processes import FLOPS, WEIGHT, Kind, Said

USERS = UsersConfig()


def test_names_are_by_user() -> None:
    assert rights.full_name("train", 1000) == "uid1000:train"
    assert rights.full_name("uid1000:train", 1000) == "uid1000:train"
    assert rights.full_name("uid7:train", 0) == "uid7:train"
    with pytest.raises(DeniedError, match="job uid7:train is of uid 7"):
        rights.full_name("uid7:train", 1000)
    with pytest.raises(InputError, match="at most 56 characters for uid 1000"):
        rights.full_name("x" * 57, 1000)
    assert is_job_name(rights.full_name("x" * 56, 1000))


@given(st.from_regex(JOB_NAME), st.integers(1, 2**32 - 2), st.integers(1, 2**32 - 2))
def test_no_two_users_have_a_name_in_common(name: str, one: int, other: int) -> None:
    names = set()
    for uid in {one, other}:
        try:
            names.add(rights.full_name(name, uid))
        except (InputError, DeniedError):
            names.add(f"refused {uid}")
    assert len(names) == len({one, other})


def test_which_job_is_meant() -> None:
    jobs = {"train", "uid7:train", "uid8:train", "slurm:5"}
    assert rights.named("train", 0, jobs) == "train"
    assert rights.named("slurm:5", 7, jobs) == "slurm:5"
    assert rights.named("train", 7, jobs) == "uid7:train"
    assert rights.named("train", 9, jobs) == "train", "which is not theirs to change"
    assert rights.named("uid8:train", 0, jobs) == "uid8:train"
    for name in ("uid8:train", "other"):
        with pytest.raises(NoJobError):
            rights.named(name, 7, jobs)


def test_owners() -> None:
    assert rights.owner_of("uid7:train", None) == 7
    assert rights.owner_of("slurm:5", 8) == 8
    rights.check_owner("slurm:5", 8, 8)
    rights.check_owner("slurm:5", None, 0)
    with pytest.raises(DeniedError, match="job slurm:5 is of uid 8"):
        rights.check_owner("slurm:5", 8, 7)
    with pytest.raises(DeniedError, match="job train is root's"):
        rights.check_owner("train", None, 7)


def test_what_users_may_ask_for() -> None:
    rights.check_request(JobRequest(weight=1.0), USERS, 7)
    rights.check_request(JobRequest(50.0, 1000, 1e12), UsersConfig(enabled=False), 0)
    for asked, words in (
        (JobRequest(weight=1.5), r"weight: expected at most 1 \(users.max_weight\), got 1.5"),
        (JobRequest(flops=1.0), "flops: users may declare none"),
        (JobRequest(bytes_per_iteration=1), "bytes_per_iteration: users may declare none"),
    ):
        with pytest.raises(DeniedError, match=words):
            rights.check_request(asked, USERS, 7)
    with pytest.raises(DeniedError, match=r"users\.enabled"):
        rights.check_request(JobRequest(), UsersConfig(enabled=False), 7)
    rights.check_request(JobRequest(2.0, 5, 7.0), UsersConfig(max_weight=2.0, declare=True), 7)
    with pytest.raises(DeniedError, match="root has set its parameters"):
        rights.check_earlier("a", JobRequest(by_root=True), 7)
    rights.check_earlier("a", JobRequest(by_root=True), 0)


def test_what_users_jobs_do_not_get() -> None:
    none = UsersConfig(rdma=False, marks=False)
    assert rights.refused(none, None) == {}
    assert rights.refused(none, 7) == {
        "rdma": "users.rdma is false", "marks": "users.marks is false",
    }  # fmt: skip
    assert rights.refused(USERS, 7) == {}


def said(text: str, uid: int = 7, variable: str = WEIGHT) -> Said:
    return Said(variable, text, uid, 4711)


def test_environments_are_bounded() -> None:
    bounds = UsersConfig(max_weight=2.0)
    for those, weight, words in (
        ((said("1.5"),), 1.5, ""),
        ((said("50"),), 2.0, "50 is more than users.max_weight, 2"),
        ((said("50", uid=0),), 50.0, ""),
        ((said("nan"),), None, "expected a number from 0.01 to 100"),
        ((said("inf"), said("0.5")), 0.5, 'got "inf"'),
        ((said("", uid=0), said("-1"), said("0.1")), 0.1, "expected a number"),
        ((said("50", uid=0), said("0.5")), 50.0, ""),
    ):
        asked, why = rights.declared(those, Kind.SLURM, bounds)
        assert asked.weight == weight
        assert words in why
        assert bool(words) == bool(why)
    asked, why = rights.declared((said("50", uid=0),), Kind.KUBERNETES, bounds)
    assert (asked.weight, "users.max_weight" in why) == (2.0, True)
    asked, why = rights.declared((said("1e15", variable=FLOPS),), Kind.SLURM, bounds)
    assert (asked.flops, "users.declare" in why) == (None, True)
    asked, _ = rights.declared((said("1e15", 0, FLOPS),), Kind.SLURM, bounds)
    assert asked.flops == 1e15
    asked, why = rights.declared((said("1"),), Kind.SLURM, UsersConfig(enabled=False))
    assert (asked.weight, "users.enabled" in why) == (None, True)
