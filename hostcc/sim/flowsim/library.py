"""The compiled simulation: its sources, and how it is called.

`python -m hostcc.verbs.build` compiles it. Callers validate: the C code trusts its input.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from pathlib import Path

from hostcc.errors import HostccError
from hostcc.system.cc import HERE as CC_HERE
from hostcc.system.cc import SHARED_LIBRARY_FLAGS, Artifact

HERE = Path(__file__).resolve().parent
FLOWSIM = Artifact(
    HERE / "libhostcc-flowsim.so",
    tuple(
        HERE / name
        for name in (
            "events.c", "queue.c", "rates.c", "survey.c", "routes.c", "state.c", "check.c",
        )
    ),
    # Products and sums are rounded one by one: the same digits on every processor.
    (*SHARED_LIBRARY_FLAGS, "-ffp-contract=off"),
    libraries=("-lm",),
    header_folders=(CC_HERE,),
    exports=("hcc_sim_*",),
)  # fmt: skip


class Stop(IntEnum):
    """Why a run returned (flowsim.h)."""

    TIME = 0
    JOBS = 1
    SENDING = 2
    EVENTS = 3
    RECORDS = 4
    ENDLESS = -1
    UNFAIR = -2
    MEMORY = -3


_P, _N, _D = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


class Input(ctypes.Structure):
    """`struct hcc_sim_input`."""

    _fields_ = (
        *((name, _N) for name in ("jobs", "phases", "rings", "flows", "links")),
        ("ramp_steps", _N),
        ("records", _N),
        *(
            (name, _P)
            for name in (
                "job_start", "job_compute", "job_stop", "job_iterations", "job_phase",
                "job_recorded", "phase_start", "phase_blocks", "phase_ring", "ring_rounds",
                "ring_flow", "flow_bytes", "flow_weight", "flow_rate", "flow_link", "hop_link",
                "link_capacity", "link_delay", "ramp",
            )
        ),
        ("checked", _N),
        ("tell_sending", _N),
    )  # fmt: skip


class Output(ctypes.Structure):
    """`struct hcc_sim_output`."""

    _fields_ = tuple(
        (name, _P) for name in ("compute", "finished", "sent", "carried", "iterations", "running")
    )


_FUNCTIONS: dict[str, tuple[list[object], object]] = {
    "make": ([_P], _P),
    "free": ([_P], None),
    "run": ([_P, _D, _D, _N], ctypes.c_int),
    "levels": ([_P, _N, _P, _P], None),
    "weights": ([_P, _N, _P, _P], None),
    "shifts": ([_P, _N, _P, _P], None),
    "grids": ([_P, _N, _P, _P, _P, _P], None),
    "capacities": ([_P, _N, _P, _P], None),
    "routes": ([_P, _N, _P, _P, _P, _N], None),
    "read": ([_P, _P], None),
    "running": ([_P, _P, _P], None),
    "records": ([_P, _P, _P], _N),
    "now": ([_P], _D),
    "events": ([_P], _N),
    "refills": ([_P], _N),
    "culprit": ([_P], _N),
}
_loaded: list[ctypes.CDLL] = []


def load() -> ctypes.CDLL:
    """Return the compiled part. Raises HostccError where it is missing or of other sources."""
    if _loaded:
        return _loaded[0]
    advice = "run python -m hostcc.verbs.build"
    try:
        library = ctypes.CDLL(str(FLOWSIM.target))
    except OSError as error:
        raise HostccError(f"{error}; {advice}") from None
    wanted = (ctypes.sizeof(Input), ctypes.sizeof(Output), 0)
    if tuple((ctypes.c_uint64 * 3).in_dll(library, "hcc_sim_layout")) != wanted:
        raise HostccError(f"{FLOWSIM.target}: built from other sources; {advice}")
    for name, (arguments, result) in _FUNCTIONS.items():
        function = getattr(library, f"hcc_sim_{name}")
        function.argtypes, function.restype = arguments, result
    _loaded.append(library)
    return library
