"""Writes the completions of bash, zsh and fish: `python -m tools.completion DIR`.

Made from the parsers of the commands whenever a package is built, so that they agree with the
program beside which they are installed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from hostcc.cli.main import COMMANDS, build_parser

OF_THE_SOURCE = frozenset({"bench", "evidence"})
"""Commands whose own options come with the measurements, which are not installed."""
FILES = frozenset({"FILE", "PATH", "VIEW", "OUT"})
FOLDERS = frozenset({"DIR"})
PROGRAM = "hostcc"


@dataclass(frozen=True)
class Value:
    """What can follow an option, or be a word of its own."""

    choices: tuple[str, ...] = ()
    files: bool = False
    folders: bool = False


@dataclass(frozen=True)
class Option:
    """An option of a command."""

    names: tuple[str, ...]
    help: str
    value: Value | None
    """None: it takes none."""
    optional: bool = False
    """Whether the value may be left out."""


@dataclass(frozen=True)
class Command:
    """A command, or a command of a command."""

    words: tuple[str, ...]
    """After the program's name; empty: the program itself."""
    below: tuple[tuple[str, str], ...]
    """(Name, help) of the commands that may follow."""
    options: tuple[Option, ...]
    operands: tuple[Value, ...]
    rest: bool = False
    """Whether another command line follows."""


def commands() -> list[Command]:
    """The program first, then each command before those below it."""
    found = [_command(build_parser(None), ())]
    for name in COMMANDS:
        if name in OF_THE_SOURCE:
            found.append(Command((name,), (), (), ()))
        else:
            found += _walk(_below(build_parser(name))[name], (name,))
    return found


def _walk(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[Command]:
    yield _command(parser, words)
    for name, one in _below(parser).items():
        yield from _walk(one, (*words, name))


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))  # noqa: SLF001


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {name: one for action in _subparsers(parser) for name, one in _parsers(action)}


def _parsers(action: argparse.Action) -> list[tuple[str, argparse.ArgumentParser]]:
    assert isinstance(action.choices, dict)
    return list(action.choices.items())


def _command(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Command:
    own = [one for one in parser._actions if not isinstance(one, argparse._SubParsersAction)]  # noqa: SLF001
    texts = {one.dest: one.help or "" for action in _subparsers(parser) for one in _listed(action)}
    return Command(
        words,
        tuple((name, _text(texts.get(name))) for name in _below(parser)),
        tuple(_option(one) for one in own if one.option_strings),
        tuple(_value(one) for one in own if not one.option_strings),
        any(one.nargs == argparse.REMAINDER for one in own),
    )


def _listed(action: argparse.Action) -> list[argparse.Action]:
    return list(action._get_subactions())  # type: ignore[attr-defined]  # noqa: SLF001


def _option(action: argparse.Action) -> Option:
    value = None if action.nargs == 0 else _value(action)
    return Option(tuple(action.option_strings), _text(action.help), value, action.nargs == "?")


def _value(action: argparse.Action) -> Value:
    name = str(action.metavar or action.dest)
    return Value(
        tuple(map(str, action.choices or ())),
        name in FILES and name not in FOLDERS,
        name in FOLDERS,
    )


def _text(text: str | None) -> str:
    """A help without its defaults, which depend on the environment."""
    return re.sub(r"\s*\([^()]*%\([^()]*\)[^()]*\)|\s*\(default: [^()]*\)", "", text or "").strip()


def _cases(rows: dict[str, str]) -> list[str]:
    """Patterns with what is done, one for all that do the same."""
    same: dict[str, list[str]] = {}
    for pattern, body in rows.items():
        same.setdefault(body, []).append(quote(pattern))
    return [f"\t{'|'.join(patterns)}) {body} ;;" for body, patterns in same.items()]


_BASH = """\
# bash completion for hostcc; made by tools/completion.py
_hostcc()
{{
\tlocal cur=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path= word= words=
\tCOMPREPLY=()
\tfor word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
\t\tif [ "$word" = -- ]; then
\t\t\tcompopt -o filenames 2>/dev/null
\t\t\tmapfile -t COMPREPLY < <(compgen -c -f -- "$cur")
\t\t\treturn
\t\tfi
\t\tcase "${{path:+$path }}$word" in
{paths}
\t\tesac
\tdone
\tcase "$path:$before" in
{values}
\tesac
\tif [ -z "$words" ]; then
\t\tcase "$path" in
{lists}
\t\tesac
\t\tcase "$cur" in
\t\t-*) ;;
\t\t*) case "$path" in
{operands}
\t\tesac ;;
\t\tesac
\tfi
\tcase "$words" in
\t@none) ;;
\t@files)
\t\tcompopt -o filenames 2>/dev/null
\t\tmapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
\t@folders)
\t\tcompopt -o filenames 2>/dev/null
\t\tmapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
\t*) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur") ;;
\tesac
}}
complete -F _hostcc hostcc
"""


def _bash_words(value: Value) -> str:
    if value.choices:
        return " ".join(value.choices)
    return "@folders" if value.folders else "@files" if value.files else "@none"


def bash(found: list[Command]) -> str:
    """A completion that needs nothing but bash."""
    values: dict[str, str] = {}
    lists: dict[str, str] = {}
    operands: dict[str, str] = {}
    for one in found:
        path = " ".join(one.words)
        for option in one.options:
            if option.value is not None and not option.optional:
                for name in option.names:
                    values[f"{path}:{name}"] = f"words={quote(_bash_words(option.value))}"
        names = [name for option in one.options for name in option.names]
        lists[path] = f"words={quote(' '.join([*(name for name, _ in one.below), *names]))}"
        for value in one.operands[:1]:
            if value.choices:
                operands[path] = f'words="{" ".join(value.choices)} $words"'
            elif value.files or value.folders:
                operands[path] = f"words={_bash_words(value)}"
    paths = {" ".join(one.words): f"path={quote(' '.join(one.words))}" for one in found[1:]}
    return _BASH.format(
        paths="\n".join(f"\t{line}" for line in _cases(paths)),
        values="\n".join(_cases(values)),
        lists="\n".join(f"\t{line}" for line in _cases(lists)),
        operands="\n".join(f"\t{line}" for line in _cases(operands)),
    )


def _zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _zsh_value(value: Value) -> str:
    if value.choices:
        return f"({' '.join(value.choices)})"
    return "_files -/" if value.folders else "_files" if value.files else " "


def _zsh_function(words: tuple[str, ...]) -> str:
    return "_".join(["", PROGRAM, *words])


def _zsh_one(one: Command) -> list[str]:
    lines = [f"{_zsh_function(one.words)}()", "{"]
    arguments = []
    for option in one.options:
        after = "" if option.value is None else f":value:{_zsh_value(option.value)}"
        if option.optional:
            after = f":{after}"
        exclusive = f"({' '.join(option.names)})" if len(option.names) > 1 else ""
        arguments += [
            quote(f"{exclusive}{name}[{_zsh_text(option.help)}]{after}") for name in option.names
        ]
    if one.below:
        lines += ["\tlocal line state", "\tlocal -a below", "\tbelow=("]
        lines += [f"\t\t{quote(f'{name}:{_zsh_text(text)}')}" for name, text in one.below]
        lines.append("\t)")
        arguments += ["'1: :->command'", "'*:: :->rest'"]
    elif one.rest:
        arguments.append("'*:: :_normal'")
    else:
        arguments += [quote(f"{n}: :{_zsh_value(v)}") for n, v in enumerate(one.operands, 1)]
    lines.append(" \\\n\t\t".join(["\t_arguments" + (" -C" if one.below else ""), *arguments]))
    if one.below:
        lines += ["\tcase $state in", "\tcommand) _describe command below ;;", "\trest)"]
        lines.append("\t\tcase $line[1] in")
        lines += [f"\t\t{name}) {_zsh_function((*one.words, name))} ;;" for name, _ in one.below]
        lines += ["\t\tesac ;;", "\tesac"]
    return [*lines, "}", ""]


def zsh(found: list[Command]) -> str:
    """A function for each command, by _arguments."""
    lines = ["#compdef hostcc", "# made by tools/completion.py", ""]
    for one in found:
        lines += _zsh_one(one)
    return "\n".join([*lines, f'{_zsh_function(())} "$@"', ""])


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_FISH = """\
# fish completion for hostcc; made by tools/completion.py
function __hostcc_at
    set -l words
    for word in (commandline -opc)[2..-1]
        test "$word" = --; and return 1
        string match -q -- '-*' $word; or set -a words $word
    end
    set -l given (string join ' ' -- $words)
    set -l wanted (string join ' ' -- $argv)
    # What is no command of this one is an operand of it.
    test "$given" = "$wanted"; and return 0
    contains -- "$wanted" $__hostcc_last; and string match -q -- "$wanted *" "$given"
end
"""


def fish(found: list[Command]) -> str:
    """A line for each command, option and choice."""
    last = [quote(" ".join(one.words)) for one in found[1:] if not one.below]
    lines = [_FISH.rstrip(), f"set -g __hostcc_last {' '.join(last)}", "complete -c hostcc -f"]
    for one in found:
        at = f"complete -c hostcc -n '{' '.join(['__hostcc_at', *one.words])}'"
        lines += [f"{at} -a {name} -d {_fish_text(text)}" for name, text in one.below]
        lines += [f"{at} {_fish_option(option)}" for option in one.options]
        for value in one.operands[:1]:
            if value.choices:
                lines.append(f"{at} -a {quote(' '.join(value.choices))}")
            elif value.files or value.folders:
                lines.append(f"{at} -F")
    return "\n".join([*lines, ""])


def _fish_option(option: Option) -> str:
    flags = {True: "-l", False: "-s"}
    words = [f"{flags[name.startswith('--')]} {name.lstrip('-')}" for name in option.names]
    value = option.value
    if value is not None and not option.optional:
        words.append("-r -F" if value.files or value.folders else "-x")
        if value.choices:
            words.append(f"-a {quote(' '.join(value.choices))}")
    return " ".join([*words, "-d", _fish_text(option.help)])


MADE: dict[str, Callable[[list[Command]], str]] = {
    "hostcc": bash,
    "_hostcc": zsh,
    "hostcc.fish": fish,
}
"""File, as its shell looks for it, and what makes it."""


def files() -> dict[str, str]:
    """Name -> contents."""
    found = commands()
    return {name: made(found) for name, made in MADE.items()}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text)
