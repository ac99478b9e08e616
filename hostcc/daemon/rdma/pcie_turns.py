"""The part that lets jobs take turns at PCIe links that they share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from hostcc.answers.parts import PciePart, SharedLink
from hostcc.config.sections.pcie import PcieConfig
from hostcc.daemon.changes import kinds, mechanisms
from hostcc.daemon.profiling.live_jobs import host_name
from hostcc.daemon.rdma import gpu_links, pcie_links
from hostcc.daemon.rdma.gpu_links import GpuUse
from hostcc.daemon.rdma.pcie_links import SharedLinks
from hostcc.daemon.rdma.senders import SenderTracker
from hostcc.daemon.supervisor import Host
from hostcc.errors import InputError
from hostcc.model import Difference
from hostcc.pcie import contention, hwloc_xml, nccl_xml, sysfs
from hostcc.pcie.keeper import Keeper
from hostcc.pcie.semaphore import Settings
from hostcc.pcie.tree import Kind, Tree

SHARING_S = 2.0
"""Between two checks which jobs share which links."""
RATES_S = 10.0
"""Between two measurements of the shared links' load: NVML takes 40 ms for each GPU."""
TREE_S = 60.0
"""Between two readings of the PCIe tree."""

Look = Callable[[Tree, bool], GpuUse]
ReadTree = Callable[[str], Tree]


def read_tree(file: str) -> Tree:
    """Read the tree of this host.  Raises InputError for a file that holds none."""
    if not file:
        return sysfs.read()
    try:
        return nccl_xml.read(Path(file))
    except InputError:
        return hwloc_xml.read(Path(file))


def ask_gpus(tree: Tree, rates: bool) -> GpuUse:
    """Ask NVML which processes use which GPUs."""
    return gpu_links.look(tree, rates=rates)


class Turns:
    """Keeps semaphores for links that jobs share, and says which queue pairs use which."""

    name = "pcie"

    def __init__(
        self,
        host: Host,
        tracker: SenderTracker,
        tree: ReadTree = read_tree,
        look: Look = ask_gpus,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._tracker = host, tracker
        self._read_tree, self._look = tree, look
        self._clock = clock
        self._keeper: Keeper | None = None
        self._tree: tuple[float, Tree] | None = None
        self._use = GpuUse()
        self._asked: asyncio.Task[GpuUse] | None = None
        self._look_at = self._rates_at = 0.0
        self._shared = SharedLinks()
        self._loads: tuple[contention.LinkLoad, ...] = ()
        self._without_room: tuple[str, ...] = ()

    @property
    def every_s(self) -> float:
        """Seconds between ticks: the agent's heartbeat."""
        return self._host.config.agent.heartbeat_s

    def disabled_reason(self) -> str:
        """Return why there are no turns to take, if so."""
        if not self._host.config.pcie.enabled:
            return "pcie.enabled is false"
        return self._tracker.disabled_reason()

    def start(self) -> None:
        """Remove what is left; semaphores are made when a job needs one."""
        self._look_at = self._rates_at = 0.0
        mechanisms.undo_all(self._host.journal, (kinds.SEMAPHORES,), "left by an earlier agent")

    async def tick(self) -> None:
        """Send the heartbeat; check which jobs share which links."""
        if self._keeper is not None:
            self._keeper.beat(self._host.config.agent.heartbeat_stale_s)
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + SHARING_S
        await self._ask(now)
        self._sort_out()

    def stop(self) -> None:
        """Remove the semaphores: no job waits any more."""
        self._tracker.gates, self._tracker.inside = {}, {}
        self._shared, self._loads, self._tree, self._use = SharedLinks(), (), None, GpuUse()
        if self._asked is not None:
            self._asked.cancel()
            self._asked = None
        if self._keeper is not None:
            self._keeper.close()
            self._host.journal.undone(
                [kinds.shared_id(kinds.SEMAPHORES, self._keeper.path)], "undone"
            )
            self._keeper = None

    def verify(self) -> list[Difference]:
        """Check that the file which jobs open is there."""
        if self._keeper is None or not (problem := self._keeper.problem()):
            return []
        path = self._keeper.path
        return [
            Difference(
                kinds.shared_id(kinds.SEMAPHORES, path), str(path), "as it was made", problem
            )
        ]

    def view(self) -> PciePart:
        """Show the links that jobs share, with handovers and load."""
        states = {one.name: one for one in self._keeper.states()} if self._keeper else {}
        loads = {one.link: one for one in self._loads}
        rows = []
        for link, jobs in self._shared.links.items():
            state, load = states.get(link), loads.get(link)
            rows.append(
                SharedLink(
                    link=link,
                    jobs=list(jobs),
                    participants=len(state.pids) if state else 0,
                    handovers=state.handovers if state else 0,
                    rescues=state.rescues if state else 0,
                    given_up=state.given_up if state else 0,
                    utilisation=round(load.utilisation, 3) if load else None,
                    contended=load.contended if load else None,
                )
            )
        full = ", ".join(self._without_room)
        return PciePart(shared_links=rows, reason=f"no room for {full}" if full else None)

    # Who shares what.

    async def _ask(self, now: float) -> None:
        config = self._host.config.pcie
        if self._tree is None or now - self._tree[0] > TREE_S:
            self._tree = now, await asyncio.to_thread(self._read_tree, config.topology)
        tree = self._tree[1]
        wanted = self._tracker.senders and self._host.config.gpu.enabled
        if not wanted or not tree.of_kind(Kind.GPU):
            return  # nobody to look for, or the driver is not to be touched
        if self._asked is not None and self._asked.done():
            self._use = self._asked.result()
            self._asked = None
        if self._asked is None:
            rates = bool(self._shared.links) and now >= self._rates_at
            if rates:
                self._rates_at = now + RATES_S
            thread = asyncio.to_thread(self._look, tree, rates)
            self._asked = asyncio.get_running_loop().create_task(thread)

    def _sort_out(self) -> None:
        assert self._tree is not None
        tree, host = self._tree[1], host_name(self._host.config)
        pairs = pcie_links.pairs_of(tree, self._tracker.senders, self._use.of)
        self._shared = pcie_links.turns(tree, pairs)
        speed = self._tracker.speeds()
        nics = {
            nic: speed.get(device, 0.0)
            for devices in pairs.values()
            for device, those in devices.items()
            for nic in (those[0][1] or those[0][0],)
        }
        self._loads = contention.loads(tree, pcie_links.uses(pairs), self._use.rates, nics)
        self._tracker.inside = {
            (job, device): tuple(
                dict.fromkeys(
                    link for pair in those for link in pcie_links.crossed(tree, host, *pair)
                )
            )
            for job, devices in pairs.items()
            for device, those in devices.items()
        }
        self._tracker.capacities = {
            pcie_links.link_name(host, node.id, up=up): node.rate
            for node in tree.nodes.values()
            if node.rate
            for up in (True, False)
        }
        self._tracker.gates = self._gates()

    def _gates(self) -> dict[str, tuple[tuple[str, int], ...]]:
        """Job -> (RDMA device, number of the semaphore)."""
        if not self._shared.gates:
            return {}
        if self._keeper is None:
            self._keeper = self._make()
        keeper, wanted = self._keeper, settings(self._host.config.pcie)
        numbers = {link: keeper.number(link, wanted) for link in self._shared.links}
        self._without_room = tuple(link for link, number in numbers.items() if number is None)
        made: dict[str, tuple[tuple[str, int], ...]] = {}
        for job, gates in self._shared.gates.items():
            at = ((device, numbers[link]) for device, link in gates)
            made[job] = tuple((device, number) for device, number in at if number is not None)
        return made

    def _make(self) -> Keeper:
        config = self._host.config
        path = Path(config.pcie.semaphores)
        with self._host.journal.making(kinds.semaphores(path)):
            return Keeper(path, config.agent.heartbeat_stale_s, config.pcie.group)


def settings(config: PcieConfig) -> Settings:
    """Return how links are shared, from `[pcie]`."""
    return Settings(
        config.linger_us * 1e-6,
        config.aging_ms * 1e-3,
        config.patience_ms * 1e-3,
        config.lease_ms * 1e-3,
        config.granule,
    )
