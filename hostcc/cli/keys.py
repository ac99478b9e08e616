"""`hostcc keys ...`: this host's keys for gossip, and who may take part."""

from __future__ import annotations

import argparse
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostcc.cli import authority
from hostcc.cli.common import Subparsers, add_parser, emit, print_json, table
from hostcc.errors import Exit, InputError
from hostcc.foreign import say
from hostcc.system import input_file

if TYPE_CHECKING:
    from hostcc.coord.keys.allow_list import AllowList
    from hostcc.coord.keys.identity import Member, PublicKey

DIRECTORY = "/etc/hostcc/keys"
SCHEMA = "hostcc.keys/1"
COLUMNS = [
    ("Member", "left"),
    ("Key", "left"),
    ("Signs as", "left"),
    ("State", "left"),
    ("From", "left"),
    ("Until", "left"),
]
HOUR_S = 3600.0


def register(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Add the command and its own."""
    parser = add_parser(subparsers, "keys", "this host's keys for gossip, and who may take part")
    own = parser.add_subparsers(metavar="COMMAND", required=True)
    new = _add(own, "new", "make this host's keys", run_new)
    new.add_argument("--name", metavar="NAME", help="in gossip (default: the host name)")
    _json(_add(own, "list", "who may take part, and which authorities are trusted", run_list))
    _add(own, "show", "this host's public file, to be allowed elsewhere", run_show)
    allow = _add(own, "allow", "let a member take part", run_allow)
    allow.add_argument("file", metavar="FILE", help="its public file; -: standard input")
    allow.add_argument(
        "--replace", action="store_true", help="even if the name is known with other keys only"
    )
    revoke = _add(own, "revoke", "let a member take part no more", run_revoke)
    revoke.add_argument("name", metavar="NAME", help="as in hostcc keys list")
    authority.add_authority(revoke, required=False)
    _register_authority(own)
    rotate = _add(own, "rotate", "give this host a new key beside the old one", run_rotate)
    rotate.add_argument(
        "--overlap",
        type=float,
        default=48.0,
        metavar="HOURS",
        help="time for which both are valid; half-way through it the new one takes over "
        "(default: %(default)g)",
    )


def _register_authority(own: Subparsers[argparse.ArgumentParser]) -> None:
    made = add_parser(own, "authority", "make an authority that certifies hosts, or show one")
    made.add_argument("--name", metavar="NAME", help="of a new one; without it: show the present")
    sign = add_parser(own, "sign", "certify hosts' public keys")
    sign.add_argument("file", nargs="+", metavar="FILE", help="a host's NAME.pub")
    authority.add_days(sign)
    for parser, run in ((made, authority.run_authority), (sign, authority.run_sign)):
        authority.add_authority(parser)
        parser.add_argument("--json", action="store_true", help="print JSON (docs/keys.md)")
        parser.set_defaults(func=run)
    about = "take an authority's public file, this host's certificate, or a list of revoked ones"
    add = _add(own, "add", about, authority.run_add)
    add.add_argument("file", nargs="+", metavar="FILE", help="authority first, then what it signed")


def run_new(args: argparse.Namespace) -> int:
    """Make keys, once."""
    from hostcc.coord import member_name
    from hostcc.coord.keys import files, identity

    name = socket.gethostname().split(".")[0] if args.name is None else args.name
    if not member_name.is_member_name(name):
        raise InputError(f"--name: expected {member_name.MEMBER_NAME_WORDS}, got {name!r:.80}")
    if (args.dir / files.HOST_FILE).exists():
        raise InputError(
            f"{args.dir / files.HOST_FILE}: expected no keys yet; `hostcc keys rotate` "
            "changes them without an interruption"
        )
    host = identity.HostKeys(name, (identity.generate(time.time()),))
    say(files.write_host(args.dir, host))
    key = host.keys[0].public.fingerprint
    _say(f"made key {key} of {name}; allow this file on every other host: hostcc keys allow FILE")
    return Exit.OK


def run_list(args: argparse.Namespace) -> int:
    """Who is on the list, and which files are not taken."""
    from hostcc.coord.keys import allow_list, files

    listed = allow_list.AllowDirectory(files.allowed_directory(args.dir), quiet=True).load()
    certified = authority.read_trust(args.dir)
    now = time.time()
    if args.json:
        print_json({**_as_json(listed, now), **authority.trust_json(certified)})
    else:
        rows = [_row(member.name, key, now) for member, key in _all_keys(listed)]
        emit(table(COLUMNS, rows))
        for line in authority.trust_lines(certified, now):
            say(line)
        for reason in (*listed.skipped.values(), *certified.skipped.values()):
            _say(f"not taken: {reason}")
    return Exit.FAILED if listed.skipped or certified.skipped else Exit.OK


def run_show(args: argparse.Namespace) -> int:
    """The public file on standard output."""
    from hostcc.coord.keys import files, identity

    say(identity.public_text(files.read_secret(args.dir).member), end="")
    return Exit.OK


def run_allow(args: argparse.Namespace) -> int:
    """Check a public file and put it on the list."""
    from hostcc.coord.keys import allow_list, files, identity

    if args.file == "-":
        where = "standard input"
        raw = input_file.read_argument(args.file, identity.MAX_FILE_BYTES)
        member = identity.parse_public(raw, where)
    else:
        where = args.file
        member = files.read_public(Path(args.file))
    allowed = files.allowed_directory(args.dir)
    files.make_directory(allowed)
    listed = allow_list.AllowDirectory(allowed, quiet=True).load()
    for key in member.keys:
        owner = listed.by_curve.get(key.curve, member.name)
        if owner != member.name:
            raise InputError(f"{where}: key: expected one that no other member has, got {owner}'s")
    old = listed.members.get(member.name)
    if old is not None and not _share(old, member) and not args.replace:
        raise InputError(
            f"{where}: name: {member.name} is known with other keys; --replace takes these instead"
        )
    say(files.allow(args.dir, member))
    _say(f"{member.name} may take part with key {_fingerprints(member)}")
    return Exit.OK


def run_revoke(args: argparse.Namespace) -> int:
    """Take a member off the list."""
    from hostcc.coord import member_name
    from hostcc.coord.keys import files

    if not member_name.is_member_name(args.name):
        raise InputError(f"NAME: expected {member_name.MEMBER_NAME_WORDS}, got {args.name!r:.80}")
    if args.authority is not None:
        return authority.revoke_certificates(args.authority, args.name)
    files.revoke(args.dir, args.name)
    _say(f"{args.name} has no rights on this host any more; do the same on every other one")
    return Exit.OK


def run_rotate(args: argparse.Namespace) -> int:
    """A new key beside the old one."""
    from hostcc.coord.keys import files, identity

    most = identity.OVERLAP_MAX_S / HOUR_S
    if not 0.01 <= args.overlap <= most:
        raise InputError(f"--overlap: expected 0.01 to {most:g} hours, got {args.overlap:g}")
    now = time.time()
    host = identity.rotated(files.read_secret(args.dir), now, args.overlap * HOUR_S)
    say(files.write_host(args.dir, host))
    takes_over = _date(now + args.overlap * HOUR_S / 2)
    _say(
        f"the new key {host.keys[-1].public.fingerprint} takes over at {takes_over}: by then allow "
        f"this file on every other host; the old one ends at {_date(now + args.overlap * HOUR_S)}"
    )
    return Exit.OK


def _add(
    subparsers: Subparsers[argparse.ArgumentParser], name: str, about: str, run: Any
) -> argparse.ArgumentParser:
    parser = add_parser(subparsers, name, about)
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(DIRECTORY),
        metavar="DIR",
        help="where this host's keys are (default: %(default)s)",
    )
    parser.set_defaults(func=run)
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON (docs/keys.md)")


def _all_keys(listed: AllowList) -> list[tuple[Member, PublicKey]]:
    return [(member, key) for member in listed.members.values() for key in member.keys]


def _share(old: Member, new: Member) -> bool:
    return bool({key.curve for key in old.keys} & {key.curve for key in new.keys})


def _fingerprints(member: Member) -> str:
    return " or ".join(key.fingerprint for key in member.keys)


def _state(key: PublicKey, now: float) -> str:
    if not key.valid(now):
        return "ended"
    return "valid" if key.starts <= now else "to come"


def _row(name: str, key: PublicKey, now: float) -> tuple[str, ...]:
    until = "-" if key.ends is None else _date(key.ends)
    return name, key.fingerprint, key.sign_fingerprint, _state(key, now), _date(key.starts), until


def _as_json(listed: AllowList, now: float) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "keys": [
            {
                "member": member.name,
                "fingerprint": key.fingerprint,
                "sign_fingerprint": key.sign_fingerprint,
                "state": _state(key, now),
                "starts": key.starts,
                "ends": key.ends,
                "curve": key.curve,
                "sign": key.sign,
            }
            for member, key in _all_keys(listed)
        ],
        "skipped": dict(listed.skipped),
    }


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _say(text: str) -> None:
    say(f"hostcc keys: {text}", file=sys.stderr)
