"""Published figures beside those found here (`hostcc evidence`, docs/evidence.md)."""
