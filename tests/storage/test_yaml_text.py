"""YAML of unknown origin: whatever is wrong with it is a ValueError, at once and without memory."""

from __future__ import annotations

import tracemalloc

import pytest

from coterie.storage.yaml_text import parse_yaml


@pytest.mark.parametrize(
    "text",
    [
        "!!int x", "!!int ''", "!!float ''", "!!bool x", "!!timestamp x", "!!binary '\u1234'",
        "!!python/object:os.system ls", "? [a]\n: b", "? {a: 1}\n: b", "2020-13-45", "{", "a: b: c",
        "\x00", "\udcff", "9" * 6000, "0x" + "f" * 6000, "1" + ":59" * 4000,
        "<<: 5", "<<: [1]",
    ],
)  # fmt: skip
def test_what_makes_no_sense(text):
    with pytest.raises(ValueError, match=r"^it "):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["&a [*a]", "&a {x: *a}", "&a {x: [1, {y: *a}]}"])
def test_what_refers_to_itself(text):
    with pytest.raises(ValueError, match=r"'\*a' refers to itself"):
        parse_yaml(text)


@pytest.mark.parametrize("depth", [60, 3000, 100_000])
@pytest.mark.parametrize("letter", ["[", "{a: ", "- "])
def test_what_is_nested_too_deeply(letter, depth):
    with pytest.raises(ValueError, match="nested more than 50 deep"):
        parse_yaml(letter * depth)


@pytest.mark.parametrize("shape", ["[*b{0}, *b{0}]", "{{x: *b{0}, y: *b{0}}}"])
def test_references_that_stand_for_billions_of_values(shape):
    lines = ["_0: &b0 {a: lol}"]
    lines += [f"_{at}: &b{at} {shape.format(at - 1)}" for at in range(1, 40)]
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="has more than 200,000 values"):
            parse_yaml("\n".join(lines))
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()


def test_references_as_they_are_written_by_people():
    text = "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\nd: &d 5\ne: *d\n"
    assert parse_yaml(text) == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}, "d": 5, "e": 5}


def test_many_values_are_no_bomb():
    assert parse_yaml(str(list(range(20_000))))[-1] == 19_999
