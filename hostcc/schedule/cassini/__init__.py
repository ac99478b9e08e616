"""Time-shifts that interleave jobs on shared links (Cassini, NSDI'24; thesis, chapter 4)."""
