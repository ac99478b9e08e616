"""The BPF programs compiled for this process, and the job that drives them.

Struct layouts come from the BTF of the same sources, not from a copy here.
"""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hostcc.bpf import build
from hostcc.bpf.loader.object import BpfObject

NATIVE = Path(__file__).parent / "native"
RENO, HOSTCC = 0, 1
"""Which programs a native flow runs."""
SLOT = 3
_U64 = {"native_silence_ns", "native_min_silence_ns", "native_patience_ns", "native_work_ns",
        "native_pace", "native_fill_q10"}  # fmt: skip
_VOID = {"native_learn_gap", "native_learn_silence", "native_iteration_end", "native_reset",
         "native_end_agent", "native_open", "native_send",
         "native_ack", "native_close", "native_dial", "native_learn_rate", "native_write",
         "native_take", "native_depart", "native_cpu", "native_open_to"}  # fmt: skip
_POINTER, _32, _64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
_ARGUMENTS = {
    "native_silence_ns": (_POINTER, _POINTER, _32),
    "native_min_silence_ns": (_32,),
    "native_learn_gap": (_POINTER, _64),
    "native_judge_silence": (_POINTER, _POINTER, _64, _64, _32),
    "native_learn_silence": (_POINTER, _POINTER, _64, _64, _32),
    "native_end_agent": (),
    "native_patience_ns": (_POINTER,),
    "native_iteration_end": (_POINTER, _POINTER, _64),
    "native_ratio_q10": (_64, _64),
    "native_f_q10": (_POINTER, _32),
    "native_log2_q10": (_32,),
    "native_urgency_q10": (_POINTER, _POINTER, _32),
    "native_target_us": (_POINTER, _32, _32, _32),
    "native_open": (_32, _32, _32, _32),
    "native_open_to": (_32, _32, _32, _32, _32),
    "native_path": (_32,),
    "native_floor_gap_us": (_32, _32),
    "native_send": (_32, _32, _64, _32),
    "native_ack": (_32, _32, _64, ctypes.c_int32),
    "native_close": (_32, _32),
    "native_cpu": (_32, _32, _32, _32, _32, _32, _64),
    "native_write": (_32, _64, _32),
    "native_leave": (_32, _32),
    "native_take": (_32, _64, _32, ctypes.c_int32),
    "native_lose": (_32,),
    "native_time_out": (_32, _32, _32),
    "native_undo": (_32, _32, _32),
    "native_leave_state": (_32, _32),
    "native_grow": (_32, _32),
    "native_out": (_32,),
    "native_pace": (_32,),
    "native_depart": (_32, _64),
    "native_learn_rate": (_POINTER, _64),
    "native_work_ns": (_POINTER,),
    "native_tie_break_q10": (_POINTER, _POINTER, _32),
    "native_pause_us": (_POINTER, _32),
    "native_scaled_pause_us": (_32, _32),
    "native_hold_gap_us": (_POINTER, _32),
    "native_open_packets": (_POINTER, _32),
    "native_spread_bps": (_POINTER, _64),
    "native_in_pattern": (_POINTER,),
    "native_burst_is_sent": (_POINTER,),
    "native_fill_q10": (_POINTER, _32, _32),
    "native_flow_f_q10": (_32,),
    "native_dial": (_32,),
    "native_scale_acked": (_32, _32, _32),
}


class Native:
    """The library, the memory behind its maps, and the constants of its headers."""

    def __init__(self, directory: Path) -> None:
        target = directory / "mltcp.bpf.o"
        build.compile_object(build.HERE / "mltcp.bpf.c", target)
        with BpfObject.open(target) as obj:
            self.enums = dict(obj.enums)
            self.conf_dtype = obj.dtype("hcc_job_conf")
            self.state_dtype = obj.dtype("hcc_job_state")
            self.path_dtype = obj.dtype("hcc_path_state")
            self.gate_dtype = obj.dtype("hcc_gate")
        library = directory / "native.so"
        include = [option for option in build.flags() if option.startswith("-I/usr")]
        subprocess.run(
            ["clang", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror",
             "-Wno-unused-parameter", "-Wno-sign-compare", "-Wno-unknown-attributes",
             f"-I{NATIVE}", f"-I{build.HERE}", *include,
             str(NATIVE / "native.c"), "-o", str(library)],
            check=True,
        )  # fmt: skip
        self._library = ctypes.CDLL(str(library))
        for name, arguments in _ARGUMENTS.items():
            function = getattr(self._library, name)
            function.argtypes = arguments
            function.restype = None if name in _VOID else _64 if name in _U64 else _32
        self.confs = self._memory("native_confs", self.conf_dtype, self.enums["HCC_MAX_JOBS"])
        self.states = self._memory("native_states", self.state_dtype, self.enums["HCC_MAX_JOBS"])
        self.gates = self._memory("native_gates", self.gate_dtype, self.enums["HCC_MAX_JOBS"])
        self.paths = self._memory("native_paths", self.path_dtype, self.enums["HCC_PATHS"])

    def call(self, name: str, *arguments: Any) -> int:
        """Call `native_<name>`; structs are passed by their numpy memory."""
        raw = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
        return int(getattr(self._library, f"native_{name}")(*raw) or 0)

    def struct_bytes(self, name: str) -> int:
        return int(getattr(self._library, f"native_{name}_bytes")())

    def conf(self, **values: Any) -> npt.NDArray[np.void]:
        return _struct(self.conf_dtype, values)

    def state(self, **values: Any) -> npt.NDArray[np.void]:
        return _struct(self.state_dtype, values)

    def _memory(self, name: str, dtype: np.dtype[Any], count: int) -> npt.NDArray[np.void]:
        size = dtype.itemsize * count
        raw = memoryview((ctypes.c_ubyte * size).in_dll(self._library, name)).cast("B")
        rows: npt.NDArray[np.void] = np.frombuffer(raw, dtype)
        return rows


def _struct(dtype: np.dtype[Any], values: dict[str, Any]) -> npt.NDArray[np.void]:
    made = np.zeros((), dtype)
    for name, value in values.items():
        made[name] = value
    return made


@dataclass
class NativeJob:
    """A job of several flows, on a clock of its own; times in microseconds."""

    native: Native
    flows: int = 1
    rtt_us: int = 200
    variant: int = RENO
    conf: dict[str, Any] = field(default_factory=dict)
    now_us: int = 1_000_000
    received: float = 0.02
    """Bytes that arrive for each one sent: acknowledgements; 0: nobody counts them."""

    def __post_init__(self) -> None:
        enums = self.native.enums
        self.native.call("reset")
        row = self.native.confs[SLOT]
        row["in_use"], row["mode"] = 1, enums["HCC_MODE_MLTCP"]
        row["f_q10"] = row["plain_q10"] = enums["HCC_ONE"]
        row["target_min_us"], row["target_max_us"] = 300, 1400
        for name, value in self.conf.items():
            row[name] = value
        for flow in range(self.flows):
            self.native.call("open", flow, SLOT, self.variant, self.rtt_us)

    @property
    def state(self) -> np.void:
        row: np.void = self.native.states[SLOT]
        return row

    def burst(self, total: int, spread_us: int = 0) -> None:
        """Send `total` bytes over all flows at once; acknowledged over `spread_us` and an RTT."""
        shares = [total // self.flows + (i < total % self.flows) for i in range(self.flows)]
        for flow, share in enumerate(shares):
            if share:
                self.native.call("send", flow, self.variant, self.now_us, share)
        self.now_us += self.rtt_us + spread_us
        for flow, share in enumerate(shares):
            if share:
                self.native.call("ack", flow, self.variant, self.now_us, self.rtt_us)
        self.state["received_bytes"] += int(total * self.received)

    def dial(self) -> None:
        """The handshake of all flows."""
        for flow in range(self.flows):
            self.native.call("dial", flow)
        self.now_us += self.rtt_us
        for flow in range(self.flows):
            self.native.call("ack", flow, self.variant, self.now_us, self.rtt_us)

    def iteration(self, total: int, bursts: int = 1, pause_us: int = 0) -> None:
        """One iteration's bytes in equal bursts with pauses between them."""
        for number in range(bursts):
            if number:
                self.rest(pause_us)
            self.burst(total // bursts + (number < total % bursts))

    def rest(self, gap_us: int) -> None:
        self.now_us += gap_us

    def close(self) -> None:
        for flow in range(self.flows):
            self.native.call("close", flow, self.variant)
