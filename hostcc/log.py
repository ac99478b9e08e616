"""Structured logs: an event and its fields, as text for people or as JSON for programs.

Under systemd (JOURNAL_STREAM) text lines carry the journal's priority prefix and no time, which the
journal adds.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any, Literal

from hostcc.errors import one_line
from hostcc.foreign import in_json, lines

_ROOT = "hostcc"
_SYSLOG = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


class Logger:
    """Writes events of one part of the agent: `log.info("job appeared", job="a")`."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, **fields: object) -> None:
        """Log something that only matters when looking for a fault."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log something that an operator may want to know afterwards."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log something that is not as it should be, while the agent goes on."""
        self._write(logging.WARNING, event, fields)

    def failure(self, event: str, **fields: object) -> None:
        """Log an operation that failed."""
        self._write(logging.ERROR, event, fields)

    def defect(self, event: str, error: BaseException, **fields: object) -> None:
        """Log a failure that should have been impossible, with its traceback."""
        self._write(logging.ERROR, event, fields, error)

    def _write(
        self,
        level: int,
        event: str,
        fields: dict[str, object],
        trace: BaseException | None = None,
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", event, extra={"fields": fields}, exc_info=trace)


def get_logger(part: str) -> Logger:
    """Return the logger of one part: `hostcc.PART`."""
    return Logger(logging.getLogger(f"{_ROOT}.{part}"))


class _Formatter(logging.Formatter):
    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        return dict(getattr(record, "fields", {}))

    def _part(self, record: logging.LogRecord) -> str:
        return record.name.removeprefix(f"{_ROOT}.")


class TextFormatter(_Formatter):
    """`2025-01-31T12:00:00.123Z info agent: job appeared job=a slot=1`."""

    def __init__(self, journald: bool = False) -> None:
        super().__init__()
        self._journald = journald

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, followed by the traceback if there is one."""
        words = [f"{key}={_quoted(value)}" for key, value in self._fields(record).items()]
        line = " ".join([f"{self._part(record)}: {record.getMessage()}", *words])
        line = one_line(line)
        if record.exc_info:
            line += "\n" + lines(self.formatException(record.exc_info))
        if self._journald:
            prefix = f"<{_SYSLOG.get(record.levelno, 6)}>"
            return "\n".join(prefix + part for part in line.split("\n"))
        return f"{_utc(record.created)} {record.levelname.lower()} {line}"


class JsonFormatter(_Formatter):
    """One JSON object per line: at, level, part, event, and the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return exactly one line."""
        line = {
            "at": _utc(record.created),
            "level": record.levelname.lower(),
            "part": self._part(record),
            "event": record.getMessage(),
            **self._fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return in_json(json.dumps(line, default=str, ensure_ascii=False))


def configure(level: str, form: Literal["text", "json"]) -> None:
    """Send all logs to standard error; may be called again, on reload."""
    handler = logging.StreamHandler(sys.stderr)
    under_systemd = "JOURNAL_STREAM" in os.environ and not sys.stderr.isatty()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter(under_systemd))
    root = logging.getLogger(_ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def configured() -> tuple[str, Literal["text", "json"]]:
    """Return level and form of the logs, for a child process that should log alike."""
    root = logging.getLogger(_ROOT)
    as_json = any(isinstance(one.formatter, JsonFormatter) for one in root.handlers)
    return logging.getLevelName(root.getEffectiveLevel()).lower(), "json" if as_json else "text"


def _utc(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}Z"


def _quoted(value: object) -> str:
    text = str(value)
    if text and text.isprintable() and not any(c in ' "=' for c in text):
        return text
    return in_json(json.dumps(text, ensure_ascii=False))
