"""One line for a person, the rest in the log."""

from __future__ import annotations

import errno
from pathlib import Path

from hostcc.bpf.loader.errors import BpfError, system_error

VERIFIER = """libbpf: prog 'count': BPF program load failed: Permission denied
libbpf: prog 'count': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
R0 invalid mem access 'scalar'
verification time 35 usec
processed 7 insns (limit 1000000)
-- END PROG LOAD LOG --
libbpf: failed to load object 'x'
"""


def test_verifier_word_is_the_message() -> None:
    error = system_error("cannot load", errno.EACCES, log=VERIFIER, path=Path("a.o"))
    assert error.args[0] == (
        "a.o: cannot load: prog 'count': R0 invalid mem access 'scalar'"
        " (Permission denied; the verifier refused it)"
    )
    assert error.log == VERIFIER
    assert error.errno == errno.EACCES
    assert error.path == Path("a.o")


def test_libbpf_word_when_there_is_no_verifier_log() -> None:
    error = system_error("cannot load", errno.EINVAL, log="libbpf: map 'm': bad size\nmore\n")
    assert str(error) == "cannot load: map 'm': bad size (Invalid argument)"


def test_nothing_said() -> None:
    assert "needs root" in str(system_error("cannot attach", errno.EPERM))
    assert str(system_error("read", 524)) == "read (Operation not supported)"


def test_message_is_one_line() -> None:
    assert str(BpfError("two\nlines\tand  blanks")) == "two lines and blanks"
