"""The pictures of the pages: made by a script, all in use, and small enough to keep."""

from __future__ import annotations

import re
import shlex

import pytest
from pages import PAGES, ROOT, commands
from PIL import Image
from scripts import script

PICTURES = sorted((ROOT / "docs" / "pictures").iterdir())
made = script("make_pictures")


def test_every_picture_is_made_by_the_script_and_shown_by_a_page():
    shown = {
        name
        for page in PAGES
        for name in re.findall(r"!\[[^\]]+\]\(\S*?pictures/(\S+?)\)", page.read_text())
    }
    assert {path.name for path in PICTURES} == shown
    kept = ("kin-", "natural", "performance", "reproduction")
    from_kept = {path.stem for path in PICTURES if path.stem.startswith(kept)}
    assert {path.stem for path in PICTURES} - from_kept == made.names()


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_pictures_are_small_and_whole(path):
    assert path.stat().st_size < 150 * 1024
    with Image.open(path) as image:
        image.load()
        assert min(image.size) > 300
        assert len(image.getcolors(1 << 24)) > 50, "nothing is drawn"


def test_all_pictures_together_are_small():
    assert sum(path.stat().st_size for path in PICTURES) < 1.5 * 1024**2


def test_pictures_are_of_the_run_that_pages_tell_about():
    told = [words for page in PAGES for words in commands(page)]
    assert shlex.split(made.RUNS["mine"]) in told
