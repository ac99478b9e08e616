"""The .deb: what it has, what lintian says, and what is there before, while and after it is."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import NOT_HERE
from tests.tools.packages.overlay import Installed
from tools.packages import deb, vendor
from tools.packages.hosts import DEBIAN_12, DEBIAN_LIKE, UBUNTU_24_04, Host

RELEASE = platform.freedesktop_os_release()
HERE = {("debian", "12"): DEBIAN_12, ("ubuntu", "24.04"): UBUNTU_24_04}.get(
    (RELEASE["ID"], RELEASE.get("VERSION_ID", ""))
)
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(
        not shutil.which("dpkg-deb"), reason=f"{NOT_HERE} a distribution with packages of this kind"
    ),
]
needs_its_host = pytest.mark.skipif(
    HERE is None, reason=f"{NOT_HERE} a distribution that a .deb is made for"
)
INSTALLED = (
    "./etc/hostcc/hostcc.toml", "./usr/bin/hostcc", "./usr/lib/hostcc/pyvenv.cfg",
    "./usr/lib/systemd/system/hostcc.service", "./usr/lib/sysusers.d/hostcc.conf",
    "./usr/lib/hostcc/slurm/prolog", "./usr/lib/hostcc/slurm/task-prolog",
    "./usr/share/man/man1/hostcc.1.gz", "./usr/share/bash-completion/completions/hostcc",
    "./usr/share/zsh/vendor-completions/_hostcc",
    "./usr/share/fish/vendor_completions.d/hostcc.fish", "./usr/share/doc/hostcc/copyright",
)  # fmt: skip
# An agent of the package, kept away from the rest of the machine, with a job.  It is killed, so
# that the package's scripts have to undo what it has changed.
LIFE = """
say() { printf '\\n@%s ' "$1"; }
before=$(sysctl -n net.ipv4.tcp_congestion_control)
dpkg -i /tmp/hostcc_*.deb >/dev/null
say version; hostcc --version
say group; getent group hostcc
say changed; dpkg --verify hostcc
mkdir /tmp/hostcc && echo 1/0 >/tmp/hostcc/__init__.py
say modules; (cd /tmp && PYTHONPATH=/tmp hostcc --version)
mkdir /etc/hostcc/hostcc.d
printf '[agent]\\ncgroup_root = "{cgroup}"\\nnetwork_namespaces = "own"\\n' \\
    >/etc/hostcc/hostcc.d/test.toml
say check; hostcc agent --check
hostcc agent 2>/tmp/log &
agent=$!
until hostcc status >/dev/null 2>&1; do
    kill -0 $agent || { cat /tmp/log; exit 1; }
    sleep 0.2
done
hostcc run --job held -- sleep 1000 & held=$!
until hostcc status --json | grep -q '"held"'; do sleep 0.2; done
say healthy; hostcc doctor --json | tr -d '\\n'
say active; hostcc changes --json | tr -d '\\n'
say shell; bash -c '. /usr/share/bash-completion/completions/hostcc; complete -p hostcc'
kill -9 $agent; wait $agent || :
dpkg -r hostcc >/dev/null
say removed; ls /etc/hostcc/hostcc.toml; ls /usr/lib/hostcc 2>/dev/null || echo no modules
say groups; find {cgroup} -mindepth 1 -type d | wc -l
say alive; kill -0 $held && echo the job goes on
kill $held; wait $held || :
dpkg --purge hostcc >/dev/null
say control; test "$(sysctl -n net.ipv4.tcp_congestion_control)" = "$before" && echo as before
say end
"""


TOP = Path(__file__).parents[3]
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    """What a page says that can be run."""
    return FENCE.findall((TOP / f"docs/{page}.md").read_text())


@pytest.fixture(scope="module")
def debs(built_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Host, Path]:
    folder = tmp_path_factory.mktemp("debs")
    return {host: deb.build(folder, host, built_wheel) for host in DEBIAN_LIKE}


def told(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=300).stdout


def listed(package: Path) -> dict[str, str]:
    """Path -> mode and owner."""
    rows = [line.split(maxsplit=5) for line in told(["dpkg-deb", "-c", str(package)]).splitlines()]
    return {row[5].partition(" -> ")[0]: f"{row[0]} {row[1]}" for row in rows}


def test_each_has_the_same_files_for_its_own_python(debs: dict[Host, Path]) -> None:
    for host, package in debs.items():
        files = listed(package)
        assert set(INSTALLED) <= set(files)
        assert {mode.split()[1] for mode in files.values()} == {"root/root"}
        assert {mode.split()[0][7:10] for mode in files.values() if mode[0] != "l"} <= {
            "r-x", "r--",
        }  # fmt: skip
        compiled = [name for name in files if re.search(r"\.cpython-\d+-", name)]
        tag = "cpython-" + host.python.replace(".", "")
        assert compiled
        assert [name for name in compiled if tag not in name] == []
        objects = {Path(name).name for name in files if name.endswith(".bpf.o")}
        assert {"mltcp.bpf.o", "meter.bpf.o", "steer.bpf.o"} <= objects
        libraries = {Path(name).name for name in files if "/hostcc/" in name and ".so" in name}
        assert {"libhostcc-rdma.so", "libnccl-env-hostcc.so", "libhostcc-pcie.so"} <= libraries
        wanted = f"python3 (>= {host.python}~)"
        assert wanted in told(["dpkg-deb", "-f", str(package), "Depends"])
        assert told(["dpkg-deb", "-f", str(package), "Version"]).strip().endswith(host.suffix)


def test_what_it_carries_is_pinned_by_content() -> None:
    """Of each package the lines of constraints.txt, and what pip has taken is one of these."""
    lines = vendor.requirements()
    pins = re.findall(r"^([a-z0-9-]+)==(\S+)", lines, re.MULTILINE)
    assert {"numpy", "msgspec", "pyzmq", "pynacl", "cffi", "rich"} <= {name for name, _ in pins}
    assert {"pytest", "scipy", "ruff"}.isdisjoint(name for name, _ in pins)
    for host in DEBIAN_LIKE:
        wheels = list(vendor.fetch(host.python).glob("*.whl"))
        assert len(wheels) == len(pins)
        for path in wheels:
            assert f"--hash=sha256:{digest(path)}" in lines, path.name


def digest(path: Path) -> str:
    return told(["sha256sum", str(path)]).split()[0]


def test_built_twice_it_is_the_same(
    debs: dict[Host, Path], built_wheel: Path, tmp_path: Path
) -> None:
    host, first = next(iter(debs.items()))
    again = deb.build(tmp_path, host, built_wheel)
    assert again.read_bytes() == first.read_bytes()


@pytest.mark.skipif(
    not shutil.which("lintian"), reason="no lintian; tools/setup --with-packages installs it"
)
@needs_its_host
def test_lintian_finds_no_error(debs: dict[Host, Path]) -> None:
    assert HERE is not None
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error", str(debs[HERE])],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "E:" not in done.stdout


@needs_its_host
def test_installed_used_removed_and_purged(
    debs: dict[Host, Path], cgroup: Path, tmp_path: Path
) -> None:
    """With an agent and a job: what the package changes goes with it, and the job goes on."""
    assert HERE is not None
    life = Installed(tmp_path, LIFE.replace("{cgroup}", str(cgroup)), debs[HERE])
    rows = re.findall(r"^@(\w+) ([^@]*)", life.output, re.MULTILINE)
    said = {key: text.strip() for key, text in rows}
    assert re.fullmatch(r"hostcc \d+\.\d+\.\d+", said["version"])
    assert said["modules"] == said["version"]  # no environment changes what root runs
    assert said["group"].startswith("hostcc:")
    assert said["changed"] == ""
    assert "fits this host" in said["check"]
    assert json.loads(said["healthy"])["healthy"] is True
    assert "/held" in said["active"]
    assert said["shell"] == "complete -F _hostcc hostcc"
    assert said["removed"] == "/etc/hostcc/hostcc.toml\nno modules"
    assert (said["groups"], said["alive"]) == ("0", "the job goes on")
    assert said["control"] == "as before"
    assert life.left == []


@needs_its_host
def test_the_pages_about_it_can_be_followed(debs: dict[Host, Path], tmp_path: Path) -> None:
    """Installation, the first look, an upgrade and the way back, removal."""
    assert HERE is not None
    install, upgrade = blocks("install"), blocks("upgrade")
    assert [len(install), len(upgrade)] == [5, 3]
    removal = install[-2:]
    assert "remove" in removal[0]
    said = [f"cd /tmp; {block}\necho '@{number}'\n" for number, block in enumerate(
        [*install[:-2], *upgrade, *removal]
    )]  # fmt: skip
    life = Installed(tmp_path, "\n".join(said), debs[HERE])
    assert re.findall(r"^@(\d+)$", life.output, re.MULTILINE) == [str(n) for n in range(8)]
    assert life.output.count("fits this host") == 4
    assert life.left == []
