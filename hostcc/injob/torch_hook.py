"""Marks from PyTorch's optimisers, without a change to the training script.

`HOSTCC_MARK=1` with the directory of `site_directory()` in PYTHONPATH does it for every
Python below; so does `python -m hostcc.mark SCRIPT`.  PyTorch is never imported because
of this: the hook waits until the script imports it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import runpy
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

OPTIMISER = "torch.optim.optimizer"
_counted: weakref.ref[Any] | None = None


def site_directory() -> Path:
    """What `hostcc run --mark` puts into PYTHONPATH, beside HOSTCC_MARK=1."""
    return Path(__file__).parent / "site"


def install() -> None:
    """Mark every step of the script's optimiser, now or as soon as PyTorch is there."""
    module = sys.modules.get(OPTIMISER)
    if module is not None:
        _register(module)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def after_step(optimiser: Any, *_: Any) -> None:
    """A step ended.  Of several optimisers the first one counts, for as long as it lives."""
    global _counted
    try:
        mark = _mark()
        if mark.explicit:
            return
        counted = None if _counted is None else _counted()
        if counted is None:
            _counted, counted = weakref.ref(optimiser), optimiser
        if counted is optimiser:
            mark.record()
    except Exception:  # noqa: BLE001, S110 - no training run ends because of a mark
        pass


def main(arguments: Sequence[str]) -> int:
    """`python -m hostcc.mark [-m] SCRIPT ARGUMENT ...`: run it with the hook."""
    as_module = list(arguments[:1]) == ["-m"]
    rest = list(arguments[1:] if as_module else arguments)
    if not rest or (rest[0].startswith("-") and not as_module):
        print("usage: python -m hostcc.mark [-m] SCRIPT [ARGUMENT ...]", file=sys.stderr)
        return 2
    install()
    sys.argv = rest
    if as_module:
        sys.path.insert(0, "")
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(rest[0]).resolve().parent))
        runpy.run_path(rest[0], run_name="__main__")
    return 0


class _Finder(importlib.abc.MetaPathFinder):
    """Notices that PyTorch's optimisers are imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Nothing, but for that one module: what Python itself finds, with us told afterwards."""
        if fullname != OPTIMISER:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            _tell_us(spec.loader)
        return spec


def _tell_us(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _register(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        return  # a loader that cannot be told; no marks then


def _register(module: Any) -> None:
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:  # PyTorch 2.0 and newer
        try:
            register(after_step)
        except Exception:  # noqa: BLE001 - no training run ends because of a mark
            return


def _mark() -> Any:
    """The module that holds this process's marks."""
    for name in ("hostcc.mark", "_hostcc_mark"):
        if name in sys.modules:
            return sys.modules[name]
    import hostcc.mark

    return hostcc.mark
