"""Prints the weight of a job, by its name, out of what `hostcc status --json` says."""

import json
import sys

try:
    rows = json.load(sys.stdin)["jobs"]
except ValueError:  # no agent answers
    rows = []
for row in rows:
    if row["name"] == sys.argv[1]:
        print(row["weight"])
