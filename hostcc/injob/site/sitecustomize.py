"""With HOSTCC_MARK=1: marks from PyTorch's optimisers in whatever program starts.

Runs in other people's programs, perhaps in an environment without hostcc, so the files
are loaded from beside this one then.  A `sitecustomize` that this one hides runs, too.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _load(name: str, path: Path) -> object:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _install() -> None:
    try:
        import hostcc.mark  # noqa: F401 - the hook looks for it
        from hostcc.injob import torch_hook
    except ImportError:
        _load("_hostcc_mark", _HERE.parents[1] / "mark.py")
        module = _load("_hostcc_mark_torch", _HERE.parent / "torch_hook.py")
        module.install()  # type: ignore[attr-defined]
    else:
        torch_hook.install()


def _run_hidden() -> None:
    """Run the sitecustomize that would have been found without us."""
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("HOSTCC_MARK") == "1":
    try:
        _install()
    except Exception as error:  # noqa: BLE001 - the program runs, with or without marks
        print(f"hostcc: no marks: {error}", file=sys.stderr)
_run_hidden()
