"""PCIe trees of published 8-GPU servers, and how NCCL, hwloc and the kernel would show them.

The facts (bus ids, speeds, widths, sockets, who is below which switch) are those of the
topology files that the makers publish for NCCL: Azure's NDv5 (github.com/Azure/azhpc-images,
topology/ndv5-topo.xml) and Amazon's p4d and p5 (github.com/aws/aws-ofi-nccl, topology/).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BRIDGE, GPU, ETHERNET, INFINIBAND = 0x060400, 0x030200, 0x020000, 0x020700


@dataclass(frozen=True)
class Device:
    busid: str
    pci_class: int
    speed: str
    width: int
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Switch:
    numa: int
    busid: str
    speed: str
    devices: tuple[Device, ...]


def _ndv5() -> tuple[Switch, ...]:
    speed = "32.0 GT/s PCIe"
    domains = ("0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c")
    return tuple(
        Switch(
            index // 4,
            f"ffff:ff:0{index + 1}.0",
            speed,
            (
                Device(f"{domain}:00:00.0", GPU, speed, 16),
                Device(f"010{index + 1}:00:00.0", INFINIBAND, speed, 16),
            ),
        )
        for index, domain in enumerate(domains)
    )


def _p4d() -> tuple[Switch, ...]:
    return tuple(
        Switch(
            index // 2,
            f"ffff:ff:0{index + 1}.0",
            "8 GT/s",
            (
                Device(f"0000:{bus}:1c.0", GPU, "8 GT/s", 16),
                Device(f"0000:{bus}:1d.0", GPU, "8 GT/s", 16),
                Device(f"0000:{bus}:1b.0", ETHERNET, "8 GT/s", 16),
            ),
        )
        for index, bus in enumerate(("10", "20", "90", "a0"))
    )


def _p5() -> tuple[Switch, ...]:
    """Its GPUs' buses are far from regular."""
    first = (0x4F, 0x60, 0x70, 0x80, 0x90, 0xA0, 0xB0, 0xC0)
    names = (79, 96, 113, 130, 147, 164, 181, 198)
    return tuple(
        Switch(
            0,
            f"0000:0{index}:00.0",
            "16.0 GT/s PCIe",
            (
                Device(f"0000:{bus:02x}:00.0", GPU, "32.0 GT/s PCIe", 16, (f"GPU{index}",)),
                *(
                    Device(
                        f"0000:{bus + nic + 1:02x}:00.0",
                        ETHERNET,
                        "16.0 GT/s PCIe",
                        8,
                        (f"rdmap{name + nic}s0",),
                    )
                    for nic in range(4)
                ),
            ),
        )
        for index, (bus, name) in enumerate(zip(first, names, strict=True))
    )


SERVERS = {"ndv5": _ndv5(), "p4d": _p4d(), "p5": _p5()}


def nccl(server: str) -> str:
    """As an NCCL topology file."""
    text = ['<system version="1">']
    for numa in sorted({switch.numa for switch in SERVERS[server]}):
        text.append(f'<cpu numaid="{numa}" arch="x86_64">')
        for switch in SERVERS[server]:
            if switch.numa != numa:
                continue
            text.append(
                f'<pci busid="{switch.busid}" class="0x060400" '
                f'link_speed="{switch.speed}" link_width="16">'
            )
            text += [_nccl_device(device) for device in switch.devices]
            text.append("</pci>")
        text.append("</cpu>")
    return "\n".join([*text, "</system>"])


def _nccl_device(device: Device) -> str:
    inside = ""
    if device.pci_class == GPU and device.names:
        inside = f'<gpu dev="{device.names[0].removeprefix("GPU")}" sm="90"/>'
    elif device.names:
        inside = f'<nic><net name="{device.names[0]}" dev="0" speed="100000"/></nic>'
    return (
        f'<pci busid="{device.busid}" class="{device.pci_class:#08x}" '
        f'link_speed="{device.speed}" link_width="{device.width}">{inside}</pci>'
    )


def gigabytes(speed: str, width: int) -> float:
    """hwloc's GB/s, for 128b/130b."""
    return float(speed.split(maxsplit=1)[0]) * width * 128 / 130 / 8


def hwloc(server: str) -> str:
    """As an hwloc 2 export, with root ports and both ports of every switch."""
    text = ['<topology version="2.0"><object type="Machine" os_index="0">']
    for index, switch in enumerate(SERVERS[server]):
        root, up, downs = _ports(index, len(switch.devices))
        rate = gigabytes(switch.speed, 16)
        text += [
            f'<object type="Package" os_index="{switch.numa}" nodeset="{1 << switch.numa:#010x}">',
            f'<object type="Bridge" bridge_type="0-1" bridge_pci="{index:04x}:[00-ff]">',
            (
                f'<object type="Bridge" bridge_type="1-1" pci_busid="{root}" '
                f'pci_type="0604 [8086:2030]" pci_link_speed="{rate:f}">'
            ),
            (
                f'<object type="Bridge" bridge_type="1-1" pci_busid="{up}" '
                f'pci_type="0604 [10b5:8796]" pci_link_speed="{rate:f}">'
            ),
        ]
        for down, device in zip(downs, switch.devices, strict=True):
            text += [
                (
                    f'<object type="Bridge" bridge_type="1-1" pci_busid="{down}" '
                    f'pci_type="0604 [10b5:8796]" pci_link_speed="0.0">'
                ),
                (
                    f'<object type="PCIDev" pci_busid="{device.busid}" '
                    f'pci_type="{device.pci_class >> 8:04x} [10de:20b0]" '
                    f'pci_link_speed="{gigabytes(device.speed, device.width):f}">'
                ),
                *(f'<object type="OSDev" name="{name}"/>' for name in device.names),
                "</object></object>",
            ]
        text += ["</object>"] * 4
    return "\n".join([*text, "</object></topology>"])


def sysfs(server: str, top: Path) -> Path:
    """As the part of /sys that the reader looks at."""
    for index, switch in enumerate(SERVERS[server]):
        root, up, downs = _ports(index, len(switch.devices))
        host = top / f"devices/pci{index:04x}:00"
        _files(host / root, BRIDGE, switch.speed, 16, switch.numa)
        _files(host / root / up, BRIDGE, switch.speed, 16, switch.numa)
        for down, device in zip(downs, switch.devices, strict=True):
            port = host / root / up / down
            _files(port, BRIDGE, device.speed, device.width, switch.numa)
            here = port / device.busid
            _files(here, device.pci_class, device.speed, device.width, switch.numa)
            for name in device.names:
                kind = "drm" if device.pci_class == GPU else "infiniband"
                (here / kind / name).mkdir(parents=True)
    return top


def _ports(index: int, devices: int) -> tuple[str, str, list[str]]:
    """Root port, upstream port, downstream ports: not published, so in a domain of their own."""
    domain = f"{0x8000 + index:04x}"
    downs = [f"{domain}:02:{number:02x}.0" for number in range(devices)]
    return f"{domain}:00:01.0", f"{domain}:01:00.0", downs


def _files(folder: Path, pci_class: int, speed: str, width: int, numa: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kernel = f"{float(speed.split(maxsplit=1)[0]):.1f} GT/s PCIe"
    values = {
        "class": f"{pci_class:#08x}",
        "current_link_speed": kernel,
        "current_link_width": str(width),
        "max_link_speed": kernel,
        "max_link_width": str(width),
        "numa_node": str(numa),
    }
    for name, value in values.items():
        (folder / name).write_text(value + "\n")
