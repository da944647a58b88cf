"""Damages what files hold: bytes, texts, YAML and JSON."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import yaml

NUMBERS = [
    *(0, 1, -1, 2, 3, 7, 127, 128, 255, 256, 65_536, 2**31 - 1, 2**31, 2**32, 2**53, 2**63),
    *(2**64 - 1, -(2**31) - 1, -(2**63) - 1, 10**30, 0.5, -0.0, 1e-320, 1e308),
    *(float("nan"), float("inf"), float("-inf")),
]
VALUES: list[Any] = [
    *(None, True, False, "", "x" * 3000, "\x00", "[bold]", "no such", "..", "/", "~", "🙂", "%s{}"),
    *([], {}, [[]], [{}], [None], {"": None}, {"kind": None}, {"kind": "none"}, [1, "a"]),
    *NUMBERS,
]
TOKENS = [
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"\n", b"\t", b"- ", b"? ", b"& ", b"*a"),
    *(b"!!int x", b"!!int ''", b"!!float ''", b"!!bool x", b"!!timestamp x", b"!!binary x"),
    *(b"!!set {a, b}", b"!!omap [a: 1]", b"!!python/object:os.system ls", b"!x y", b"%YAML 9.9\n"),
    *(b"---\n", b"...\n", b"&a [*a]", b"&a {x: *a}", b"<<: *a", b"<<: [1]", b"2020-13-45"),
    *(b"0001-01-01T00:00:00+23:59", b"9999-12-31T23:59:59-23:59", b"2001-01-01T00:00:00.1-99:99"),
    *(b"0x" + b"f" * 6000, b"9" * 6000, b"1" + b":59" * 4000, b"0b" + b"1" * 20_000, b"1e999999"),
    *(b"[" * 3000, b"{a: " * 3000, b"[" * 100_000, b"- " * 3000, b"? " * 3000, b"a: " * 50),
    *(b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\x00", b"\x1b[31m", b"\xed\xa0\x80", b"\xc2\x85"),
    *(b"{a: 1, a: 2}", b"? [a]\n: b\n", b"? {a: 1}\n: b\n", b"\\ud800", b'"\\ud800"', b".nan"),
    *(b"Infinity", b"null", b"~", b"true", b"-", b"|", b">", b"@", b"`", b"#"),
]  # fmt: skip


TYPES = [pa.string(), pa.int8(), pa.float32(), pa.list_(pa.int32()), pa.null()]
LARGEST = 2**26
"""What is larger is damaged enough."""


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return a file with one thing wrong: flipped, overwritten, cut, doubled, moved, emptied."""
    place = chance.randrange(len(data) + 1)
    if chance.random() < 0.4:
        place = place % 64  # beginnings and ends decide most
    elif chance.random() < 0.3:
        place = max(len(data) - place % 64, 0)
    length = chance.choice([1, 1, 1, 2, 4, 8, 100, 4096])
    before, at, after = data[:place], data[place : place + length], data[place + length :]
    ways: list[Callable[[], bytes]] = [
        lambda: before + bytes(byte ^ (1 << chance.randrange(8)) for byte in at) + after,
        lambda: before + bytes(byte ^ (1 << chance.randrange(8)) for byte in at) + after,
        lambda: before + chance.randbytes(len(at)) + after,
        lambda: before + at + chance.randbytes(length) + after,
        lambda: before + after,
        lambda: before + at * chance.choice([2, 50]) + after,
        lambda: before,
        lambda: before + bytes(len(at) + len(after)),
        lambda: after + before,
        lambda: b"",
        lambda: data + data,
        lambda: gzip.compress(data, mtime=0),
    ]
    return chance.choice(ways)()


def changed_text(data: bytes, chance: random.Random) -> bytes:
    """Return a text with something written into it, or a line of it moved, doubled or lost."""
    if chance.random() < 0.6:
        place = chance.randrange(len(data) + 1)
        ends = [at + 1 for at in range(len(data)) if data[at : at + 1] in (b":", b"\n", b" ", b",")]
        if ends and chance.random() < 0.7:
            place = chance.choice(ends)
        stop = place + chance.choice([0, 0, 1, 3, 10])
        return data[:place] + chance.choice(TOKENS) + data[stop:]
    lines = data.splitlines(keepends=True) or [b""]
    at = chance.randrange(len(lines))
    way = chance.randrange(4)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(chance.randrange(len(lines)), lines[at])
    elif way == 2:
        lines[at] = b"  " * chance.randrange(1, 4) + lines[at]
    else:
        chance.shuffle(lines)
    return b"".join(lines)


def changed_values(plain: Any, chance: random.Random) -> Any:
    """Change one value, key or entry somewhere in plain data."""
    if isinstance(plain, dict) and plain and chance.random() < 0.9:
        return _changed_group(plain, chance)
    if isinstance(plain, list) and plain and chance.random() < 0.8:
        return _changed_list(plain, chance)
    return chance.choice(VALUES)


def _changed_group(plain: dict[Any, Any], chance: random.Random) -> dict[Any, Any]:
    key = chance.choice(list(plain))
    way = chance.randrange(8)
    if way == 0:
        return {name: value for name, value in plain.items() if name != key}
    if way == 1:
        renamed = chance.choice([f"{key}x", "", 5, None, "kind", "name"])
        return {renamed if name == key else name: value for name, value in plain.items()}
    return plain | {key: changed_values(plain[key], chance)}


def _changed_list(plain: list[Any], chance: random.Random) -> list[Any]:
    at = chance.randrange(len(plain))
    way = chance.randrange(4)
    if way == 0:
        return plain[:at] + plain[at + 1 :]
    if way == 1:
        return plain * chance.choice([2, 100])
    return [*plain[:at], changed_values(plain[at], chance), *plain[at + 1 :]]


def changed_yaml(data: bytes, chance: random.Random) -> bytes:
    """Return a configuration with other values, of the wrong type or far too large."""
    if chance.random() < 0.1:
        return bomb(data, chance)
    try:
        plain = yaml.safe_load(data)
    except (ValueError, RecursionError, yaml.YAMLError):
        return changed_text(data, chance)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        plain = changed_values(plain, chance)
    return yaml.safe_dump(plain, allow_unicode=True, sort_keys=False).encode("utf-8", "replace")


def bomb(data: bytes, chance: random.Random) -> bytes:
    """Return a text whose references stand for 2³⁰ values, as one of its settings or as all."""
    depth = chance.choice([5, 30, 200])
    shape = chance.choice(["[*b{0}, *b{0}]", "{{x: *b{0}, y: *b{0}}}", "{{<<: [*b{0}, *b{0}]}}"])
    lines = ["_0: &b0 {a: lol}"]
    lines += [f"_{at}: &b{at} {shape.format(at - 1)}" for at in range(1, depth)]
    names = ["strategy", "peers", "swarm", "label", "rounds", "runs", "data", "training", "known"]
    lines.append(f"{chance.choice(names)}: *b{depth - 1}")
    extra = "\n".join(lines).encode()
    return chance.choice([data + b"\n" + extra, extra, b"x: [" + b"[" * 500 + b"]" * 500 + b"]"])


def changed_json(data: bytes, chance: random.Random) -> bytes:
    """Return JSON with other values."""
    if chance.random() < 0.1:
        depth = chance.choice([100, 5000, 1_000_000])
        return chance.choice([b"[", b'{"a":']) * depth
    try:
        return json.dumps(changed_values(json.loads(data), chance)).encode()
    except ValueError:
        return changed_text(data, chance)
