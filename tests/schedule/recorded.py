"""Plans as they were recorded, by the scheduler's revision.

`python -m tests.schedule.recorded` records those of a new revision; what is recorded stays.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from hostcc.cli.viewfile import view_of
from hostcc.coord import view
from hostcc.coord.core import codec
from hostcc.coord.core.record_checker import RecordChecker
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store
from hostcc.coord.keys.no_keys import NoKeys
from hostcc.model import ClusterView, Plan
from hostcc.schedule.plan import Options, solve_for_agents
from hostcc.schedule.plan_writer import write_plan
from hostcc.schedule.revision import REVISION

FILE = Path(__file__).with_name("plans.json")


def load() -> dict[str, Any]:
    """`cases`: name -> `options` and `view`, or the `message` whose records make one;
    `plans`: revision -> case -> hash."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def decided(case: dict[str, Any]) -> str:
    """Hash of what is decided for a case, whatever the words."""
    given = {key: _tuple(value) for key, value in case["options"].items()}
    seen = _seen(case)
    plan = write_plan(seen.digest, solve_for_agents(seen, Options(**given)))
    return blake2b(msgspec.json.encode(_without_words(plan)), digest_size=16).hexdigest()


def _seen(case: dict[str, Any]) -> ClusterView:
    if "view" in case:
        return view_of(json.dumps(case["view"]).encode(), "view")
    store, checker = Store(Settings()), RecordChecker(NoKeys())
    for record in codec.decode(bytes.fromhex(case["message"])).records:
        store.put(checker.check(record), 0.0)
    return view.build(store, (), "recorded").view


def _without_words(plan: Plan) -> Plan:
    return replace(plan, reason="", jobs=tuple(replace(one, reason="") for one in plan.jobs))


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def main() -> None:
    found = load()
    if str(REVISION) in found["plans"]:
        raise SystemExit(f"{REVISION} is recorded already: raise hostcc/schedule/revision.py first")
    found["plans"][str(REVISION)] = {name: decided(one) for name, one in found["cases"].items()}
    FILE.write_text(json.dumps(found, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
