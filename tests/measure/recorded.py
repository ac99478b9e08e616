"""A host from a file of tests/measure/data, laid out as /proc and cgroup trees."""

from __future__ import annotations

from pathlib import Path

from hostcc.system.process_scan import Scanner
from hostcc.system.processes import Snapshot

DATA = Path(__file__).with_name("data")


def lay_out(name: str, folder: Path) -> Scanner:
    """Write the host's files below `folder`; a scanner that looks there."""
    proc, trees, host, pid = folder / "proc", list[str](), "", ""
    (proc / "self").mkdir(parents=True)
    for line in (DATA / f"{name}.host").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "host":
            host = rest
        elif word == "tree":
            trees.append(rest)
            (folder / rest.replace(" ", "-")).mkdir()
        elif word == "group":
            tree, _, path = rest.partition(" ")
            (folder / f"{tree}{path}").mkdir(parents=True)
        elif word == "process":
            pid, parent, uid, comm = rest.split()
            write_process(proc / pid, int(parent), int(uid), comm)
        elif word == "cgroup":
            with (proc / pid / "cgroup").open("a") as stream:
                stream.write(rest + "\n")
            _, controllers, path = rest.split(":", 2)
            tree = f"v1-{controllers}" if controllers else "v2"
            (folder / tree / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "cmd":
            (proc / pid / "cmdline").write_bytes(rest.replace(" ", "\0").encode() + b"\0")
        elif word == "env":
            with (proc / pid / "environ").open("ab") as stream:
                stream.write(rest.encode() + b"\0")
    lines = [
        f"{30 + i} 1 0:{i} / {folder / tree.replace(' ', '-')} rw - "
        f"{'cgroup2' if tree == 'v2' else 'cgroup'} none rw"
        for i, tree in enumerate(trees)
    ]
    (proc / "self/mountinfo").write_text("\n".join(lines) + "\n")
    return Scanner(proc, host)


def write_process(at: Path, parent: int, uid: int, comm: str, started: int = 500) -> None:
    """One process's files."""
    at.mkdir(exist_ok=True)
    rest = " ".join(["0"] * 17)
    (at / "stat").write_text(f"{at.name} ({comm}) S {parent} {rest} {started} 0 0\n")
    (at / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (at / "cgroup").write_text("")
    (at / "cmdline").write_text("")
    (at / "environ").write_text("")


def snapshot(name: str, folder: Path) -> Snapshot:
    """The host of that name as the scanner sees it."""
    return lay_out(name, folder / name).snapshot()
