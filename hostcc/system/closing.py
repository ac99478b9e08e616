"""A context manager that ends in `close`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Calls `close` at the end of a `with` block, whatever happened in it."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held.  May be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
