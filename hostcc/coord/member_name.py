"""Rules for member names, in a module without imports: reading a configuration must load no
cryptography."""

from __future__ import annotations

import re

MEMBER_NAME = r"^(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,64}\Z"
MEMBER_NAME_WORDS = "1 to 64 characters of A-Z a-z 0-9 . _ - (and not . or ..)"

_MEMBER_NAME = re.compile(MEMBER_NAME)


def is_member_name(text: str) -> bool:
    """Return whether `text` can name a member; the name also serves as a file name."""
    return _MEMBER_NAME.match(text) is not None
