"""Compiles the BPF objects into the wheel; everything else is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hostcc.bpf.build import build_directory


class BuildPy(build_py):
    def run(self) -> None:
        if not self.editable_mode:  # set-up of a checkout compiles on its own
            build_directory()
        super().run()


setup(cmdclass={"build_py": BuildPy})
