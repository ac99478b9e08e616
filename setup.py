"""Compiles BPF objects and C libraries into the wheel; all else is in pyproject.toml.

The same sources make the same wheel, to the byte, wherever and whenever it is built with the same
compilers.
"""

import os
import platform
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hostcc.bpf.build import build_directory
from hostcc.verbs.build import LIBRARIES, build_all
from tools import elf_needs, sbom

TOP = Path(__file__).resolve().parent
FIRST_OF_ZIP = "315532800"
"""1980-01-01: what a zip archive has for no time at all."""


class BuildPy(build_py):
    def run(self) -> None:
        if not self.editable_mode:  # set-up of a checkout compiles on its own
            build_directory()
            build_all()
        super().run()


class BdistWheel(bdist_wheel):
    def run(self) -> None:
        os.environ.setdefault("SOURCE_DATE_EPOCH", FIRST_OF_ZIP)
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        """Any Python: the libraries are loaded by ctypes and by jobs, none by Python itself."""
        made = [one.target for one in LIBRARIES if one.target.exists()]
        return "py3", "none", elf_needs.platform(platform.machine(), made)

    def write_wheelfile(self, wheelfile_base: str, *words: str) -> None:
        super().write_wheelfile(wheelfile_base, *words)
        folder = Path(wheelfile_base, "sboms")
        folder.mkdir()
        folder.joinpath("hostcc.cdx.json").write_bytes(sbom.document(TOP, Path(self.bdist_dir)))
        for path in Path(self.bdist_dir).rglob("*"):  # whatever umask the checkout was made with
            path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)


class PlatformDistribution(Distribution):
    """The libraries are of one architecture, so the wheel is, too."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel}, distclass=PlatformDistribution)
