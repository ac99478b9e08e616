"""What `tools/package` runs."""

from __future__ import annotations

import argparse
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.packages import deb, oci, rpm, wheel
from tools.packages.hosts import DEBIAN_12, DEBIAN_LIKE

TOP = Path(__file__).resolve().parents[2]
KINDS = ("wheel", "deb", "rpm", "oci")


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """One builder at a time."""
    with (out / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Make what was asked for; prints the path of each."""
    parser = argparse.ArgumentParser(prog="tools/package", description=__doc__)
    parser.add_argument("kind", nargs="?", default="all", choices=[*KINDS, "all"])
    parser.add_argument("--out", type=Path, default=TOP / "dist", metavar="DIR")
    parser.add_argument(
        "--host", choices=[one.name for one in DEBIAN_LIKE], help="only the .deb for this one"
    )
    args = parser.parse_args()
    os.umask(0o022)
    args.out.mkdir(parents=True, exist_ok=True)
    kinds = set(KINDS) if args.kind == "all" else {args.kind}
    with locked(args.out):
        built = wheel.build(args.out)
        print(built, flush=True)
        debs = {}
        if kinds & {"deb", "oci"}:
            hosts = [one for one in DEBIAN_LIKE if args.host in {None, one.name}]
            if "deb" not in kinds:
                hosts = [DEBIAN_12]
            for host in hosts:
                debs[host] = deb.build(args.out, host, built)
                print(debs[host], flush=True)
        if "rpm" in kinds:
            print(rpm.build(args.out, built), flush=True)
        if "oci" in kinds:
            print(oci.build(args.out, debs[DEBIAN_12]), flush=True)


if __name__ == "__main__":
    main()
