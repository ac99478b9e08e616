"""Which hostcc this is; the number is kept in pyproject.toml only."""

from __future__ import annotations


def version() -> str:
    """The installed version, "unknown" when run from files that were never installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("hostcc")
    except PackageNotFoundError:
        return "unknown"
