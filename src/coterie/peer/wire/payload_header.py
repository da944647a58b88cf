"""The header of a payload: the places of all tensors, written and checked against the layout.

A payload is a safetensors file: eight bytes with the length of the header, the header as JSON, and
the tensors in the order of the header. First come the vectors, tensor by tensor in the order of the
layout and named "PART/NAME", then the arrays of the message, "message/KEY".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from coterie.models.layout import Layout
from coterie.peer.refusals import Reason, Refused
from coterie.peer.wire.model import Part

LENGTH_BYTES = 8
"""Number of bytes that hold the length of the header."""
LARGEST_MESSAGE_ARRAYS = 16
LARGEST_MESSAGE_BYTES = 2**20
MESSAGE_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "U8": "|u1"}
"""The types of a message's arrays, in the terms of safetensors and of numpy."""

_ITEM_BYTES = {"F64": 8, "F32": 4, "I64": 8, "U8": 1, "BF16": 2}
_PREFIXES = {
    Part.MODEL: "model/",
    Part.MESSAGE: "message/",
    Part.LAST_UPDATE: "last-update/",
    Part.TOTAL_UPDATE: "total-update/",
}
_KEY = re.compile(r"[a-z_-]{1,32}")
_LONGEST_NUMBER = 18
"""In digits; a longer number is no valid place."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a header; its place follows from the sizes of the tensors before it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Return the size of its data."""
        return math.prod(self.shape) * _ITEM_BYTES[self.dtype]

    @property
    def key(self) -> str:
        """Return its key in the message."""
        return self.name.removeprefix(_PREFIXES[Part.MESSAGE])


def vector_parts(parts: Iterable[Part]) -> list[Part]:
    """Return the parts that are vectors, in the order of a payload."""
    return sorted(set(parts) - {Part.MESSAGE})


def vector_tensors(layout: Layout, parts: Iterable[Part], dtype: str) -> list[Tensor]:
    """Return the tensors of all vectors in the order of a payload."""
    return [
        Tensor(_PREFIXES[part] + entry.name, dtype, entry.shape)
        for part in vector_parts(parts)
        for entry in layout.entries
    ]


def message_tensor(key: str, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor of a message's array."""
    return Tensor(_PREFIXES[Part.MESSAGE] + key, dtype, shape)


def require_message(tensors: Sequence[Tensor], largest_bytes: int) -> None:
    """Refuse a message with wrong keys, types or dimensions, or with too much data."""
    if len(tensors) > LARGEST_MESSAGE_ARRAYS:
        detail = (
            f"{len(tensors)} arrays in the message, at most {LARGEST_MESSAGE_ARRAYS} are allowed"
        )
        raise Refused(Reason.TOO_LARGE, detail)
    for tensor in tensors:
        _require_array(tensor, largest_bytes)
    size = sum(tensor.num_bytes for tensor in tensors)
    if size > largest_bytes:
        detail = f"a message of {size} bytes, at most {largest_bytes} are allowed"
        raise Refused(Reason.TOO_LARGE, detail)


def write_header(tensors: Iterable[Tensor]) -> bytes:
    """Return the beginning of a payload up to its first tensor."""
    entries: dict[str, Any] = {}
    start = 0
    for tensor in tensors:
        stop = start + tensor.num_bytes
        entries[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format requires aligned data
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def largest_header(tensors: Iterable[Tensor]) -> int:
    """Return the largest size of a header with these tensors and any message.

    A character of a name takes at most 12 bytes, the rest of an entry far less than 512; 4 KiB
    hold the longest entries of all arrays that a message may have.
    """
    return 4096 + sum(512 + 12 * len(tensor.name) for tensor in tensors)


def read_header(
    text: bytes, vectors: Sequence[Tensor], data_bytes: int, largest_message_bytes: int | None
) -> list[Tensor]:
    """Check that a header describes `vectors` and a message; return the tensors of the message.

    `data_bytes` is the size of all tensors together. A message is allowed only if its largest size
    is given.
    """
    entries = _parsed(text)
    names = [tensor.name for tensor in vectors]
    if list(entries)[: len(names)] != names:
        _raise_wrong_names(list(entries), names)
    extra = list(entries)[len(names) :]
    if extra and largest_message_bytes is None:
        raise Refused(Reason.WRONG_NAMES, f"{_shown(extra[0])} was not requested")
    found = [_tensor(name, entry) for name, entry in entries.items()]
    for tensor, expected in zip(found, vectors, strict=False):
        _require_equal(tensor, expected)
    message = found[len(vectors) :]
    require_message(message, largest_message_bytes or 0)
    _require_places(found, list(entries.values()), data_bytes)
    return message


def _require_array(tensor: Tensor, largest_bytes: int) -> None:
    """Refuse an array that no message may have."""
    name = _shown(tensor.name)
    is_key = tensor.name.startswith(_PREFIXES[Part.MESSAGE]) and _KEY.fullmatch(tensor.key)
    if not is_key:
        detail = f"{name} is no array of a message: expected 1 to 32 of a-z, _ and -"
        raise Refused(Reason.WRONG_NAMES, detail)
    is_peers = tensor.key == "peers"
    dtypes = ["U8"] if is_peers else list(MESSAGE_DTYPES)
    if tensor.dtype not in dtypes:
        detail = f"{name} is {_shown(tensor.dtype)}, expected {' or '.join(dtypes)}"
        raise Refused(Reason.WRONG_DTYPE, detail)
    if len(tensor.shape) not in (1, 2):
        detail = f"{name} has {len(tensor.shape)} dimensions, expected 1 or 2"
        raise Refused(Reason.WRONG_SHAPE, detail)
    if is_peers and tensor.shape[1:] != (32,):
        detail = f"{name} is of shape {_shown(list(tensor.shape))}, expected one row of 32 per peer"
        raise Refused(Reason.WRONG_SHAPE, detail)
    # One side may be huge if another is 0; then the size alone does not show it.
    if max(tensor.shape) > largest_bytes:
        detail = f"{name} is of shape {_shown(list(tensor.shape))}, too large for a message"
        raise Refused(Reason.TOO_LARGE, detail)


def _parsed(text: bytes) -> dict[str, Any]:
    """Return the outermost object of a header."""
    try:
        entries = json.loads(
            text.decode(),
            object_pairs_hook=_without_duplicates,
            parse_int=_whole_number,
            parse_float=_raise_no_number,
            parse_constant=_raise_no_number,
        )
    except (ValueError, RecursionError):
        raise Refused(Reason.MALFORMED, "the header is not JSON, or nested too deeply") from None
    if not isinstance(entries, dict):
        raise Refused(Reason.MALFORMED, "the header is not a JSON object")
    return entries


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise Refused(Reason.MALFORMED, "the header has a key twice")
    return entries


def _whole_number(text: str) -> int:
    if len(text) > _LONGEST_NUMBER or text.startswith("-"):
        _raise_no_number(text)
    return int(text)


def _raise_no_number(text: str) -> NoReturn:
    raise Refused(Reason.MALFORMED, f"{_shown(text)} in the header is neither a size nor a place")


def _tensor(name: str, entry: Any) -> Tensor:
    """Return the tensor that an entry of the header describes; refuse a malformed entry."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        detail = f"{_shown(name)} needs exactly dtype, shape and data_offsets"
        raise Refused(Reason.MALFORMED, detail)
    is_right = (
        isinstance(entry["dtype"], str)
        and _are_numbers(entry["shape"])
        and _are_numbers(entry["data_offsets"])
        and len(entry["data_offsets"]) == 2
    )
    if not is_right:
        detail = f"{_shown(name)} has an invalid dtype, shape or data_offsets"
        raise Refused(Reason.MALFORMED, detail)
    return Tensor(name, entry["dtype"], tuple(entry["shape"]))


def _are_numbers(value: Any) -> bool:
    # JSON's true and false are bool, which isinstance would take for int.
    return isinstance(value, list) and all(type(number) is int for number in value)


def _raise_wrong_names(found: list[str], expected: list[str]) -> NoReturn:
    if missing := set(expected).difference(found):
        raise Refused(Reason.WRONG_NAMES, f"there is no {_shown(min(missing))}")
    unexpected = next(ours for ours, name in zip(found, expected, strict=False) if ours != name)
    raise Refused(Reason.WRONG_NAMES, f"{_shown(unexpected)} is not where the layout has it")


def _require_equal(found: Tensor, expected: Tensor) -> None:
    if found.dtype != expected.dtype:
        detail = f"{_shown(found.name)} is {_shown(found.dtype)}, expected {expected.dtype}"
        raise Refused(Reason.WRONG_DTYPE, detail)
    if found.shape != expected.shape:
        shapes = f"{_shown(list(found.shape))}, expected {list(expected.shape)}"
        raise Refused(Reason.WRONG_SHAPE, f"{_shown(found.name)} is of shape {shapes}")


def _require_places(
    tensors: Sequence[Tensor], entries: Sequence[dict[str, Any]], data_bytes: int
) -> None:
    """Refuse tensors that overlap, leave gaps or do not end where the payload ends."""
    start = 0
    for tensor, entry in zip(tensors, entries, strict=True):
        stop = start + tensor.num_bytes
        if entry["data_offsets"] != [start, stop]:
            found = _shown(entry["data_offsets"])
            detail = f"{_shown(tensor.name)} lies at {found}, expected [{start}, {stop}]"
            raise Refused(Reason.WRONG_OFFSETS, detail)
        start = stop
    if start != data_bytes:
        detail = f"the tensors are {start} bytes long, but the payload has {data_bytes} for them"
        raise Refused(Reason.WRONG_OFFSETS, detail)


def _shown(value: Any) -> str:
    """Return a value from outside in a form safe for a log: printable and short."""
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."
