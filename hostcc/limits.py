"""Bounds that several parts share.

The first group repeats constants of bpf/programs/intf.h, because the agent needs them before any
object is loaded, or without one; a test compares the two.
"""

from __future__ import annotations

import re

MAX_JOBS = 1024
"""Job slots on one host; slot 0 means "no job"."""
F_POINTS = 33
"""Samples of F over bytes_ratio."""
MAX_PORTS = 16384
"""Ports that port rules can name."""
MAX_CGROUPS = 16384
"""cgroups below jobs by which existing sockets are assigned."""

JOB_NAME = r"^(?!\.{1,2}\Z)[A-Za-z0-9._:-]{1,64}\Z"
JOB_NAME_WORDS = "1 to 64 characters of A-Z a-z 0-9 . _ : - (and not . or ..)"
VISIBLE = (
    r"[^\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    r"\ufeff\ufff9-\ufffb]"
)
"""Pattern of a character that others may use in a name: no control, format or line end."""
WEIGHT_MIN, WEIGHT_MAX = 0.01, 100.0
BYTES_PER_ITERATION_MAX = 2**60
FLOP_MAX = 1e30
"""Largest FLOP per iteration that can be declared."""

_JOB_NAME = re.compile(JOB_NAME)


def is_job_name(text: str) -> bool:
    """Return whether `text` can name a job; it is also a directory name below the cgroup root."""
    return _JOB_NAME.match(text) is not None
