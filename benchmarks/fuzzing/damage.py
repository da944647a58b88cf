"""Damages files and folders as disks, crashes, editors and wicked people do."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
    *(b"---\n", b"...\n", b"&a [*a]", b"&a {x: *a}", b"<<: *a", b"<<: [1]", b"2020-13-45", b"1:1:1"),
    *(b"0001-01-01T00:00:00+23:59", b"9999-12-31T23:59:59-23:59", b"2001-01-01T00:00:00.1-99:99"),
    *(b"0x" + b"f" * 6000, b"9" * 6000, b"1" + b":59" * 4000, b"0b" + b"1" * 20_000, b"1e999999"),
    *(b"[" * 3000, b"{a: " * 3000, b"[" * 100_000, b"- " * 3000, b"? " * 3000, b"a: " * 50),
    *(b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\x00", b"\x1b[31m", b"\xed\xa0\x80", b"\xc2\x85"),
    *(b"{a: 1, a: 2}", b"? [a]\n: b\n", b"? {a: 1}\n: b\n", b"\\ud800", b'"\\ud800"', b"NaN", b".nan"),
    *(b"Infinity", b"null", b"~", b"true", b"-", b"|", b">", b"@", b"`", b"#"),
]  # fmt: skip


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
        key = chance.choice(list(plain))
        way = chance.randrange(8)
        if way == 0:
            return {name: value for name, value in plain.items() if name != key}
        if way == 1:
            renamed = chance.choice([f"{key}x", "", 5, None, "kind", "name"])
            return {renamed if name == key else name: value for name, value in plain.items()}
        return plain | {key: changed_values(plain[key], chance)}
    if isinstance(plain, list) and plain and chance.random() < 0.8:
        at = chance.randrange(len(plain))
        way = chance.randrange(4)
        if way == 0:
            return plain[:at] + plain[at + 1 :]
        if way == 1:
            return plain * chance.choice([2, 100])
        return [*plain[:at], changed_values(plain[at], chance), *plain[at + 1 :]]
    return chance.choice(VALUES)


def changed_yaml(data: bytes, chance: random.Random) -> bytes:
    """Return a configuration with other values, of the wrong type or far too large."""
    if chance.random() < 0.1:
        return bomb(data, chance)
    try:
        plain = yaml.safe_load(data)
    except (ValueError, yaml.YAMLError):
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


def changed_table(data: bytes, chance: random.Random) -> bytes:
    """Return a Parquet file with columns or values that no run records."""
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        return changed_bytes(data, chance)
    for _ in range(chance.choice([1, 1, 2, 3])):
        table = _changed_columns(table, chance)
    sink = io.BytesIO()
    pq.write_table(table, sink, compression=chance.choice(["zstd", "none", "snappy", "gzip"]))
    return sink.getvalue()


def _changed_columns(table: pa.Table, chance: random.Random) -> pa.Table:
    if not table.num_columns:
        return table
    at = chance.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at).combine_chunks()
    num_rows = table.num_rows
    way = chance.randrange(12)
    if way == 0:
        return table.remove_column(at)
    if way == 1:
        return table.rename_columns(
            [f"{each}x" if each == name else each for each in table.column_names]
        )
    if way == 2:
        return table.slice(0, chance.choice([0, 1, num_rows // 2]))
    if way == 3:
        return pa.concat_tables([table] * chance.choice([2, 5]))
    if way == 4:
        return table.take(
            pa.array(np.random.default_rng(chance.randrange(99)).permutation(num_rows))
        )
    if way == 5:
        return table.append_column(name, column)
    if way == 6:
        kind = chance.choice(
            [pa.string(), pa.int8(), pa.float32(), pa.list_(pa.int32()), pa.null()]
        )
        return table.set_column(at, name, pa.nulls(num_rows, kind))
    values = column.to_pylist()
    for _ in range(chance.choice([1, 1, 3, max(num_rows, 1)]) if values else 0):
        values[chance.randrange(len(values))] = _odd_value(column.type, chance)
    try:
        return table.set_column(at, name, pa.array(values, column.type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return table.set_column(at, name, pa.nulls(num_rows, column.type))


def _odd_value(kind: pa.DataType, chance: random.Random) -> Any:
    if pa.types.is_string(kind):
        return chance.choice(["", "x", "🙂", "\x00", "<script>", "[bold]", None, "y" * 5000])
    if pa.types.is_floating(kind):
        return chance.choice([*map(float, NUMBERS), None])
    if pa.types.is_boolean(kind):
        return chance.choice([True, False, None])
    bits = kind.bit_width
    return chance.choice([0, -1, -2, 1, 5, 7, 8, 99, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), None])


def changed_zip(data: bytes, chance: random.Random) -> bytes:
    """Return an archive of arrays with other members: bombs, false headers, objects, text."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError):
        return changed_bytes(data, chance)
    if not members:
        return data
    name = chance.choice(list(members))
    way = chance.randrange(9)
    if way == 0:
        members[name] = changed_bytes(members[name], chance)
    elif way == 1:
        members[name] = array_bomb(chance)
    elif way == 2:
        members[name] = array_bytes(np.array([{"a": 1}, None], dtype=object))
    elif way == 3:
        del members[name]
    elif way == 4:
        members[chance.choice(["x_train.npy", "classes.npy", "../x.npy", "y_test.npy"])] = members[
            name
        ]
    elif way == 5:
        members[name] = changed_header(members[name], chance)
    elif way == 6:
        others = [np.arange(6), np.zeros((0, 8, 8), np.uint8), np.array("x"), np.zeros((3, 0)),
                  np.full(60, np.nan), np.full(60, -5), np.full(60, 2**62), np.array(["a"] * 60),
                  np.zeros(60, [("a", "i4")]), np.zeros(60, "M8[s]"), np.zeros(60, complex),
                  np.zeros(60, bool), np.full((60, 8, 8), np.inf), np.zeros((60, 8, 8, 3), "f2"),
                  np.full((60, 8, 8), 1e300), np.zeros((60,) + (1,) * 20), np.zeros(60, "u8") - 1,
                  np.zeros((60, 1)), np.full(60, 3.7), np.zeros(60, "V8"), np.zeros(60, "f16")]  # fmt: skip
        members[name] = array_bytes(chance.choice(others))
    elif way == 7:
        members[name] = changed_text(members[name], chance)
    else:
        members = dict(
            zip(members, chance.sample(list(members.values()), len(members)), strict=True)
        )
    sink = io.BytesIO()
    kind = chance.choice(
        [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    )
    kind = zipfile.ZIP_DEFLATED if way == 1 else kind
    with zipfile.ZipFile(sink, "w", kind) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
    return sink.getvalue()


def array_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Return an array as a .npy file."""
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=True)
    return sink.getvalue()


def array_bomb(chance: random.Random) -> bytes:
    """Return an array that takes little room in an archive and much in memory, or says so."""
    claimed = chance.choice([(10**12,), (2**31, 2**31), (2**62, 4), (-5, 8), (10**9, 8, 8)])
    if chance.random() < 0.5:
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {claimed}, }}"
        text = header.ljust(118) + "\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    return array_bytes(np.zeros((6_000_000, 8, 8), np.uint8))


def changed_header(data: bytes, chance: random.Random) -> bytes:
    """Return an array whose header says something else."""
    swaps = [
        (b"'fortran_order': False", b"'fortran_order': 'x'  "), (b"|u1", b"|O8"), (b"<i8", b"<U9"),
        (b"'shape'", b"'shapf'"), (b"(", b"["), (b"{", b"[" * 60), (b"<", b">"), (b"60", b"99"),
        (b"60", b"-1"), (b"'descr'", b"__import__"), (b"}", b"+1"), (b"|u1", b"<f8"),
    ]  # fmt: skip
    old, new = chance.choice(swaps)
    return data.replace(old, new, 1)


CHANGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    ".yaml": changed_yaml,
    ".json": changed_json,
    ".parquet": changed_table,
    ".npz": changed_zip,
}


def changed_content(path: Path, chance: random.Random) -> None:
    """Change what a file holds, by its bytes or by its meaning."""
    if path.stat().st_size > LARGEST:  # made so before
        return
    data = path.read_bytes()
    change = CHANGES.get(path.suffix)
    if change and chance.random() < 0.6:
        data = change(data, chance)
    elif path.suffix in (".yaml", ".json", ".csv") and chance.random() < 0.6:
        data = changed_text(data, chance)
    else:
        data = changed_bytes(data, chance)
    path.write_bytes(data)


def damage_folder(folder: Path, chance: random.Random) -> None:
    """Do one to three things to the files of a folder."""
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        files = sorted(
            path for path in folder.rglob("*") if path.is_file() and path.stat().st_size < LARGEST
        )
        folders = sorted(
            path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()
        )
        if not files:
            return
        path = chance.choice(files)
        # There are many parts and few of the files that decide.
        named = [each for each in files if each.suffix in (".yaml", ".json", ".safetensors")]
        if named and chance.random() < 0.4:
            path = chance.choice(named)
        if chance.random() < 0.6:
            changed_content(path, chance)
        else:
            _change_tree(path, files, folders, chance)


def _change_tree(path: Path, files: list[Path], folders: list[Path], chance: random.Random) -> None:
    other = chance.choice(files)
    inside = chance.choice(folders) if folders else path.parent
    way = chance.randrange(13)
    if way == 0:
        path.unlink()
    elif way == 1:
        path.unlink()
        path.mkdir()
        if chance.random() < 0.5:
            (path / "inside").write_text("x")
    elif way == 2 and inside.is_dir():
        shutil.rmtree(inside)
        inside.write_bytes(chance.choice([b"", b"x", b"x" * 9999]))
    elif way == 3:
        content, there = path.read_bytes(), other.read_bytes()
        path.write_bytes(there)
        other.write_bytes(content)
    elif way == 4:
        same = [each for each in files if each.suffix == path.suffix]
        path.write_bytes(chance.choice(same).read_bytes())
    elif way == 5:
        first, last = chance.randrange(9), chance.randrange(9)
        names = [f"{first:07d}-{last:07d}.parquet", f"copy of {path.name}", "x.parquet", "a-b.parquet",
                 f"round-{first:07d}-{'0' * 16}.safetensors", "round-x.safetensors", "metrics.parquet"]  # fmt: skip
        shutil.copy(path, path.with_name(chance.choice(names)))
    elif way == 6:
        size = path.stat().st_size
        os.truncate(path, chance.choice([size + 1, size + 2**20, 2**32, 2**36]))
    elif way == 7:
        path.unlink()
        path.symlink_to(path.name)
    elif way == 8:
        path.unlink()
        path.symlink_to(chance.choice(["nowhere", "..", ".", "/", "/dev/null", "/etc/passwd"]))
    elif way == 9:
        odd = (
            os.fsencode(path.parent)
            + b"/"
            + chance.choice([b"\xff\xfe", b"\xe9t\xe9.parquet", b"a\nb"])
        )
        os.link(os.fsencode(path), odd)
    elif way == 10:
        # A table in parts and in whole, or a folder in a table's place.
        target = path.parent / chance.choice(
            ["metrics", "timings", "exchanges", "checkpoints", "x.parquet"]
        )
        if not target.exists():
            target.mkdir()
            shutil.copy(path, target / chance.choice([path.name, "0000000-0000001.parquet"]))
    elif way == 11:
        path.write_bytes(b"")
    else:
        path.rename(path.with_name(path.name.upper()))
