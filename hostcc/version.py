"""The version of hostcc; the number is stored in pyproject.toml only."""

from __future__ import annotations


def version() -> str:
    """Return the installed version; "unknown" when run from files that were never installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("hostcc")
    except PackageNotFoundError:
        return "unknown"
