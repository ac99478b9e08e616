"""Which sockets become a job's, new and old, by cgroup and by port; which stay their owner's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.lab.scenario import FabricSpec
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.params import JobParams, Mode, Variant
from tests.mltcp.stage import SLOT, Peer, Stage, delivered, follow, mltcp, state, until

pytestmark = pytest.mark.kernel

JOB = JobParams(name="mine", variant=Variant.CUBIC)
BYTES = 300_000


@pytest.fixture(scope="module")
def lab() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=200, buffer_packets=60), jobs=2) as made:
        yield made


@pytest.fixture
def stage(lab: Stage) -> Iterator[Stage]:
    yield lab
    lab.clear()


@pytest.fixture
def kernel() -> Iterator[MltcpKernel]:
    with mltcp() as made:
        yield made


def identity(group: Path) -> int:
    """What the kernel calls a cgroup."""
    return group.stat().st_ino


def finish(pairs: list[tuple[Peer, Peer]]) -> None:
    """Everybody still gets everything."""
    for sender, receiver in pairs:
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        assert delivered(sender, receiver) == BYTES


@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("variant", Variant)
def test_new_sockets_of_a_group(
    kernel: MltcpKernel, stage: Stage, variant: Variant, v6: bool
) -> None:
    follow(kernel, stage, JobParams(name="mine", variant=variant))
    sender, receiver = stage.pair()
    stage.dial(sender, receiver, flows=3, v6=v6)
    # A listener without DCTCP refuses the ECN of one that insists on it (test_dctcp_refused).
    runs = Variant.RENO if variant is Variant.DCTCP else variant
    assert sender.ask("controls") == [kernel.ca_names[runs]] * 3
    assert receiver.ask("accepted_controls", count=3) == ["cubic"] * 3
    assert state(kernel)["flows"] == 3
    rows = kernel.flows([stage.namespace(0)])
    assert set(rows["family"][rows["state"] == 1]) == {10 if v6 else 2}
    finish([(sender, receiver)])


def test_groups_below_a_job_belong_to_it(kernel: MltcpKernel, stage: Stage) -> None:
    follow(kernel, stage, JOB)
    pairs = [stage.pair(below=below) for below in ("job/part", "job/part/deeper", "joblike")]
    for sender, receiver in pairs:
        stage.dial(sender, receiver)
    ours = kernel.ca_names["cubic"]
    assert [sender.ask("controls") for sender, _ in pairs] == [[ours], [ours], ["cubic"]]
    finish(pairs)


@pytest.mark.parametrize("rules_first", [False, True])
@pytest.mark.parametrize("below", ["job", "job/part"])
def test_group_comes_before_rule(
    kernel: MltcpKernel, stage: Stage, below: str, rules_first: bool
) -> None:
    """New, accepted or old, a socket that both claim belongs to its group's job."""
    kernel.set_job(2, JobParams(name="ruled", variant=Variant.RENO))
    if rules_first:
        kernel.attach_root(Path(stage.fabric.state.cgroup))
    follow(kernel, stage, JOB)
    follow(kernel, stage, JOB, host=1)
    if not rules_first:
        kernel.attach_root(Path(stage.fabric.state.cgroup))
    sender, receiver = stage.pair(below=below)
    port = receiver.ask("listen", address=stage.host(1).address)
    kernel.set_port_rules({(port, True): 2, (port, False): 2})
    sender.ask("connect", address=stage.host(1).address, port=port)
    ours = [kernel.ca_names["cubic"]]
    assert sender.ask("controls") == receiver.ask("accepted_controls", count=1) == ours
    assert (state(kernel)["flows"], state(kernel, 2)["flows"]) == (2, 0)
    kernel.set_cgroup_ids({identity(stage.group(host, below)): SLOT for host in (0, 1)})
    for host in (0, 1):
        kernel.switch_sockets([stage.namespace(host)])
        assert set(kernel.flows([stage.namespace(host)])["slot"]) == {SLOT}
    assert sender.ask("controls") == receiver.ask("accepted_controls", count=1) == ours
    assert (state(kernel)["flows"], state(kernel, 2)["flows"]) == (2, 0)
    assert {event["slot"] for event in kernel.events()} <= {SLOT}
    finish([(sender, receiver)])


def test_group_gets_back_sockets_that_a_rule_had(kernel: MltcpKernel, stage: Stage) -> None:
    """They were open before the group was a job's."""
    kernel.set_job(2, JobParams(name="ruled", variant=Variant.RENO))
    kernel.attach_root(Path(stage.fabric.state.cgroup))
    sender, receiver = stage.pair()
    port = receiver.ask("listen", address=stage.host(1).address)
    kernel.set_port_rules({(port, True): 2})
    sender.ask("connect", address=stage.host(1).address, port=port)
    assert sender.ask("controls") == [kernel.ca_names["reno"]]
    follow(kernel, stage, JOB)
    kernel.set_cgroup_ids({identity(stage.group(0)): SLOT})
    kernel.switch_sockets([stage.namespace(0)])
    assert sender.ask("controls") == [kernel.ca_names["cubic"]]
    assert (state(kernel)["flows"], state(kernel, 2)["flows"]) == (1, 0)
    sender.ask("reconnect", address=stage.host(1).address, port=port)
    assert sender.ask("controls") == [kernel.ca_names["cubic"]]
    assert (state(kernel)["flows"], state(kernel, 2)["flows"]) == (1, 0)


def test_listeners_and_what_they_accept(kernel: MltcpKernel, stage: Stage) -> None:
    follow(kernel, stage, JOB, host=1)
    sender, receiver = stage.pair()
    stage.dial(sender, receiver, flows=3)
    assert sender.ask("controls") == ["cubic"] * 3
    assert receiver.ask("accepted_controls", count=3) == [kernel.ca_names["cubic"]] * 3
    assert state(kernel)["flows"] == 3
    finish([(sender, receiver)])


def test_listener_that_was_there_before(stage: Stage) -> None:
    sender, receiver = stage.pair()
    address = stage.host(1).address
    port = receiver.ask("listen", address=address)
    with mltcp() as kernel:
        follow(kernel, stage, JOB, host=1)
        kernel.set_cgroup_ids({identity(stage.group(1)): SLOT})
        # It would hand down what it runs; what it accepts is looked at one by one.
        assert kernel.switch_sockets([stage.namespace(1)]).switched == 0
        sender.ask("connect", address=address, port=port, flows=2)
        assert receiver.ask("accepted_controls", count=2) == [kernel.ca_names["cubic"]] * 2
        assert state(kernel)["flows"] == 2
        finish([(sender, receiver)])


@pytest.mark.parametrize("remote", [False, True])
def test_port_rules(kernel: MltcpKernel, stage: Stage, remote: bool) -> None:
    """A rule names the port of one end; with `remote` the job is at the other end."""
    sender, receiver = stage.pair()
    ports = [receiver.ask("listen", address=stage.host(1).address) for _ in range(2)]
    receiver.kill()  # only to learn of ports that are free
    receiver = stage.peer(1)
    kernel.set_job(SLOT, JOB)
    kernel.attach_root(Path(stage.fabric.state.cgroup))
    kernel.set_port_rules({(ports[0], remote): SLOT})
    for port in ports:
        receiver.ask("listen", address=stage.host(1).address, port=port)
        sender.ask("connect", address=stage.host(1).address, port=port)
    ours, plain = kernel.ca_names["cubic"], "cubic"
    accepted = sorted(receiver.ask("accepted_controls", count=2))
    if remote:
        assert sender.ask("controls") == [ours, plain]
        assert accepted == [plain, plain]
    else:
        assert sender.ask("controls") == [plain, plain]
        assert accepted == sorted([ours, plain])
    kernel.set_port_rules({})
    sender.ask("connect", address=stage.host(1).address, port=ports[0])
    assert sender.ask("controls")[2] == plain
    finish([(sender, receiver)])


def test_rules_for_sockets_that_were_there_before(stage: Stage) -> None:
    sender, receiver = stage.pair()
    stage.dial(sender, receiver, flows=2)
    port = sender.ask("peer_ports")[0]
    with mltcp() as kernel:
        kernel.set_job(SLOT, JOB)
        kernel.set_port_rules({(port, True): SLOT})
        result = kernel.switch_sockets([stage.namespace(0)])
        assert (result.seen, result.switched, result.failed) == (2, 2, 0)
        assert sender.ask("controls") == [kernel.ca_names["cubic"]] * 2
        finish([(sender, receiver)])


def old_sockets(stage: Stage) -> list[tuple[Peer, Peer]]:
    """Two hosts with open connections of both families, one choosing its own control too."""
    pairs = []
    for first in (0, 2):
        sender, receiver = stage.pair(first)
        stage.dial(sender, receiver, to=first + 1)
        stage.dial(sender, receiver, to=first + 1, v6=True)
        stage.dial(sender, receiver, to=first + 1, control="reno")
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        pairs.append((sender, receiver))
    return pairs


def test_live_sockets_in_several_namespaces(stage: Stage) -> None:
    pairs = old_sockets(stage)
    where = [stage.namespace(0), stage.namespace(2)]
    with mltcp() as kernel:
        kernel.set_job(SLOT, JOB)
        kernel.set_cgroup_ids({identity(stage.group(host)): SLOT for host in (0, 2)})
        result = kernel.switch_sockets(where)
        assert (result.seen, result.switched, result.failed) == (6, 4, 0)
        ours = kernel.ca_names["cubic"]
        for sender, _ in pairs:
            assert sender.ask("controls") == [ours, ours, "reno"]
        assert state(kernel)["flows"] == 4
        # Our own namespace has none of them.
        assert kernel.switch_sockets([None]).seen == 0
        result = kernel.switch_sockets(where, to_default=True)
        assert (result.switched, result.failed) == (4, 0)
        for sender, _ in pairs:
            assert sender.ask("controls") == ["cubic", "cubic", "reno"]
        assert state(kernel)["flows"] == 0
        assert kernel.switch_sockets(where).switched == 4
    for sender, receiver in pairs:
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        assert delivered(sender, receiver) == 2 * BYTES


def test_one_job_at_a_time(stage: Stage) -> None:
    pairs = old_sockets(stage)
    where = [stage.namespace(0), stage.namespace(2)]
    with mltcp() as kernel:
        for slot in (1, 2):
            kernel.set_job(slot, JOB)
        kernel.set_cgroup_ids({identity(stage.group(0)): 1, identity(stage.group(2)): 2})
        result = kernel.switch_sockets(where, slot=2)
        assert (result.seen, result.switched) == (3, 2)
        assert pairs[0][0].ask("controls") == ["cubic", "cubic", "reno"]
        assert pairs[1][0].ask("controls")[0] == kernel.ca_names["cubic"]


def test_switched_while_data_is_on_its_way(stage: Stage) -> None:
    sender, receiver = stage.pair()
    stage.dial(sender, receiver, flows=4)
    sender.start("send", sizes=[8_000_000], gaps_ms=[0])
    with mltcp() as kernel:
        kernel.set_cgroup_ids({identity(stage.group(0)): SLOT})
        for number in range(24):
            variant = list(Variant)[number % len(Variant)]
            kernel.set_job(SLOT, JobParams(name="mine", variant=variant))
            back = number % 5 == 4
            result = kernel.switch_sockets([stage.namespace(0)], to_default=back)
            assert (result.seen, result.failed) == (4, 0)
        kernel.switch_sockets([stage.namespace(0)], to_default=True)
        sender.answer()
        assert sender.ask("controls") == ["cubic"] * 4
        assert state(kernel)["flows"] == 0
        assert state(kernel)["busy"] == 0
    assert delivered(sender, receiver) == 8_000_000


@pytest.mark.parametrize("control", ["reno", "cubic"])
def test_owners_choice_is_left_alone(kernel: MltcpKernel, stage: Stage, control: str) -> None:
    """Even when it is the host's default: somebody asked for it."""
    follow(kernel, stage, JOB)
    kernel.attach_cgroup(2, stage.group(1))
    kernel.set_job(2, JOB)
    sender, receiver = stage.pair()
    stage.dial(sender, receiver, flows=2, control=control)
    assert sender.ask("controls") == [control] * 2
    assert receiver.ask("accepted_controls", count=2) == [control] * 2
    for _ in range(2):
        result = kernel.switch_sockets([stage.namespace(0), stage.namespace(1)])
        assert result.switched == 0
        assert result.seen == 5  # the listener, too
    kernel.switch_sockets([stage.namespace(0)], to_default=True)
    assert sender.ask("controls") == [control] * 2
    finish([(sender, receiver)])


def test_hand_changed_socket_is_left_alone(kernel: MltcpKernel, stage: Stage) -> None:
    follow(kernel, stage, JOB)
    sender, receiver = stage.pair()
    stage.dial(sender, receiver, flows=2)
    sender.ask("choose", control="reno")
    for back in (False, True, False):
        result = kernel.switch_sockets([stage.namespace(0)], to_default=back)
        assert (result.seen, result.switched) == (2, 0)
        assert sender.ask("controls") == ["reno"] * 2
    assert state(kernel)["flows"] == 0
    finish([(sender, receiver)])


def test_given_back_and_taken_again(kernel: MltcpKernel, stage: Stage) -> None:
    """What the agent itself gave back is not taken for somebody's choice."""
    follow(kernel, stage, JOB)
    sender, receiver = stage.pair()
    stage.dial(sender, receiver, flows=2)
    for _ in range(3):
        assert kernel.switch_sockets([stage.namespace(0)], to_default=True).switched == 2
        assert sender.ask("controls") == ["cubic"] * 2
        assert kernel.switch_sockets([stage.namespace(0)]).switched == 2
        assert sender.ask("controls") == [kernel.ca_names["cubic"]] * 2
    finish([(sender, receiver)])


def test_mode_off_chooses_nothing_for_new_sockets(kernel: MltcpKernel, stage: Stage) -> None:
    follow(kernel, stage, JobParams(name="mine", mode=Mode.OFF))
    sender, receiver = stage.pair()
    stage.dial(sender, receiver)
    assert sender.ask("controls") == ["cubic"]
    kernel.set_job(SLOT, JOB)
    assert kernel.switch_sockets([stage.namespace(0)]).switched == 1
    assert sender.ask("controls") == [kernel.ca_names["cubic"]]
    finish([(sender, receiver)])


def test_socket_that_connects_again(kernel: MltcpKernel, stage: Stage) -> None:
    follow(kernel, stage, JOB)
    sender, receiver = stage.pair()
    stage.dial(sender, receiver)
    port = receiver.ask("listen", address=stage.host(1).address)
    for _ in range(3):
        sender.ask("reconnect", address=stage.host(1).address, port=port)
        assert sender.ask("controls") == [kernel.ca_names["cubic"]]
        assert state(kernel)["flows"] == 1
    sender.ask("send", sizes=[BYTES], gaps_ms=[0])
    assert sum(count for count, _ in sender.ask("close").values()) == BYTES


@pytest.mark.parametrize("variant", Variant)
def test_connections_that_come_and_go_leave_no_records(
    kernel: MltcpKernel, stage: Stage, variant: Variant
) -> None:
    """Only an iteration's end is told; connections are counted, not reported one by one."""
    follow(kernel, stage, JobParams(name="mine", variant=variant))
    kernel.attach_root(Path(stage.fabric.state.cgroup))
    (sender, receiver), ruled = stage.pair(), stage.peer(0, "ruled")
    address = stage.host(1).address
    ports = [receiver.ask("listen", address=address) for _ in range(2)]
    kernel.set_job(2, JobParams(name="ruled", variant=variant))
    kernel.set_port_rules({(ports[1], True): 2})
    for peer, port in zip((sender, ruled), ports, strict=True):
        assert peer.ask("churn", address=address, port=port, times=20, seed=1) == 20
    until(lambda: all(state(kernel, slot)["flows"] == 0 for slot in (SLOT, 2)), "their ends")
    records = kernel.events()
    # A pause between two connections may pass for an iteration's end, nothing else is told.
    ended = sum(int(state(kernel, slot)["iterations"]) for slot in (SLOT, 2))
    assert len(records) == ended < 20
