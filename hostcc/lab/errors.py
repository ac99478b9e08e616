"""How a lab can fail."""

from __future__ import annotations

from hostcc.errors import HostccError


class LabError(HostccError):
    """The lab could not be built or run."""
