"""Compiles BPF objects and C libraries into the wheel; all else is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hostcc.bpf.build import build_directory
from hostcc.verbs.build import build_all


class BuildPy(build_py):
    def run(self) -> None:
        if not self.editable_mode:  # set-up of a checkout compiles on its own
            build_directory()
            build_all()
        super().run()


class PlatformDistribution(Distribution):
    """The libraries are of one architecture, so the wheel is, too."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildPy}, distclass=PlatformDistribution)
