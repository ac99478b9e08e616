"""A real browser opens a report: what it shows, and that nothing in a name runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from hostcc.cli import report_page
from hostcc.report import svg
from tests.cli import report_world
from tests.conftest import NOT_HERE

CHROMIUM = shutil.which("chromium")
IS_DEBIAN = "\nID=debian" in "\n" + Path("/etc/os-release").read_text()
WHY = "no chromium: tools/setup --with-chromium gets it"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1100,1600",
)  # fmt: skip
pytestmark = [
    pytest.mark.unit,
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason=WHY if IS_DEBIAN else f"{NOT_HERE} a chromium that is no snap"
    ),
]
NAMES = ["resnet50", "bert-large", "dlrm", "vgg16"]


def browse(page: Path, *words: str) -> str:
    """Open a page; what the browser prints."""
    profile = page.parent / "profile"
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", *words, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_picture_is_not_blank_and_has_the_jobs_colours(tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    page.write_text(report_page.page(report_world.evidence(NAMES)))
    browse(page, f"--screenshot={picture}")
    image = matplotlib.image.imread(picture)
    pixels = np.round(image[..., :3] * 255).astype(int).reshape(-1, 3)
    assert image.shape[:2] == (1600, 1100)
    found, counts = np.unique(pixels, axis=0, return_counts=True)
    assert len(found) > 100
    assert counts.max() < 0.95 * len(pixels)
    shown = {tuple(one) for one in found.tolist()}
    for place in range(len(NAMES)):
        colour = svg.colour(place)
        assert tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5)) in shown


def test_the_document_has_the_jobs_and_no_script_ran(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    hostile = '<img src=x onerror="document.title=1">'
    page.write_text(report_page.page(report_world.evidence([*NAMES, hostile])))
    document = browse(page, "--dump-dom")
    for name in NAMES:
        assert f">{name}<" in document.replace("</span>", ">")
    assert "<title>hostcc report: host</title>" in document
    assert "&lt;img src=x" in document
    assert "<img" not in document
