"""Binds the functions of libbpf.so.1 that this package calls, and collects its messages.

Prototypes follow libbpf 1.1 (Debian 12); the library keeps them compatible within 1.x.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_bool, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from hostcc.bpf.loader.errors import BpfError, system_error

SONAME = "libbpf.so.1"
WARN_AND_INFO = 1  # enum libbpf_print_level: LIBBPF_WARN 0, LIBBPF_INFO 1, LIBBPF_DEBUG 2
# va_list is passed by reference on x86-64 (24 bytes) and on arm64 (32 bytes).
VA_LIST_BYTES = 32


class OpenOpts(ctypes.Structure):
    """struct bpf_object_open_opts of libbpf 1.1."""

    _fields_ = [
        ("sz", c_size_t),
        ("object_name", c_char_p),
        ("relaxed_maps", c_bool),
        ("pin_root_path", c_char_p),
        ("reserved", c_uint32),
        ("kconfig", c_char_p),
        ("btf_custom_path", c_char_p),
        ("kernel_log_buf", c_void_p),
        ("kernel_log_size", c_size_t),
        ("kernel_log_level", c_uint32),
    ]


class BatchOpts(ctypes.Structure):
    """struct bpf_map_batch_opts."""

    _fields_ = [("sz", c_size_t), ("elem_flags", c_uint64), ("flags", c_uint64)]


_PTR, _INT, _U32, _U64, _STR = c_void_p, c_int, c_uint32, c_uint64, c_char_p
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "bpf_object__open_mem": (_PTR, (_PTR, c_size_t, POINTER(OpenOpts))),
    "bpf_object__load": (_INT, (_PTR,)),
    "bpf_object__close": (None, (_PTR,)),
    "bpf_object__next_program": (_PTR, (_PTR, _PTR)),
    "bpf_object__next_map": (_PTR, (_PTR, _PTR)),
    "bpf_object__find_map_by_name": (_PTR, (_PTR, _STR)),
    "bpf_program__name": (_STR, (_PTR,)),
    "bpf_program__fd": (_INT, (_PTR,)),
    "bpf_program__set_autoload": (_INT, (_PTR, c_bool)),
    "bpf_program__expected_attach_type": (_INT, (_PTR,)),
    "bpf_program__attach_iter": (_PTR, (_PTR, _PTR)),
    "bpf_map__name": (_STR, (_PTR,)),
    "bpf_map__fd": (_INT, (_PTR,)),
    "bpf_map__type": (_INT, (_PTR,)),
    "bpf_map__key_size": (_U32, (_PTR,)),
    "bpf_map__value_size": (_U32, (_PTR,)),
    "bpf_map__max_entries": (_U32, (_PTR,)),
    "bpf_map__map_flags": (_U32, (_PTR,)),
    "bpf_map__set_map_flags": (_INT, (_PTR, _U32)),
    "bpf_map__set_autocreate": (_INT, (_PTR, c_bool)),
    "bpf_map__reuse_fd": (_INT, (_PTR, _INT)),
    "bpf_map__btf_key_type_id": (_U32, (_PTR,)),
    "bpf_map__btf_value_type_id": (_U32, (_PTR,)),
    "bpf_map__initial_value": (_PTR, (_PTR, POINTER(c_size_t))),
    "bpf_map__attach_struct_ops": (_PTR, (_PTR,)),
    "bpf_link__fd": (_INT, (_PTR,)),
    "bpf_link__disconnect": (None, (_PTR,)),
    "bpf_link__destroy": (_INT, (_PTR,)),
    "bpf_link_create": (_INT, (_INT, _INT, _INT, _PTR)),
    "bpf_iter_create": (_INT, (_INT,)),
    "bpf_obj_get_info_by_fd": (_INT, (_INT, _PTR, POINTER(c_uint32))),
    "bpf_enable_stats": (_INT, (_INT,)),
    "bpf_map_lookup_elem": (_INT, (_INT, _PTR, _PTR)),
    "bpf_map_update_elem": (_INT, (_INT, _PTR, _PTR, _U64)),
    "bpf_map_delete_elem": (_INT, (_INT, _PTR)),
    "bpf_map_get_next_key": (_INT, (_INT, _PTR, _PTR)),
    "bpf_map_lookup_batch": (
        _INT,
        (_INT, _PTR, _PTR, _PTR, _PTR, POINTER(c_uint32), POINTER(BatchOpts)),
    ),
    "bpf_map_update_batch": (_INT, (_INT, _PTR, _PTR, POINTER(c_uint32), POINTER(BatchOpts))),
    "bpf_map_get_next_id": (_INT, (_U32, POINTER(c_uint32))),
    "bpf_map_get_fd_by_id": (_INT, (_U32,)),
    "libbpf_num_possible_cpus": (_INT, ()),
}
_PRINT_FN = ctypes.CFUNCTYPE(c_int, c_int, c_void_p, c_void_p)
_said = threading.local()


@functools.cache
def lib() -> ctypes.CDLL:
    """Open the library on first use.  Raises BpfError when it is not installed."""
    try:
        library = ctypes.CDLL(SONAME, use_errno=True)
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise BpfError(
            f"{SONAME} 1.1 or newer is needed: {error}; install the package libbpf1"
        ) from error
    library.libbpf_set_print.restype = c_void_p
    library.libbpf_set_print.argtypes = (_PRINT_FN,)
    library.libbpf_set_print(_callback)  # silence until somebody listens
    return library


def _collect(level: int, form: int | None, arguments: int | None) -> int:
    # libbpf_print_fn_t: keep warnings for whoever is listening in this thread.
    lines: list[str] | None = getattr(_said, "lines", None)
    if lines is None or level > WARN_AND_INFO or not form or not arguments:
        return 0
    # vsnprintf uses the argument list up, so measuring needs a copy of it.
    copy = ctypes.create_string_buffer(VA_LIST_BYTES)
    ctypes.memmove(copy, arguments, VA_LIST_BYTES)
    vsnprintf = _libc_vsnprintf()
    length = int(vsnprintf(None, 0, form, ctypes.addressof(copy)))
    if length > 0:
        text = ctypes.create_string_buffer(length + 1)
        vsnprintf(text, length + 1, form, arguments)
        lines.append(text.value.decode("utf-8", "replace"))
    return length


_callback = _PRINT_FN(_collect)  # libbpf keeps a pointer to it, so it has to live on


@functools.cache
def _libc_vsnprintf() -> Any:
    function = ctypes.CDLL(None).vsnprintf
    function.restype, function.argtypes = c_int, (c_void_p, c_size_t, c_void_p, c_void_p)
    return function


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collect libbpf's messages in this thread, warnings and notes, in order."""
    # Again: a process has one callback, and bcc, say, has set its own since.
    lib().libbpf_set_print(_callback)
    outer = getattr(_said, "lines", None)
    lines: list[str] = []
    _said.lines = lines
    try:
        yield lines
    finally:
        _said.lines = outer


def call(function: str, *arguments: Any, what: str, path: Path | None = None) -> int:
    """Call a libbpf function that returns an int; BpfError when that is negative.

    `what` says in the error what was tried, as in "cannot load"; `path` which object.
    """
    with listening() as said:
        result = int(getattr(lib(), function)(*arguments))
    if result < 0:
        raise system_error(what, -result, log="".join(said), path=path)
    return result


def call_pointer(function: str, *arguments: Any, what: str, path: Path | None = None) -> int:
    """Call a libbpf function that returns a pointer; BpfError when that is NULL."""
    with listening() as said:
        ctypes.set_errno(0)
        pointer = getattr(lib(), function)(*arguments)
        errno = ctypes.get_errno()
    if not pointer:
        raise system_error(what, errno, log="".join(said), path=path)
    return int(pointer)
