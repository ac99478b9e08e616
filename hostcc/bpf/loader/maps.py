"""BPF maps as typed tables: single entries, and whole maps in a few system calls."""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from hostcc.bpf.loader.errors import BpfError, system_error
from hostcc.bpf.loader.libbpf import BatchOpts, lib
from hostcc.bpf.loader.records import Array, DType, copy_fields, join, pack, pack_one

ANY, NOEXIST, EXIST = 0, 1, 2  # BPF_ANY and so on, flags of an update
F_MMAPABLE = 1 << 10
ENOTSUPP = 524  # the kernel's own; what a map type without batches says
UNSUPPORTED = frozenset({ENOTSUPP, errno.EOPNOTSUPP, errno.EINVAL})
# enum bpf_map_type
ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU_PERCPU_HASH, PERCPU_CGROUP_STORAGE = 2, 5, 6, 10, 21
PERCPU = frozenset({PERCPU_HASH, PERCPU_ARRAY, LRU_PERCPU_HASH, PERCPU_CGROUP_STORAGE})
FIRST_BATCH = 4096
# A hash map answers ENOSPC while one of its buckets does not fit; 1 << 22 entries always do.
LARGEST_BATCH = 1 << 22


@functools.cache
def possible_cpus() -> int:
    """Count the CPUs that a per-CPU map keeps a value for."""
    return int(lib().libbpf_num_possible_cpus())


class Entry:
    """One entry that is written often: packing it anew takes ten times as long.

    Assign to fields of `value`, then `write`.
    """

    def __init__(self, table: BpfMap, key: Array) -> None:
        self.value = np.zeros(1, table.value_dtype)
        self._table, self._key = table, key
        self._at = key.ctypes.data, self.value.ctypes.data

    def write(self) -> None:
        """Set the entry to `value`."""
        self._table.check(lib().bpf_map_update_elem(self._table.fd, *self._at, ANY), "update")


class BpfMap:
    """One map of an object.  Usable once the object is loaded.

    Keys are ints, tuples in field order, or numpy values of `key_dtype`; values likewise.
    In per-CPU maps a value is an array with one element per possible CPU.  Methods raise
    BpfError; "no such entry" is None or False, not an error.
    """

    def __init__(self, pointer: int, name: str, key_dtype: DType, value_dtype: DType) -> None:
        self.pointer = pointer
        self.name = name
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.type = int(lib().bpf_map__type(pointer))
        """enum bpf_map_type."""
        self.percpu = self.type in PERCPU
        self._stride = -(-value_dtype.itemsize // 8) * 8 if self.percpu else value_dtype.itemsize
        self._value_bytes = self._stride * (possible_cpus() if self.percpu else 1)

    @property
    def fd(self) -> int:
        """The map's descriptor, owned by the object; BpfError before it is loaded."""
        fd = int(lib().bpf_map__fd(self.pointer))
        if fd < 0:
            raise BpfError(f"map {self.name}: its object is not loaded", errno=errno.EBADF)
        return fd

    @property
    def max_entries(self) -> int:
        """Capacity in entries."""
        return int(lib().bpf_map__max_entries(self.pointer))

    @property
    def flags(self) -> int:
        """Creation flags, BPF_F_*."""
        return int(lib().bpf_map__map_flags(self.pointer))

    def lookup(self, key: Any) -> Any:
        """Return the value of `key` (numpy value; array over CPUs in a per-CPU map) or None."""
        buffer = self._values_buffer(1)
        packed = self._pack_key(key)
        result = lib().bpf_map_lookup_elem(self.fd, packed.ctypes.data, buffer.ctypes.data)
        if result == -errno.ENOENT:
            return None
        self.check(result, "look up")
        return self._values_view(buffer, 1)[0].copy()

    def update(self, key: Any, value: Any, flags: int = ANY) -> None:
        """Set `key` to `value`; NOEXIST and EXIST make it an insertion or a replacement.

        In a per-CPU map one value is written for all CPUs.
        """
        packed = self._pack_key(key)
        values = self._pack_values(value, 1)
        result = lib().bpf_map_update_elem(self.fd, packed.ctypes.data, values.ctypes.data, flags)
        self.check(result, "update")

    def entry(self, key: Any) -> Entry:
        """Prepare the entry of `key`, all zero until it is written; not in a per-CPU map."""
        if self.percpu:
            raise BpfError(f"map {self.name}: an entry has a value for each CPU")
        return Entry(self, self._pack_key(key))

    def delete(self, key: Any) -> bool:
        """Remove `key`; False when it was not there."""
        packed = self._pack_key(key)
        result = lib().bpf_map_delete_elem(self.fd, packed.ctypes.data)
        if result == -errno.ENOENT:
            return False
        self.check(result, "delete")
        return True

    def keys(self) -> Array:
        """Read all keys one at a time; entries that come or go meanwhile may be missed."""
        found = [key.copy() for key in self._walk()]
        return np.array(found, self.key_dtype) if found else np.empty(0, self.key_dtype)

    def lookup_batch(self) -> tuple[Array, Array]:
        """Read all (keys, values) as two arrays of equal length.

        Uses BPF_MAP_LOOKUP_BATCH where the map type has it, else one call per entry.
        Not a snapshot: programs may write while it reads.
        """
        chunk = max(1, min(self.max_entries, FIRST_BATCH))
        while True:
            try:
                return self._lookup_in_chunks(chunk)
            except BpfError as error:
                if error.errno == errno.ENOSPC and chunk < LARGEST_BATCH:
                    chunk *= 4
                elif error.errno in UNSUPPORTED:
                    return self._lookup_singly()
                else:
                    raise

    def update_batch(self, keys: Any, values: Any) -> None:
        """Set many entries; `keys` and `values` convert to arrays of the map's dtypes.

        Not atomic: when it raises, some entries may have been written.
        """
        packed = np.ascontiguousarray(self._pack(keys, self.key_dtype, "keys").reshape(-1))
        count = len(packed)
        if not count:
            return
        stored = self._pack_values(values, count)
        done = ctypes.c_uint32(count)
        options = BatchOpts(ctypes.sizeof(BatchOpts), ANY, 0)
        result = lib().bpf_map_update_batch(
            self.fd, packed.ctypes.data, stored.ctypes.data, done, options
        )
        if -result not in UNSUPPORTED:
            self.check(result, f"update {count} entries of")
            return
        width = self._value_bytes
        for row in range(count):
            self.check(
                lib().bpf_map_update_elem(
                    self.fd,
                    packed.ctypes.data + row * self.key_dtype.itemsize,
                    stored.ctypes.data + row * width,
                    ANY,
                ),
                "update",
            )

    def clear(self) -> None:
        """Delete every entry of a hash map."""
        for key in self.keys():
            self.delete(key)

    def view(self) -> Array:
        """Map the live memory of an array map made with BPF_F_MMAPABLE, shape (max_entries,).

        Reads and writes go straight to the map; it stays mapped as long as the array lives.
        """
        if self.type != ARRAY or not self.flags & F_MMAPABLE:
            raise BpfError(f"map {self.name}: only an array with BPF_F_MMAPABLE can be mapped")
        stride = -(-self.value_dtype.itemsize // 8) * 8
        try:
            memory = mmap.mmap(self.fd, stride * self.max_entries, mmap.MAP_SHARED)
        except OSError as error:
            raise system_error(f"cannot map {self.name}", error.errno or 0) from error
        return np.ndarray((self.max_entries,), self.value_dtype, memory, strides=(stride,))

    def _walk(self) -> Iterator[Array]:
        # Every key in turn, in one buffer that the next step overwrites.
        key = np.zeros((), self.key_dtype)
        previous: int | None = None
        fd = self.fd
        # An entry that vanishes while we stand on it sends the kernel back to the start.
        for _ in range(2 * self.max_entries + 1):
            result = lib().bpf_map_get_next_key(fd, previous, key.ctypes.data)
            if result == -errno.ENOENT:
                return
            self.check(result, "walk")
            yield key
            previous = key.ctypes.data

    def _lookup_singly(self) -> tuple[Array, Array]:
        found: dict[bytes, Any] = {}
        for key in self._walk():
            value = self.lookup(key)
            if value is not None:
                found[key.tobytes()] = value
        keys = np.frombuffer(b"".join(found), self.key_dtype).copy()
        buffer = self._values_buffer(len(found))
        view = self._values_view(buffer, len(found))
        for row, value in enumerate(found.values()):
            view[row] = value
        return keys, view

    def _lookup_in_chunks(self, chunk: int) -> tuple[Array, Array]:
        key_parts, value_parts = [], []
        # The position is opaque: a bucket number or a key, whichever is larger.
        position = np.zeros(max(8, self.key_dtype.itemsize), np.uint8)
        given: int | None = None
        count = ctypes.c_uint32()
        options = BatchOpts(ctypes.sizeof(BatchOpts), 0, 0)
        while True:
            keys = np.zeros(chunk, self.key_dtype)
            buffer = self._values_buffer(chunk)
            count.value = chunk
            result = lib().bpf_map_lookup_batch(
                self.fd,
                given,
                position.ctypes.data,
                keys.ctypes.data,
                buffer.ctypes.data,
                count,
                options,
            )
            if result not in {0, -errno.ENOENT}:
                self.check(result, "read")
            key_parts.append(keys[: count.value])
            value_parts.append(self._values_view(buffer, count.value))
            if result:
                break
            given = position.ctypes.data
        return join(key_parts, self.key_dtype), join(value_parts, self.value_dtype)

    def _pack(self, value: Any, dtype: DType, what: str) -> Array:
        try:
            return pack(value, dtype)
        except ValueError as error:
            raise self._unfit(value, dtype, what, error) from error

    def _pack_key(self, key: Any) -> Array:
        try:
            return pack_one(key, self.key_dtype)
        except ValueError as error:
            raise self._unfit(key, self.key_dtype, "key", error) from error

    def _unfit(self, value: Any, dtype: DType, what: str, why: ValueError) -> BpfError:
        return BpfError(f"map {self.name}: {value!r:.60} is no {what} of type {dtype}: {why}")

    def _pack_values(self, value: Any, count: int) -> Array:
        given = self._pack(value, self.value_dtype, "value")
        buffer = self._values_buffer(count)
        view = self._values_view(buffer, count)
        if self.percpu and given.ndim == 1 and count > 1 and len(given) == count:
            given = given[:, np.newaxis]
        try:
            copy_fields(view, np.broadcast_to(given, view.shape))
        except ValueError as error:
            raise BpfError(f"map {self.name}: {count} keys but {given.shape} values") from error
        return buffer

    def _values_buffer(self, count: int) -> Array:
        return np.zeros(count * self._value_bytes, np.uint8)

    def _values_view(self, buffer: Array, count: int) -> Array:
        shape: tuple[int, ...] = (count,)
        strides: tuple[int, ...] = (self._value_bytes,)
        if self.percpu:
            shape, strides = (count, possible_cpus()), (self._value_bytes, self._stride)
        # mypy: a strided view of bytes is the documented use of this constructor.
        return np.ndarray(shape, self.value_dtype, buffer, strides=strides)

    def check(self, result: int, verb: str) -> None:
        """Raise BpfError for the negative result of a system call."""
        if result < 0:
            raise system_error(f"cannot {verb} map {self.name}", -int(result))
