"""Names of registered congestion controls: global to the kernel, at most 15 bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hostcc.mltcp.params import Variant

TAG = re.compile(r"[0-9a-z]{4}\Z")

STRUCT_OPS: Mapping[Variant, str] = {
    Variant.HOSTCC: "hcc_host",
    Variant.RENO: "hcc_reno",
    Variant.CUBIC: "hcc_cubic",
    Variant.DCTCP: "hcc_dctcp",
}
"""The struct_ops variable of each variant in mltcp.bpf.c."""


def kernel_names(tag: str, variants: Iterable[Variant]) -> dict[Variant, str]:
    """Return variant -> `hcc_<tag>_<variant>`.

    Raises ValueError for a tag that is not four characters of a-z and 0-9.
    """
    if not TAG.match(tag):
        raise ValueError(f"tag {tag!r}: expected four characters of a-z and 0-9")
    return {v: f"hcc_{tag}_{STRUCT_OPS[v].removeprefix('hcc_')}" for v in variants}
