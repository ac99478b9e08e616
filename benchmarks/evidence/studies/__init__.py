"""One file for each group of published figures; a file with `STUDIES` is found by itself."""
