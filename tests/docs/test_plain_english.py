"""Pages are easy to read: short sentences and everyday words."""

from __future__ import annotations

import re

import pytest
from pages import PAGES, ROOT, named, without_blocks

MOST_WORDS = 30
"""In a sentence."""
AVOIDED = re.compile(r"\b(whoever|whom|nobody|somebody|anybody|everybody|anew)\b", re.IGNORECASE)
# Pages that are written from code have its words.
GENERATED = {"command-line.md", "kin.md", "reproduction.md", "settings.md"}
WRITTEN = [page for page in PAGES if page.name not in GENERATED]


def sentences(text: str) -> list[str]:
    """Return the sentences of a page; an item of a list is one, tables and headings are none."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(?:\||#).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)  # where links lead
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    return [
        " ".join(sentence.split())
        for part in parts
        for sentence in re.split(r"(?<=[.!?:])\**\s+", part.strip())
        if sentence
    ]


def test_sentences_are_found():
    assert len(sentences(without_blocks(ROOT / "README.md"))) > 20


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_no_sentence_is_long(page):
    found = sentences(without_blocks(page))
    assert [each for each in found if len(each.split()) > MOST_WORDS] == []


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_pages_avoid_words_that_are_read_twice(page):
    assert AVOIDED.findall(page.read_text()) == []


def test_long_sentences_and_avoided_words_are_found():
    long = " ".join(["word"] * (MOST_WORDS + 1))
    assert sentences(f"# Heading\n\n| a | b |\n\nShort. [Two](link).\n- item\n\n{long}.") == [
        "Short.",
        "[Two].",
        "- item",
        f"{long}.",
    ]
    assert AVOIDED.findall("Somebody merges with whom it likes.") == ["Somebody", "whom"]
