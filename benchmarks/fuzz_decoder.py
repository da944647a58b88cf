"""Feeds the decoder of models with damaged and hostile payloads, each announced with its digest.

usage: python benchmarks/fuzz_decoder.py [--inputs N] [--seed N] [--first N]

Every input must be refused with a reason, or become a model that is just what the bytes say and
within all limits; anything else, and any input that takes a second, ends the run with an error and
how to see it again. Inputs depend on seed and number only, so `--first` goes straight to one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import re
import resource
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from coterie.cli import console
from coterie.models.layout import Layout, LayoutEntry
from coterie.peer.refusals import Refused
from coterie.peer.wire.model import Model, Part
from coterie.peer.wire.payload import Encoding, encode
from coterie.peer.wire.payload_decoder import (
    LARGEST_ROOT_MEAN_SQUARE,
    Decoder,
    DecoderLimits,
    Manifest,
)
from coterie.peer.wire.payload_header import vector_parts

LIMITS = DecoderLimits(largest_message_bytes=4096)
PARTS = [
    frozenset({Part.MODEL}),
    frozenset({Part.MODEL, Part.MESSAGE}),
    frozenset({Part.MESSAGE}),
    frozenset(Part),
]
NUMBERS = [
    0, 1, -1, 2, 7, 8, 31, 32, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**17, 2**17 + 1, 2**23, 2**24,
    2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 10**30,
]  # fmt: skip
WEIGHTS = [0.0, -0.0, 1e-45, 1e3, 1e10, 1e19, 1e20, 1e38, -3.4e38, math.inf, -math.inf, math.nan]
VALUES: list[Any] = [
    None, True, False, "", "F32", "BF16", "F64", "I64", "U8", "O", [], {}, [[]], [{}], 0.0, 1.5,
    -0.0, math.nan, math.inf, "x" * 300, "\ud800", "\x00", [0, 0], [1] * 40, {"dtype": "F32"},
    *NUMBERS,
]  # fmt: skip
TOKENS = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"null", b"true", b"NaN", b"Infinity", b"-",
    b"1e9", b"1e999", b"0.5", b"00", b"\xff", b"\xef\xbb\xbf", b"\\ud800", b"\\u0000", b"[" * 500,
    b'{"a":' * 200, b"9" * 60, b"9" * 5000, b"message/", b"model/", b'"__metadata__":{},', b"\n",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A payload that nothing is wrong with."""

    layout: Layout
    parts: frozenset[Part]
    encoding: Encoding
    plain: bytes
    """Before compression."""
    data: bytes
    """As it would travel."""


def main() -> None:
    """Try as many inputs as asked for; print how they ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("error")  # nothing from outside may as much as warn
    cases = make_cases()
    ends: Counter[str] = Counter()
    slowest = (0.0, 0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, used = time.perf_counter(), time.process_time()
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console.errors) as progress:
        task = progress.add_task("", total=options.inputs)
        for number in range(options.first, options.first + options.inputs):
            before = time.process_time()
            try:
                ends[tried(cases, options.seed, number)] += 1
            except Exception:
                tell_where(options.seed, number)
                raise
            slowest = max(slowest, (time.process_time() - before, number))
            if slowest[0] > 1:
                tell_where(options.seed, number)
                sys.exit(f"It took {slowest[0]:.1f} seconds.")
            if number % 500 == 0:
                progress.update(task, completed=number - options.first)
        progress.update(task, completed=options.inputs)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    for end, count in ends.most_common():
        print(f"{count:>10,}  {end}")
    rate, share = options.inputs / seconds, used / seconds
    print(f"{options.inputs:,} inputs, {rate:,.0f} per second with {share:.0%} of one core")
    print(f"slowest: {1000 * slowest[0]:.0f} ms (input {slowest[1]}); memory grew by {grown} KiB")


def tell_where(seed: int, number: int) -> None:
    """Say how to see an input again."""
    again = f"python benchmarks/fuzz_decoder.py --seed {seed} --first {number} --inputs 1"
    print(f"Input {number} is not dealt with as it should be. See it again with: {again}")


def make_cases() -> list[Case]:
    """Return payloads of small layouts in all encodings and with several parts."""
    layouts = [
        layout_of([("conv.weight", (4, 3)), ("conv.bias", (4,)), ("scale", ())]),
        layout_of([("größe", (7,)), ("empty", (0, 5))]),
        layout_of([(f"layers.{number}.weight", (2, 2)) for number in range(12)]),
        layout_of([("weight", (40, 40))]),
    ]
    return [
        made(layout, parts, encoding)
        for layout in layouts
        for parts in PARTS
        for encoding in Encoding
    ]


def layout_of(shapes: list[tuple[str, tuple[int, ...]]]) -> Layout:
    """Return a layout of tensors of these names and shapes."""
    entries: list[LayoutEntry] = []
    for name, shape in shapes:
        start = entries[-1].stop if entries else 0
        entries.append(LayoutEntry(name, shape, start, start + math.prod(shape), 0, True))
    return Layout(tuple(entries), 1)


def made(layout: Layout, parts: frozenset[Part], encoding: Encoding) -> Case:
    """Return a payload of random weights and a message about three peers."""
    rng = np.random.default_rng(0)
    vectors = {part: rng.normal(size=layout.size).astype(np.float32) for part in vector_parts(Part)}
    message: dict[str, npt.NDArray[Any]] = {
        "peers": rng.integers(0, 256, (3, 32), dtype=np.uint8),
        "similarities": rng.normal(size=3),
        "counts": rng.integers(0, 9, (2, 2)),
    }
    model = Model(vectors, message)
    plain = Encoding.FLOAT32 if encoding.dtype == "F32" else Encoding.BFLOAT16
    return Case(
        layout,
        parts,
        encoding,
        b"".join(encode(model, layout, parts, plain).pieces),
        b"".join(encode(model, layout, parts, encoding).pieces),
    )


def tried(cases: list[Case], seed: int, number: int) -> str:
    """Make one input and feed it; return why it was refused, or that it was accepted."""
    chance = random.Random(seed << 40 | number)  # noqa: S311 — nothing is secret here
    case = chance.choice(cases)
    data = hostile(case, cases, chance)
    size, digest = len(data), hashlib.sha256(data).digest()
    if chance.random() < 0.05:
        size = chance.choice([*NUMBERS, size + 1, size - 1])
    if chance.random() < 0.05:
        digest = chance.choice([b"", bytes(32), digest[:-1]])
    manifest = Manifest(digest, size, case.encoding, case.parts)
    try:
        decoder = Decoder(case.layout, manifest, LIMITS)
        for piece in cut(data, chance):
            decoder.feed(piece)
        model = decoder.finish()
    except Refused as rejected:
        if not str(rejected).isprintable() or len(str(rejected)) > 500:
            raise AssertionError("a reason that is not fit to be shown") from rejected
        return rejected.reason.value
    require_true(model, case, data, manifest)
    return "accepted, and rightly so"


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """Return the bytes in one or several pieces."""
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice([0, 0, 1, 4])))
    return [
        data[start:stop] for start, stop in zip([0, *places], [*places, len(data)], strict=True)
    ]


def require_true(model: Model, case: Case, data: bytes, manifest: Manifest) -> None:
    """Fail unless a model is what its bytes say and within all limits."""
    plain = data
    if case.encoding.is_compressed:
        plain = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    start = 8 + int.from_bytes(plain[:8], "little")
    vectors = [model.vectors[part] for part in vector_parts(case.parts)]
    written = b"".join(
        vector.tobytes()
        if case.encoding.dtype == "F32"
        else (vector.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        for vector in vectors
    ) + b"".join(array.tobytes() for array in model.message.values())
    largest = LARGEST_ROOT_MEAN_SQUARE * math.sqrt(case.layout.size) * 1.001
    checks = [
        written == plain[start:],
        len(data) == manifest.size and hashlib.sha256(data).digest() == manifest.digest,
        len(model.vectors) == len(vectors),
        all(each.shape == (case.layout.size,) and each.dtype == np.float32 for each in vectors),
        all(np.linalg.norm(each.astype(np.float64)) <= largest for each in vectors),
        Part.MESSAGE in case.parts or not model.message,
        len(model.message) <= 16,
        all(re.fullmatch("[a-z_-]{1,32}", key) for key in model.message),
        all(each.dtype.char in "dflB" and each.ndim in (1, 2) for each in model.message.values()),
        sum(each.nbytes for each in model.message.values()) <= LIMITS.largest_message_bytes,
    ]
    if not all(checks):
        raise AssertionError(f"accepted, but wrong in check {checks.index(False)}")


def hostile(case: Case, cases: list[Case], chance: random.Random) -> bytes:
    """Return the payload of a case after one or a few changes of any kind."""
    if not case.encoding.is_compressed:
        return changed_plain(case.plain, cases, chance)
    kind = chance.random()
    if kind < 0.4:
        return changed_bytes(case.data, chance)
    plain = changed_plain(case.plain, cases, chance) if kind < 0.9 else case.plain
    frame = compressed(plain, chance)
    if kind < 0.95:
        return frame
    other = chance.choice([frame, b"\0", compressed(b"", chance), b"\x50\x2a\x4d\x18\0\0\0\0"])
    return frame + other if chance.random() < 0.5 else other + frame


def changed_plain(data: bytes, cases: list[Case], chance: random.Random) -> bytes:
    """Return a safetensors file after one or a few changes."""
    changes: list[Callable[[bytes, random.Random], bytes]] = [
        changed_bytes, changed_length, changed_text, changed_structure, changed_structure,
        changed_weights, moved_tensors,
    ]  # fmt: skip
    if chance.random() < 0.03:
        other = chance.choice(cases).plain
        place = chance.randrange(len(data))
        return data[:place] + other[place:]
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        data = chance.choice(changes)(data, chance)
    return data


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """Flip, overwrite, insert, remove, repeat or swap bytes anywhere."""
    place = chance.randrange(len(data) + 1)
    # Beginnings decide most, so that they are changed more often.
    place = place % 24 if chance.random() < 0.4 else place
    length = chance.choice([1, 1, 2, 3, 4, 8, 16, 100])
    before, at, after = data[:place], data[place : place + length], data[place + length :]
    kind = chance.randrange(7)
    if kind == 0:
        at = bytes(byte ^ (1 << chance.randrange(8)) for byte in at)
    elif kind == 1:
        at = chance.randbytes(len(at))
    elif kind == 2:
        at += chance.randbytes(length)
    elif kind == 3:
        at = b""
    elif kind == 4:
        at *= chance.choice([2, 3, 50])
    elif kind == 5:
        after = b""
    else:
        at = bytes([chance.choice([0, 255, 127, 128])]) * len(at)
    return before + at + after


def changed_length(data: bytes, chance: random.Random) -> bytes:
    """Lie about how long the header is."""
    length = int.from_bytes(data[:8], "little")
    lies = [*NUMBERS, length + 1, length - 1, length + 8, length - 8, len(data), len(data) - 8]
    return (chance.choice(lies) % 2**64).to_bytes(8, "little") + data[8:]


def changed_text(data: bytes, chance: random.Random) -> bytes:
    """Write something into the header, with its length made right."""
    text, tensors = parted(data)
    place = chance.randrange(len(text) + 1)
    stop = place + chance.choice([0, 0, 1, 2, 5])
    return joined(text[:place] + chance.choice(TOKENS) + text[stop:], tensors)


def changed_structure(data: bytes, chance: random.Random) -> bytes:
    """Change what the header says as JSON."""
    text, tensors = parted(data)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        return data
    if not isinstance(header, dict) or not header:
        return data
    name = chance.choice(list(header))
    kind = chance.randrange(6)
    if kind == 0:
        del header[name]
    elif kind == 1:
        header[chance.choice(["x", "message/x", "message/peers", "model/x"])] = header[name]
    elif kind == 2:
        header[name] = chance.choice(VALUES)
    elif kind == 3:
        names = chance.sample(list(header), len(header))
        header = {each: header[each] for each in names}
    else:
        header[name] = changed_entry(header[name], chance)
    return joined(json.dumps(header).encode(), tensors)


def changed_entry(entry: Any, chance: random.Random) -> Any:
    """Change one field of an entry, or one number in it."""
    if not isinstance(entry, dict) or not entry:
        return entry
    field = chance.choice(list(entry))
    value = entry[field]
    if isinstance(value, list) and value and chance.random() < 0.7:
        changed = list(value)
        place = chance.randrange(len(changed))
        changed[place] = chance.choice([*NUMBERS, *VALUES, changed[0]])
        return entry | {field: changed}
    return entry | {field: chance.choice(VALUES)}


def changed_weights(data: bytes, chance: random.Random) -> bytes:
    """Overwrite numbers among the tensors."""
    text, tensors = parted(data)
    if len(tensors) < 4:
        return data
    place = chance.randrange(0, len(tensors) - 3, 2)
    value = np.float32(chance.choice(WEIGHTS)).tobytes()
    value = value[2:] if chance.random() < 0.3 else value
    return joined(text, tensors[:place] + value + tensors[place + len(value) :])


def moved_tensors(data: bytes, chance: random.Random) -> bytes:
    """Let tensors begin later or earlier, with more or fewer bytes behind them."""
    text, tensors = parted(data)
    shift = chance.choice([-8, -4, -1, 1, 4, 8, 4096])
    moved = re.sub(
        rb'("data_offsets":\[)(\d{1,9}),(\d{1,9})',
        lambda found: b"%s%d,%d" % (found[1], int(found[2]) + shift, int(found[3]) + shift),
        text,
        count=chance.choice([0, 1, 2]),
    )
    added = bytes(max(shift, 0)) if chance.random() < 0.5 else b""
    return joined(moved, tensors + added)


def parted(data: bytes) -> tuple[bytes, bytes]:
    """Return header and tensors, as far as the length can be believed."""
    length = min(int.from_bytes(data[:8], "little"), len(data))
    return data[8 : 8 + length], data[8 + length :]


def joined(text: bytes, tensors: bytes) -> bytes:
    """Return header and tensors as a file."""
    return len(text).to_bytes(8, "little") + text + tensors


def compressed(data: bytes, chance: random.Random) -> bytes:
    """Return a frame of any legal kind."""
    return zstandard.ZstdCompressor(
        chance.choice([-5, 1, 3]),
        write_checksum=chance.random() < 0.5,
        write_content_size=chance.random() < 0.95,
    ).compress(data)


if __name__ == "__main__":
    main()
