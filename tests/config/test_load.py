"""Files, drop-ins and refusals."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.config.load import MAX_FILE_BYTES, load, present
from hostcc.config.schema import Config
from hostcc.errors import Exit, InputError
from hostcc.system.validate import convert
from tests.refusals import is_one_line, refusal_of


def write(folder: Path, text: str, name: str = "h.toml") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[agent]\nhartbeat_s=1", "agent.hartbeat_s: expected one of the keys"),
        (
            "[agent]\nheartbeat_s='x'",
            'agent.heartbeat_s: expected a number from 0.1 to 60, got "x"',
        ),
        ("[agent]\nrun_dir='here'", 'agent.run_dir: expected an absolute path, got "here"'),
        ("[agent]\ncgroup_root='x'", 'agent.cgroup_root: expected "auto" or an absolute path'),
        ("[agent]\ninstance='a/b'", "agent.instance: expected 1 to 32 characters"),
        ("[agent]\nheartbeat_stale_s=0.6", "agent.heartbeat_stale_s: expected at least twice"),
        ("[agent]\nmetrics_listen=':::'", 'agent.metrics_listen: expected "ADDRESS:PORT"'),
        ("[agent]\nmetrics_listen='a:0'", "agent.metrics_listen: expected a port from 1"),
        (
            f"[agent]\nrun_dir='/{'x' * 100}'",
            "agent.run_dir: expected a socket path of at most 107",
        ),
        (
            "[agent]\nsocket='/x/s'\n[marks]\nsocket='/x/s'",
            'marks.socket: expected another path than the control socket, got "/x/s"',
        ),
        (
            "[marks]\nsocket='/x/s'\n[paths]\nenabled=true\nsource='telemetry'\nsocket='/x/s'",
            "paths.socket: expected another path than the marks socket",
        ),
        (
            "[agent]\nmetrics_listen='127.0.0.1:9'\n[gossip]\nenabled=true\nlisten='127.0.0.1:9'",
            "gossip.listen: expected another address than agent.metrics_listen",
        ),
        ("[mltcp]\nmode='foo'", 'mltcp.mode: expected one of "off", "mltcp", "static", got "foo"'),
        ("[mltcp]\nslope=-1", "mltcp.slope: expected F(1) from 0.01 to 100"),
        ("[mltcp]\nshape='exponential'\nslope=90", "mltcp.slope: expected F(1)"),
        ("[mltcp]\nshape='table'\ntable=[1]", "mltcp.table: expected at least 2 numbers"),
        ("[mltcp]\ndelay_target_min_us=2000", "mltcp.delay_target_max_us: expected delay_target"),
        ("[[job]]", "job[0].name: expected a value, got none"),
        ("[[job]]\nname='a b'", "job[0].name: expected 1 to 64 characters of"),
        ("[[job]]\nname='..'", "job[0].name: expected 1 to 64 characters of"),
        ("[[job]]\nname='a'\n[[job]]\nname='a'", 'job[1].name: expected a name used once, got "a"'),
        ("[[job]]\nname='a'\nmode='off'", "job[0].mode: expected one of the keys"),
        ("[[job]]\nname='a'\nweight=0", "job[0].weight: expected a number from 0.01 to 100, got 0"),
        ("[[job]]\nname='a'\nslope=-1", "job[0].slope: expected F(1)"),
        ("[[job]]\nname='a'\nlocal_ports=['9-7']", "job[0].local_ports: expected LOW-HIGH"),
        ("[[job]]\nname='a'\nlocal_ports=[0]", "job[0].local_ports[0]: expected a port from 1"),
        (
            "[[job]]\nname='a'\nlocal_ports=[5]\n[[job]]\nname='b'\nlocal_ports=['4-6']",
            'job[1].local_ports: expected ports that are not job a\'s already, got "4-6"',
        ),
        (
            "[[job]]\nname='a'\nlocal_ports=['1-20000']",
            "job[0].local_ports: expected at most 16384",
        ),
        ("[plan]\nlevels = 4", "plan.reserved: expected levels from 0 to 3"),
        ("[plan]\nlevels = 1\nreserved = [0]", "plan.reserved: expected levels from 0 to 0, and"),
        ("[plan]\norder = 'random'", "plan.order: expected one of"),
        (
            "[marking]\nenabled = true\ndscp = [1, 2]",
            "marking.dscp: expected a DSCP for each of plan.levels, 8",
        ),
        (
            "[marking]\nenabled = true\ndscp = [0, 0, 1, 2, 3, 4, 4, 0]",
            "marking.dscp: expected each DSCP once",
        ),
        ("[egress]\nqueues = 'htb'\ndevices = ['eth0']", "egress.queues: expected off without"),
        ("[marking]\nenabled = true\n[egress]\nqueues = 'prio'", "egress.devices: expected at"),
        ("[egress]\ndevices = ['eth0; reboot']", "egress.devices[0]: expected a network device"),
        ("[gossip]\nname='a/b'", "gossip.name: expected 1 to 64 characters of"),
        ("[gossip]\nlisten='host:1'", "gossip.listen: expected ADDRESS:PORT or [IPV6]:PORT"),
        ("[gossip]\nlisten='1.2.3.4:0'", "gossip.listen: expected ADDRESS:PORT or [IPV6]:PORT"),
        (
            "[gossip]\nlisten='10.0.0.1:7471'\nkeys=''",
            "gossip.listen: expected a loopback address without keys, unless insecure = true",
        ),
        ("[gossip]\nadvertise='0.0.0.0:1'", "gossip.advertise: expected ADDRESS:PORT"),
        ("[gossip]\nkeys='here'", "gossip.keys: expected an absolute path or nothing"),
        (
            "[gossip]\nseeds=['a@h:1', 'b@h:0']",
            (
                "gossip.seeds: expected NAME@HOST:PORT of each member, or dns:NAME:PORT, with a "
                "port from 1 to 65535"
            ),
        ),
        ("[gossip]\nseeds=['dns:10.0.0.1:7471']", "gossip.seeds: expected NAME@HOST:PORT"),
        ("[gossip]\nseeds=['dns:a.example']", "gossip.seeds: expected NAME@HOST:PORT"),
        ("[gossip]\nseeds=['10.0.0.1:7471']", "gossip.seeds: expected NAME@HOST:PORT"),
        ("job=3", "job: expected a list of 0 to 1023"),
        ("agent=1", "agent: expected a table, got 1"),
        ("a=", "expected TOML: Invalid value"),
        ("a=" + "9" * 5000, "expected TOML: "),
        ("a=" + "[" * 5000, "expected less deeply nested TOML"),
        ("[job]\nname='a'", "job: expected a list of 0 to 1023"),
    ],
)
def test_refusals_name_file_key_and_expectation(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status is Exit.BAD_INPUT


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable file, got: No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(InputError, match="expected a readable file, got: Is a directory"):
        load(tmp_path)
    (tmp_path / "x.toml").write_bytes(b"a='\xff'")
    with pytest.raises(InputError, match="byte 3: expected UTF-8"):
        load(tmp_path / "x.toml")
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(InputError, match="expected a file, got a pipe"):
        load(tmp_path / "pipe.toml")
    assert load(Path("/dev/null")) == Config()
    write(tmp_path, "#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(InputError, match="expected at most 1048576 bytes"):
        load(tmp_path / "h.toml")


def test_a_missing_default_file_means_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "none.toml", must_exist=False) == Config()
    assert not present(tmp_path / "none.toml")


def test_a_drop_in_alone_is_a_configuration(tmp_path: Path) -> None:
    write(tmp_path / "h.d", "[mltcp]\nslope=1", "10.toml")
    assert present(tmp_path / "h.toml")
    assert load(tmp_path / "h.toml", must_exist=False).mltcp.slope == 1


def test_drop_ins_win_key_by_key_in_the_order_of_their_names(tmp_path: Path) -> None:
    path = write(tmp_path, "[mltcp]\nslope=1\nintercept=0.5\n[[job]]\nname='a'\nweight=2")
    write(tmp_path / "h.d", "[mltcp]\nslope=3\n[[job]]\nname='b'", "20.toml")
    write(tmp_path / "h.d", "[mltcp]\nslope=2\n[[job]]\nname='a'\nbytes_per_iteration=5", "10.toml")
    write(tmp_path / "h.d", "nonsense", "30.toml.bak")
    config = load(path)
    assert (config.mltcp.slope, config.mltcp.intercept) == (3, 0.5)
    assert [(j.name, j.weight, j.bytes_per_iteration) for j in config.job] == [
        ("a", 2, 5),
        ("b", 1, None),
    ]


def test_the_file_that_set_the_key_is_blamed(tmp_path: Path) -> None:
    path = write(tmp_path, "[agent]\nheartbeat_s=1\nheartbeat_stale_s=2")
    second = write(tmp_path / "h.d", "[agent]\nheartbeat_stale_s=1.5", "x.toml")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{second}: agent.heartbeat_stale_s: ")


sections = st.dictionaries(
    st.sampled_from(["agent", "mltcp", "job", "other"]),
    st.dictionaries(
        st.sampled_from(["name", "weight", "slope", "shape", "table", "mode", "local_ports", "x"]),
        st.integers()
        | st.floats()
        | st.booleans()
        | st.sampled_from(["a", "off", "static", "table", "1-2", "0-0", "hostcc", ""])
        | st.lists(st.integers() | st.sampled_from(["5-6", "x"]), max_size=3),
        max_size=5,
    ).flatmap(lambda d: st.sampled_from([d, [d], [d, d]])),
    max_size=4,
)


@given(sections)
def test_any_document_is_a_config_or_one_line(document: dict[str, Any]) -> None:
    line = refusal_of(convert, document, Config, "F")
    assert not line or line.startswith("F: ")
    assert is_one_line(line)
