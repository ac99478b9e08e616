"""Completions offer what the parsers know, in each shell's own way."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from shlex import quote

import pytest

from hostcc.cli.main import COMMANDS
from tools import completion

pytestmark = pytest.mark.unit
BY_SETUP = "tools/setup --with-packages installs it"
needs_zsh = pytest.mark.skipif(not shutil.which("zsh"), reason=f"no zsh; {BY_SETUP}")
needs_fish = pytest.mark.skipif(not shutil.which("fish"), reason=f"no fish; {BY_SETUP}")
FOUND = completion.commands()
BASH_ASKS = """
source ./hostcc
ask() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    _hostcc
    printf '%s\\n' "${COMPREPLY[@]}"
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("completion")
    for name, text in completion.files().items():
        (made / name).write_text(text)
    (made / "a-file.toml").touch()
    (made / "a-folder").mkdir()
    return made


def said(words: list[str], folder: Path, shell: str) -> str:
    done = subprocess.run(
        [*words, shell], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def bash(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words."""
    asked = BASH_ASKS + "ask " + " ".join(quote(word) for word in words)
    return {line for line in said(["bash", "-c"], folder, asked).splitlines() if line}


def test_the_parsers_are_walked_to_the_end() -> None:
    paths = [one.words for one in FOUND]
    assert paths[0] == ()
    assert {words[0] for words in paths[1:]} == set(COMMANDS)
    assert ("keys", "rotate") in paths
    by_name = {name: one for one in FOUND[1:] for o in one.options for name in o.names}
    assert {"--json", "--overlap", "--help", "--dry-run"} <= set(by_name)
    assert not any("%(" in option.help for one in FOUND for option in one.options)


def test_bash_offers_every_command_and_option(folder: Path) -> None:
    asked = BASH_ASKS
    for one in FOUND:
        asked += f"echo '== {' '.join(one.words)}'; ask hostcc {' '.join(one.words)} ''\n"
        asked += f"ask hostcc {' '.join(one.words)} --\n"
    answers = said(["bash", "-c"], folder, asked).split("== ")[1:]
    assert len(answers) == len(FOUND)
    for one, answer in zip(FOUND, answers, strict=True):
        path, *offered = answer.splitlines()
        assert path == " ".join(one.words)
        expected = {name for name, _ in one.below}
        expected |= {name for o in one.options for name in o.names if name.startswith("--")}
        assert expected <= set(offered), path


def test_bash_knows_where_it_is(folder: Path) -> None:
    assert bash(folder, "hostcc", "ver") == {"verify"}
    assert bash(folder, "hostcc", "unfair", "") >= {"off", "mltcp", "static"}
    assert bash(folder, "hostcc", "probe", "10.0.0.1", "--protocol", "") == {"tcp", "udp"}
    assert bash(folder, "hostcc", "agent", "--config", "a-") == {"a-file.toml", "a-folder"}
    assert bash(folder, "hostcc", "keys", "new", "--dir", "a-") == {"a-folder"}
    assert bash(folder, "hostcc", "run", "--job", "") == set()
    assert bash(folder, "hostcc", "run", "--job", "x", "--", "a-f") == {"a-file.toml", "a-folder"}
    assert bash(folder, "hostcc", "keys", "rot") == {"rotate"}


@needs_fish
def test_fish_offers_the_same(folder: Path) -> None:
    asked = "source ./hostcc.fish\n" + "".join(
        f"echo '== {' '.join(one.words)}'; complete -C 'hostcc {' '.join([*one.words, ''])}'\n"
        f"complete -C 'hostcc {' '.join([*one.words, '--'])}'\n"
        for one in FOUND
    )
    answers = said(["fish", "--no-config", "-c"], folder, asked).split("== ")[1:]
    assert len(answers) == len(FOUND)
    for one, answer in zip(FOUND, answers, strict=True):
        _, *offered = (line.split("\t")[0] for line in answer.splitlines())
        expected = {name for name, _ in one.below}
        expected |= {name for o in one.options for name in o.names if name.startswith("--")}
        assert expected <= set(offered), one.words
    asked = "source ./hostcc.fish; complete -C 'hostcc probe 10.0.0.1 --protocol '"
    assert set(said(["fish", "--no-config", "-c"], folder, asked).split()) == {"tcp", "udp"}


@needs_zsh
def test_zsh_describes_the_same(folder: Path) -> None:
    """With what it hands to zsh's own functions: completing itself needs a terminal."""
    said(["zsh", "-f", "-n"], folder, "./_hostcc")
    words = "\n".join(completion._zsh_function(one.words) for one in FOUND)
    shown = said(
        ["zsh", "-f", "-c"],
        folder,
        "_arguments() { print -rl -- $@; state=command }\n"
        "_describe() { print -rl -- ${(P)2} }\n"
        f"source ./_hostcc\nfor function in {words.replace(chr(10), ' ')}; do\n"
        "print '== '$function; $function; done",
    )
    answers = shown.split("== ")[1:]
    for one, answer in zip(FOUND, answers, strict=True):
        for option in one.options:
            for name in option.names:
                assert re.search(rf"^(\([^)]*\))?{name}\[", answer, re.MULTILINE), (one.words, name)
        for name, _ in one.below:
            assert f"\n{name}:" in answer
