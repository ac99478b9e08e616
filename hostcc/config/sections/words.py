"""Types of values that several sections share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hostcc.limits import (
    BYTES_PER_ITERATION_MAX,
    F_POINTS,
    FLOP_MAX,
    JOB_NAME,
    JOB_NAME_WORDS,
    VISIBLE,
    WEIGHT_MAX,
    WEIGHT_MIN,
)

JobName = Annotated[str, Meta(pattern=JOB_NAME, description=JOB_NAME_WORDS)]
Weight = Annotated[float, Meta(ge=WEIGHT_MIN, le=WEIGHT_MAX)]
Bytes = Annotated[int, Meta(ge=1, le=BYTES_PER_ITERATION_MAX)]
Flop = Annotated[float, Meta(ge=1, le=FLOP_MAX)]
Glob = Annotated[
    str,
    Meta(pattern=rf"^{VISIBLE}{{1,256}}\Z", description="a pattern of 1 to 256 visible characters"),
]
Micros = Annotated[int, Meta(ge=10, le=1_000_000)]
Silence = Annotated[int, Meta(ge=0, le=60_000_000)]
Slope = Annotated[float, Meta(ge=-100, le=100)]
Factor = Annotated[float, Meta(ge=WEIGHT_MIN, le=WEIGHT_MAX)]
FTable = Annotated[tuple[Factor, ...], Meta(max_length=F_POINTS)]
AbsolutePath = Annotated[str, Meta(pattern=r"^/[^\x00]{0,4000}\Z", description="an absolute path")]
ShortPath = Annotated[
    str, Meta(pattern=r"^/[^\x00]{1,200}\Z", description="an absolute path of at most 200 bytes")
]
SocketPath = Annotated[
    str, Meta(pattern=r"^/[^\x00]{1,106}\Z", description="an absolute path of at most 107 bytes")
]
PortOrRange = (
    Annotated[int, Meta(ge=1, le=65535, description="a port from 1 to 65535")]
    | Annotated[
        str,
        Meta(pattern=r"^[0-9]{1,5}-[0-9]{1,5}\Z", description='a range of ports like "5000-5010"'),
    ]
)
Endpoint = Annotated[
    str,
    Meta(pattern=rf"^{VISIBLE}{{0,300}}\Z", description="text of at most 300 visible characters"),
]
Ports = Annotated[tuple[PortOrRange, ...], Meta(max_length=1024)]
