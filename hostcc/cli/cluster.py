"""`hostcc cluster init`: keys, certificates, seeds and configuration for a set of hosts."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostcc.cli import authority
from hostcc.cli.common import Subparsers, add_parser, number_of, print_json
from hostcc.errors import Exit, InputError
from hostcc.foreign import say

SCHEMA = "hostcc.cluster/1"
DROP_IN = "10-cluster.toml"
HOSTS_FILE = "cluster.toml"
MAX_HOSTS = 4096
MAX_HOSTS_BYTES = 1 << 20
SEEDS = 3
"""Members that each host is told of; it learns of the others from them."""
DEFAULT_PORT = 7471


@dataclass(frozen=True)
class ClusterHost:
    """A host of the new cluster."""

    name: str
    address: str
    """Where the others reach it: an IP address, or a name that they can resolve."""

    @property
    def text(self) -> str:
        """NAME=ADDRESS, as on the command line."""
        return f"{self.name}={self.address}"


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command and its own."""
    parser = add_parser(subparsers, "cluster", "files for a set of hosts that gossip")
    own = parser.add_subparsers(metavar="COMMAND", required=True)
    init = add_parser(own, "init", "make keys, seeds and configuration for hosts; overwrites none")
    init.add_argument(
        "host", nargs="+", metavar="NAME[=ADDRESS]", help="a host; without ADDRESS its name is it"
    )
    init.add_argument(
        "--out",
        type=Path,
        default=Path("hostcc-cluster"),
        metavar="DIR",
        help="where a folder for each host is made (default: %(default)s)",
    )
    init.add_argument("--name", default="main", metavar="NAME", help="of a new authority")
    init.add_argument(
        "--port", default=str(DEFAULT_PORT), metavar="PORT", help="of the gossip, TCP and UDP"
    )
    init.add_argument("--dns", metavar="NAME", help="a DNS name with the addresses of the hosts")
    init.add_argument(
        "--etc",
        default="/etc/hostcc",
        metavar="DIR",
        help="where the files will be on the hosts (default: %(default)s)",
    )
    authority.add_days(init)
    init.add_argument("--json", action="store_true", help="print JSON (docs/keys.md)")
    init.set_defaults(func=run_init)


def run_init(args: argparse.Namespace) -> int:
    """Make an authority unless there is one, and a folder for each host."""
    from hostcc.coord.keys import authority_store, files

    authority.check_days(args.days)
    port = int(number_of(args.port, "--port", "a port", 1, 65535))
    if not args.etc.startswith("/") or not args.etc.isprintable() or set(args.etc) & set("\"\\'"):
        raise InputError(f"--etc: expected an absolute path, got {args.etc!r:.80}")
    known = _read_hosts(args.out)
    new = _parse(args.host, known, args.out)
    seeds = _seeds([*known, *new], port, args.dns)
    top = args.out / "authority"
    if not (top / files.AUTHORITY_FILE).exists():
        _check_name(args.name, "--name")
        files.make_directory(args.out, 0o700)
        authority_store.create(top, args.name)
    signer = files.read_authority_secret(top)
    for host in new:
        config = _drop_in(
            host, [seed for seed in seeds if not seed.startswith(f"{host.name}@")], port, args.etc
        )
        _make_host(args.out, host, config, args.days, top)
    hosts = [*known, *new]
    files.write_text(args.out / HOSTS_FILE, _hosts_text(hosts), 0o600)
    if args.json:
        shown = {
            "schema": SCHEMA,
            "authority": signer.public.name,
            "fingerprint": signer.public.fingerprint,
            "directory": str(top),
            "hosts": [_as_json(args.out, host, args.etc) for host in new],
        }
        print_json(shown)
        return Exit.OK
    for host in new:
        say(_copy(args.out, host, args.etc))
    _tell(
        f"made {len(new)} of {len(hosts)} hosts in {args.out}, for authority {signer.public.name} "
        f"({signer.public.fingerprint}). Run the commands above, then on each host: "
        "hostcc agent --check && systemctl restart hostcc"
    )
    _tell(f"keep {top} in a safe place: whoever has it can make members")
    return Exit.OK


def _parse(words: Sequence[str], known: Sequence[ClusterHost], out: Path) -> list[ClusterHost]:
    from hostcc.coord.net import address

    taken = {host.name for host in known}
    by_address = {host.address: host.name for host in known}
    found: list[ClusterHost] = []
    for word in words:
        name, equals, at = word.partition("=")
        _check_name(name, "HOST")
        host = ClusterHost(name, at if equals else name)
        address.parse(_endpoint(host.address, DEFAULT_PORT), f"HOST: {word:.80}")
        if name == "authority" or name in taken or (out / name).exists():
            raise InputError(f"HOST: {name}: expected a host that {out} does not have yet")
        if host.address in by_address:
            other = by_address[host.address]
            raise InputError(f"HOST: {word:.80}: expected another address than that of {other}")
        taken.add(name)
        by_address[host.address] = name
        found.append(host)
    if len(taken) > MAX_HOSTS:
        raise InputError(f"HOST: expected at most {MAX_HOSTS} hosts")
    return found


def _check_name(name: str, where: str) -> None:
    from hostcc.coord import member_name

    if not member_name.is_member_name(name):
        raise InputError(f"{where}: expected {member_name.MEMBER_NAME_WORDS}, got {name!r:.80}")


def _endpoint(at: str, port: int) -> str:
    return f"[{at}]:{port}" if ":" in at else f"{at}:{port}"


def _seeds(hosts: Sequence[ClusterHost], port: int, dns: str | None) -> list[str]:
    from hostcc.coord.net import address

    if dns is not None:
        seed = f"{address.DNS_SEED}{dns}:{port}"
        address.parse_dns_seed(seed, "--dns")
        return [seed]
    return [f"{host.name}@{_endpoint(host.address, port)}" for host in hosts[: SEEDS + 1]]


def _drop_in(host: ClusterHost, seeds: Sequence[str], port: int, etc: str) -> str:
    from hostcc.coord.net import address

    at = _endpoint(host.address, port)
    lines = [f"# Made by hostcc cluster init for {host.name}.", "[gossip]", "enabled = true"]
    lines += [f'name = "{host.name}"', f'keys = "{etc}/keys"']
    numeric = address.parse_numeric(at)
    if numeric is not None:
        # The port on all addresses, and the one that is given told to the others.
        lines += [f'listen = "{"[::]" if numeric.is_v6 else "0.0.0.0"}:{port}"']
        lines += [f'advertise = "{at}"']
    elif port != DEFAULT_PORT:
        lines += [f'listen = "0.0.0.0:{port}"']
    shown = ", ".join(f'"{seed}"' for seed in seeds[:SEEDS])
    return "\n".join([*lines, f"seeds = [{shown}]"]) + "\n"


def _make_host(out: Path, host: ClusterHost, config: str, days: float, top: Path) -> None:
    """Make a host's folder, whole or not at all."""
    from hostcc.coord.keys import authority_store, files, identity

    now = time.time()
    partial = out / f".{host.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        files.make_directory(partial, 0o700)
        made = identity.HostKeys(host.name, (identity.generate(now),))
        keys = partial / "keys"
        files.write_host(keys, made)
        files.trust(keys, files.read_authority_secret(top).public)
        signed = authority_store.sign(top, made.member, now, days * authority.DAY_S)
        files.write_certificate(keys / files.CERTIFICATE_FILE, signed)
        files.make_directory(partial / "hostcc.d")
        files.write_text(partial / "hostcc.d" / DROP_IN, config, 0o644)
        partial.rename(out / host.name)
    except OSError as error:
        raise InputError(f"{out / host.name}: {error.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _read_hosts(out: Path) -> list[ClusterHost]:
    import msgspec

    from hostcc.system import toml_file

    path = out / HOSTS_FILE
    if not path.exists():
        return []

    class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        hosts: tuple[str, ...]

    found = toml_file.read(path, File, MAX_HOSTS_BYTES)
    pairs = [word.partition("=") for word in found.hosts]
    return [ClusterHost(name, at) for name, _, at in pairs]


def _hosts_text(hosts: Sequence[ClusterHost]) -> str:
    lines = [f'    "{host.text}",' for host in hosts]
    head = "# Hosts of this cluster; hostcc cluster init adds new ones."
    return "\n".join([head, "hosts = [", *lines, "]"]) + "\n"


def _copy(out: Path, host: ClusterHost, etc: str) -> str:
    folder, target = shlex.quote(str(out / host.name)), shlex.quote(etc)
    pack = f"tar -C {folder} --owner=0 --group=0 -c hostcc.d keys"
    unpack = shlex.quote(f"mkdir -p {target} && tar -C {target} -x")
    return f"{pack} | ssh root@{host.address} {unpack}"


def _as_json(out: Path, host: ClusterHost, etc: str) -> dict[str, Any]:
    folder = out / host.name
    return {
        "name": host.name,
        "address": host.address,
        "folder": str(folder),
        "files": sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()),
        "copy": _copy(out, host, etc),
    }


def _tell(text: str) -> None:
    say(f"hostcc cluster: {text}", file=sys.stderr)
