"""Fixtures of the tests of gossip."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The message and fields of each line of the log."""
    found: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            fields = getattr(record, "fields", {})
            found.append(f"{record.getMessage()} {fields}")

    caplog.set_level(logging.INFO, logger="hostcc")
    keeper = Keeper()
    logging.getLogger("hostcc").addHandler(keeper)
    yield found
    logging.getLogger("hostcc").removeHandler(keeper)
