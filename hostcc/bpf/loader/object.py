"""Opens, adjusts, loads and attaches BPF objects.  A thin edge over libbpf.so.1."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.bpf.loader import features, links, registration, stats, structops
from hostcc.bpf.loader.btf import Btf
from hostcc.bpf.loader.elf import Elf, FormatError
from hostcc.bpf.loader.errors import BpfError, system_error
from hostcc.bpf.loader.iterators import BpfIter
from hostcc.bpf.loader.libbpf import OpenOpts, call, call_pointer, lib
from hostcc.bpf.loader.links import BpfLink
from hostcc.bpf.loader.maps import BpfMap
from hostcc.bpf.loader.records import pack_one
from hostcc.bpf.loader.ringbuf import Records, RingBuffer
from hostcc.system import malloc
from hostcc.system.closing import Closing
from hostcc.system.seal import SealError, unseal

MAX_OBJECT_BYTES = 64 << 20
RODATA = ".rodata"


class BpfObject(Closing):
    """One BPF object file.  Made by `open`; `load` puts it into the kernel.

    Between the two come `set_rodata`, `set_autoload`, `set_autocreate` and `reuse_map`.
    Closing it releases programs and maps, except those that a link still needs.
    Not safe for use by several threads at once.
    """

    def __init__(self, path: Path, data: bytes, struct_ops_names: Mapping[str, str]) -> None:
        self.path = path
        self._loaded = False
        try:
            data = unseal(data)
            elf = Elf(data)
            self._btf = Btf(elf.bytes_of(".BTF"))
            self.enums: dict[str, int] = self._btf.enums()
            self._struct_ops = structops.find(elf, self._btf)
            self._constants = elf.variables(RODATA)
            patched = structops.rename(data, self._struct_ops, struct_ops_names)
        except (FormatError, SealError) as error:
            raise BpfError(f"{path}: {error}", path=path) from error
        # libbpf reads the image until the object is loaded, so it has to stay.
        self._image: ctypes.Array[ctypes.c_char] | None = ctypes.create_string_buffer(
            patched, len(patched)
        )
        options = OpenOpts(sz=ctypes.sizeof(OpenOpts))
        options.object_name = path.name.split(".")[0].encode()
        self._object = call_pointer(
            "bpf_object__open_mem",
            self._image,
            len(patched),
            options,
            what="not a usable BPF object",
            path=path,
        )
        self._programs = self._collect("program")
        self._maps = self._collect("map")
        self._linked = features.struct_ops_links()
        for name in self._struct_ops.keys() & self._maps.keys() if self._linked else ():
            pointer = self._maps[name]
            flags = int(lib().bpf_map__map_flags(pointer)) | registration.F_LINK
            call("bpf_map__set_map_flags", pointer, flags, what=f"cannot mark {name}", path=path)

    @classmethod
    def open(cls, path: str | Path, struct_ops_names: Mapping[str, str] | None = None) -> BpfObject:
        """Read an object file; nothing reaches the kernel yet.

        `struct_ops_names` gives struct_ops variables other names in the kernel, where they
        are global: several agents on a host need distinct ones.  Raises BpfError.
        """
        path = Path(path)
        try:
            with path.open("rb") as file:
                data = file.read(MAX_OBJECT_BYTES + 1)
        except OSError as error:
            raise system_error("cannot read", error.errno or 0, path=path, hint=False) from error
        if len(data) > MAX_OBJECT_BYTES:
            raise BpfError(f"{path}: larger than {MAX_OBJECT_BYTES} bytes", path=path)
        return cls(path, data, struct_ops_names or {})

    def programs(self) -> list[str]:
        """List all programs, in file order."""
        return list(self._programs)

    def maps(self) -> list[str]:
        """List all maps, struct_ops and sections of globals included."""
        return list(self._maps)

    def struct_ops(self) -> dict[str, str]:
        """Return struct_ops variables and the names that they get in the kernel."""
        return {name: ops.kernel_name for name, ops in self._struct_ops.items()}

    def dtype(self, name: str) -> np.dtype[Any]:
        """Make the numpy dtype of the C struct, union, enum or typedef `name` of the object."""
        try:
            return self._btf.named_dtype(name)
        except KeyError:
            raise self._error(f"no type {name} in its BTF") from None
        except FormatError as error:
            raise self._error(str(error)) from error

    def set_rodata(self, name: str, value: Any) -> None:
        """Give the constant `name` (const volatile, global) a value, before `load`."""
        symbol = self._constants.get(name)
        if symbol is None:
            known = ", ".join(sorted(self._constants)) or "none"
            raise self._error(f"no constant {name} in {RODATA}; there are: {known}")
        self._require_unloaded(f"set {name}")
        size = ctypes.c_size_t()
        section = call_pointer("bpf_object__find_map_by_name", self._object, RODATA.encode(),
                               what=f"no {RODATA}", path=self.path)  # fmt: skip
        memory = lib().bpf_map__initial_value(section, size)
        try:
            packed = pack_one(value, self._btf.variable_dtype(name))
        except (KeyError, ValueError) as error:
            raise self._error(f"constant {name} cannot be {value!r:.60}: {error}") from error
        if not memory or symbol.offset + packed.nbytes > size.value:
            raise self._error(f"constant {name} is outside {RODATA}")
        ctypes.memmove(memory + symbol.offset, packed.tobytes(), packed.nbytes)

    def set_autoload(self, program: str, load: bool) -> None:
        """Choose whether `load` loads a program; by default it loads all."""
        self._require_unloaded(f"change {program}")
        pointer = self._program(program)
        what = f"cannot change program {program}"
        call("bpf_program__set_autoload", pointer, load, what=what, path=self.path)

    def set_autocreate(self, name: str, create: bool) -> None:
        """Choose whether `load` makes a map; for a struct_ops also whether it loads its programs.

        A program that another struct_ops uses as well is loaded while any of them is wanted.
        """
        self._require_unloaded(f"change {name}")
        pointer, what = self._map(name), f"cannot change map {name}"
        call("bpf_map__set_autocreate", pointer, create, what=what, path=self.path)
        if name not in self._struct_ops:
            return
        self._struct_ops[name].wanted = create
        needed = {p for ops in self._struct_ops.values() if ops.wanted for p in ops.programs}
        for program in self._struct_ops[name].programs:
            self.set_autoload(program, program in needed)

    def reuse_map(self, name: str, other: BpfMap) -> None:
        """Share `other`, a loaded map of another object, instead of making our own."""
        self._require_unloaded(f"share {name}")
        pointer, what = self._map(name), f"cannot share map {name}"
        call("bpf_map__reuse_fd", pointer, other.fd, what=what, path=self.path)

    def load(self) -> None:
        """Verify and load programs, make maps.  BpfError carries the verifier's log."""
        self._require_unloaded("load")
        call("bpf_object__load", self._object, what="cannot load", path=self.path)
        self._loaded = True
        self._image = None
        malloc.release()  # libbpf has read all of the kernel's types: ten megabytes

    def map(self, name: str) -> BpfMap:
        """Return the map `name`; its entries can be used once the object is loaded."""
        pointer = self._map(name)
        library = lib()
        key = self._map_dtype(
            int(library.bpf_map__btf_key_type_id(pointer)),
            int(library.bpf_map__key_size(pointer)),
        )
        value = self._map_dtype(
            int(library.bpf_map__btf_value_type_id(pointer)),
            int(library.bpf_map__value_size(pointer)),
        )
        return BpfMap(pointer, name, key, value)

    def attach_struct_ops(self, name: str) -> BpfLink:
        """Register the struct_ops variable `name` with the kernel.

        From Linux 6.4 on the kernel forgets it when the link is closed or the process ends;
        before that only when it is closed, and what a killed process left under the same
        name is replaced.
        """
        if name not in self._struct_ops:
            raise self._error(f"no struct_ops {name}")
        self._require_loaded(f"attach {name}")
        pointer = self._map(name)
        map_fd = int(lib().bpf_map__fd(pointer))
        if map_fd < 0:
            raise self._error(f"struct_ops {name} was not loaded")
        kernel_name = self._struct_ops[name].kernel_name
        attach = registration.attach_linked if self._linked else registration.attach_unlinked
        return attach(pointer, map_fd, kernel_name, self.path)

    def attach_cgroup(self, program: str, cgroup_fd: int) -> BpfLink:
        """Attach to a cgroup v2 directory (open descriptor), beside others' programs."""
        fd = self._program_fd(program)
        kind = int(lib().bpf_program__expected_attach_type(self._program(program)))
        return links.create(fd, cgroup_fd, kind, f"{program} to a cgroup")

    def attach_iter(self, program: str) -> BpfIter:
        """Attach an iterator program, to be read as often as wanted."""
        fd = self._program_fd(program)
        kind = int(lib().bpf_program__expected_attach_type(self._program(program)))
        return BpfIter(links.create(fd, 0, kind, f"iterator {program}"))

    def ringbuf(self, name: str, record: str = "hcc_event") -> RingBuffer:
        """Open the ring buffer map `name`, whose records are structs of type `record`."""
        self._require_loaded(f"read {name}")
        return RingBuffer(self.map(name), self.dtype(record))

    def program_fd(self, name: str) -> int:
        """Return the descriptor of a loaded program, owned by the object."""
        return self._program_fd(name)

    def program_stats(self) -> Records:
        """Read one row of stats.PROGRAM_STATS per loaded program."""
        loaded = (
            (name, int(lib().bpf_program__fd(pointer))) for name, pointer in self._programs.items()
        )
        rows = [stats.read(name, fd) for name, fd in loaded if fd >= 0]
        return np.array(rows, stats.PROGRAM_STATS)

    def close(self) -> None:
        """Release the object; maps and programs that came from it must not be used again."""
        if self._object:
            lib().bpf_object__close(self._object)
        self._object = 0
        self._programs, self._maps = {}, {}
        self._loaded = False

    def _collect(self, what: str) -> dict[str, int]:
        library = lib()
        step = getattr(library, f"bpf_object__next_{what}")
        name_of = getattr(library, f"bpf_{what}__name")
        found: dict[str, int] = {}
        pointer = step(self._object, None)
        while pointer:
            found[name_of(pointer).decode()] = pointer
            pointer = step(self._object, pointer)
        return found

    def _map_dtype(self, type_id: int, size: int) -> np.dtype[Any]:
        # The BTF type when the map names one, else a number, else bytes.
        if type_id:
            try:
                form = self._btf.dtype(type_id)
            except FormatError as error:
                raise self._error(str(error)) from error
            if form.itemsize == size:
                # numpy dissolves a bare array type into dimensions; keep it one item.
                return form if form.subdtype is None else np.dtype([("items", form)])
        return np.dtype(f"u{size}") if size in {1, 2, 4, 8} else np.dtype(f"V{size}")

    def _program(self, name: str) -> int:
        if name not in self._programs:
            raise self._error(f"no program {name}")
        return self._programs[name]

    def _program_fd(self, name: str) -> int:
        fd = int(lib().bpf_program__fd(self._program(name)))
        if fd < 0:
            raise self._error(f"program {name} is not loaded")
        return fd

    def _map(self, name: str) -> int:
        if name not in self._maps:
            raise self._error(f"no map {name}")
        return self._maps[name]

    def _require_unloaded(self, what: str) -> None:
        if self._loaded or not self._object:
            raise self._error(f"too late to {what}: already {self._state()}")

    def _require_loaded(self, what: str) -> None:
        if not self._loaded:
            raise self._error(f"too early to {what}: {self._state()}")

    def _state(self) -> str:
        if not self._object:
            return "closed"
        return "loaded" if self._loaded else "not loaded yet"

    def _error(self, message: str) -> BpfError:
        return BpfError(f"{self.path}: {message}", path=self.path)
