"""What has to be closed, as a context manager."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A `with` block ends in `close`, whatever happened in it."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is held.  May be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
