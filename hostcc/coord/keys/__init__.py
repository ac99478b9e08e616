"""Keys of members, on disk and in memory."""
