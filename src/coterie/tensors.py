"""Writing arrays in the safetensors format, as a stream.

The library's own writer copies every array into memory once more, which at thousands of models is
more than there may be. Files are read with the library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

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
