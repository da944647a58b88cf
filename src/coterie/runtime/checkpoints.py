"""Checkpoints: one safetensors file, named by its round and its own checksum.

The name has the first 16 hex digits of the file's SHA-256, to detect damage. Only the renaming of
the complete file has to be atomic.

A run in several shards has a file for each, and then a small file that lists them: it makes the
checkpoint valid as a whole.

round-ROUND-CHECKSUM.safetensors       a whole checkpoint
round-ROUND-CHECKSUM.json              the list of the parts of a checkpoint, written last
part-ROUND-PLACE-CHECKSUM.safetensors  a part
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from coterie.errors import StorageError
from coterie.runtime.packed_arrays import pack_arrays, unpack_arrays
from coterie.runtime.saved_parts import Saved, join_parts
from coterie.storage.files import (
    prepare_folder,
    read_small,
    reason_of,
    remove_files,
    write_atomically,
)
from coterie.storage.tensor_files import DTYPES, write_tensors

KEEP = 2
PARTS = "parts"
ARRAY, TEXT = "array:", "text:"
"""How the JSON part refers to an array of the file, and how text that looks like that is marked."""
STATE = "state"
"""The JSON part: the bytes of its text, (n,). It was in the metadata before."""


_DAMAGE = (StorageError, SafetensorError, OSError, ValueError, LookupError, MemoryError)


class Checkpoints:
    """The checkpoints of one run; the newest `KEEP` are kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        prepare_folder(folder)

    def write(self, next_round: int, saved: dict[str, Any]) -> Path:
        """Write a checkpoint atomically, then delete all but the newest ones."""
        path = self._write_file(f"round-{next_round:07d}", saved)
        self._remove_old()
        return path

    def write_parts(self, next_round: int, parts: Iterable[Saved]) -> Path:
        """Write a checkpoint of several parts, in the order of peers; one at a time in memory."""
        files = [
            self._write_file(f"part-{next_round:07d}-{place:03d}", part)
            for place, part in enumerate(parts)
        ]
        listed = json.dumps({PARTS: [path.name for path in files]}).encode()
        digest = hashlib.sha256(listed).hexdigest()[:16]

        def fill(file: BinaryIO) -> str:
            file.write(listed)
            return f"round-{next_round:07d}-{digest}.json"

        path = write_atomically(self._folder, fill)
        self._remove_old()
        return path

    def _write_file(self, start: str, saved: Saved) -> Path:
        arrays: dict[int, npt.NDArray[Any]] = {}
        plain = _take_arrays_out(saved, "", arrays)

        def fill(file: BinaryIO) -> str:
            state = np.frombuffer(json.dumps(plain).encode(), np.uint8)
            digest = write_tensors(file, {STATE: state, **pack_arrays(arrays)}, {})
            return f"{start}-{digest[:16]}.safetensors"

        return write_atomically(self._folder, fill)

    def _remove_old(self) -> None:
        """Remove all but the newest checkpoints, and parts that no checkpoint has."""
        newest = self._newest_first()
        kept = {part for path in newest[:KEEP] for part in _parts_of(path)}
        unused = [path for path in self._folder.glob("part-*.safetensors") if path not in kept]
        # The name of the new file is on the disk now. An old file that returns does no harm.
        remove_files([*newest[KEEP:], *unused], durable=False)

    @property
    def newest_round(self) -> int:
        """The round with which the newest checkpoint continues; −1 without one."""
        newest = self._newest_first()
        return int(newest[0].name.split("-")[1]) if newest else -1

    def read_newest(self, warn: Callable[[str], None]) -> dict[str, Any] | None:
        """Return the newest undamaged checkpoint; None if there are no files."""
        candidates = self._newest_first()
        for path in candidates:
            try:
                return _read_checkpoint(path)
            except _DAMAGE as error:
                why = reason_of(error)
                warn(f"The checkpoint {path} is damaged ({why}); trying the one before.")
        if candidates:
            raise StorageError(
                f"All {len(candidates)} checkpoints in {self._folder} are damaged; the run cannot "
                "be resumed. Start it again in another folder."
            )
        return None

    def _newest_first(self) -> list[Path]:
        return sorted(
            path
            for path in self._folder.glob("round-*")
            if path.suffix in (".safetensors", ".json")
        )[::-1]


def _parts_of(path: Path) -> Sequence[Path]:
    """Return the parts of a checkpoint; none if it is whole, or if its list is damaged."""
    try:
        return _read_list(path) if path.suffix == ".json" else ()
    except _DAMAGE:
        return ()


def _read_list(path: Path) -> list[Path]:
    content = read_small(path)
    if hashlib.sha256(content).hexdigest()[:16] != path.stem.rsplit("-", 1)[-1]:
        raise StorageError("its checksum is wrong")
    return [path.parent / Path(name).name for name in json.loads(content)[PARTS]]


def _read_checkpoint(path: Path) -> Saved:
    if path.suffix == ".json":
        return join_parts([_read_file(part) for part in _read_list(path)])
    return _read_file(path)


def _read_file(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="numpy"):
        pass  # fails at once where the size is wrong, and hashing might take long
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest[:16] != path.stem.rsplit("-", 1)[-1]:
        raise StorageError("its checksum is wrong")
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — no iterator
    text = metadata[STATE] if STATE in metadata else tensors.pop(STATE).tobytes()
    # Before arrays were packed, the names of all were a number and a path.
    arrays = unpack_arrays({name.partition("/")[0]: array for name, array in tensors.items()})
    restored: dict[str, Any] = _put_arrays_back(json.loads(text), arrays)
    return restored


def _take_arrays_out(value: Any, name: str, arrays: dict[int, npt.NDArray[Any]]) -> Any:
    """Return plain data in which every array is replaced by its number in `arrays`."""
    if isinstance(value, np.ndarray):
        if value.dtype.name not in DTYPES:
            raise TypeError(f"{name} is {value.dtype}, which safetensors files cannot hold.")
        number = len(arrays)
        arrays[number] = value
        return f"{ARRAY}{number}"
    if isinstance(value, str) and value.startswith((ARRAY, TEXT)):
        return TEXT + value
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{name or 'state'}: the key {key!r} would come back as text.")
        return {key: _take_arrays_out(item, f"{name}/{key}", arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [
            _take_arrays_out(item, f"{name}/{number}", arrays) for number, item in enumerate(value)
        ]
    return value


def _put_arrays_back(value: Any, arrays: dict[int, npt.NDArray[Any]]) -> Any:
    if isinstance(value, str) and value.startswith(ARRAY):
        return arrays[int(value.removeprefix(ARRAY).partition("/")[0])]
    if isinstance(value, str):
        return value.removeprefix(TEXT)
    if isinstance(value, dict):
        return {key: _put_arrays_back(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_put_arrays_back(item, arrays) for item in value]
    return value
