"""Writes and reads arrays in the safetensors format, without copying them.

The library's own writer and reader copy every array; with thousands of models there may be no
memory for that. The library still checks each file that is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from coterie.errors import StorageError
from coterie.storage.files import explain_errors

DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def write_tensors(
    file: BinaryIO, arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str]
) -> str:
    """Write named arrays and texts; return the SHA-256 of the whole file in hex."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    position = 0
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise TypeError(f"'{name}' is {array.dtype}, which safetensors files cannot hold.")
        header[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned
    digest = hashlib.sha256()
    beginning = len(text).to_bytes(8, "little") + text
    digest.update(beginning)
    file.write(beginning)
    for array in arrays.values():
        little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False)
        piece = np.ascontiguousarray(little_endian).reshape(-1).view(np.uint8).data
        digest.update(piece)
        file.write(piece)
    return digest.hexdigest()


def read_metadata(path: Path) -> dict[str, str]:
    """Return the texts beside the arrays of a file."""
    try:
        with explain_errors(f"read {path}"), safe_open(path, framework="numpy") as file:
            return dict(file.metadata() or {})
    except SafetensorError:
        raise StorageError(f"{path} is damaged: expected a safetensors file.") from None


def map_tensor(path: Path, name: str) -> npt.NDArray[Any]:
    """Return an array of a file, memory-mapped and read-only."""
    try:
        with explain_errors(f"read {path}"):
            with safe_open(path, framework="numpy") as checked:
                # Opening it has checked that the sizes and positions fit the file.
                checked.get_slice(name)
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                entry = json.loads(file.read(length))[name]
            dtype = next(key for key, value in DTYPES.items() if value == entry["dtype"])
            kind = np.dtype(dtype).newbyteorder("<")
            shape = tuple(entry["shape"])
            if 0 in shape:
                return np.zeros(shape, kind)
            start = 8 + length + entry["data_offsets"][0]
            return np.memmap(path, kind, "r", start, shape)
    except (SafetensorError, ValueError, KeyError, StopIteration):
        raise StorageError(
            f"{path} is damaged: expected a safetensors file with an array '{name}'."
        ) from None
