"""The documentation becomes a site: strictly, whole, and with nothing loaded from elsewhere."""

from __future__ import annotations

import re
import shutil

import pytest
from pages import ROOT
from site_build import build_site

import coterie

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    done = build_site(DOCS, folder)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_every_page_and_every_exported_name_is_there(site):
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).exists(), page
    reference = (site / "python.html").read_text()
    for name in coterie.__all__:
        assert f'id="coterie.{name}"' in reference, name


def test_nothing_is_loaded_from_elsewhere(site):
    outside = re.compile(
        r"""<(?:script|link|img|iframe|source)[^>]+(?:src|href)=["'](?:https?:)?//"""
    )
    for page in site.rglob("*.html"):
        assert not outside.search(page.read_text()), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text()), sheet


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a page](nowhere.md)", "nowhere.md"),
        ("[a heading](index.md#nowhere)", "nowhere"),
        ("![a picture](nowhere.webp)", "nowhere.webp"),
        ("```{eval-rst}\n:py:class:`coterie.Nowhere`\n```", "coterie.Nowhere"),
    ],
    ids=["page", "heading", "picture", "name"],
)
def test_what_leads_nowhere_fails_the_build(tmp_path, text, said):
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(DOCS / "conf.py", source)
    shutil.copytree(DOCS / "static", source / "static")
    (source / "index.md").write_text(f"# A page\n\n{text}\n")
    done = build_site(source, tmp_path)
    assert done.returncode != 0
    assert said in done.stderr
