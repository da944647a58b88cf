"""Reading the tensors of a torch checkpoint without unpickling it.

The pickle inside a checkpoint is walked opcode by opcode; nothing it names is imported or called.
Both of torch's formats are read: the zip archive and the older sequence of pickles.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from coterie.errors import DataError
from coterie.plain_pickle import PickleInterpreter, RefusedPickleError, Symbol
from coterie.storage.files import reason_of

Array = npt.NDArray[Any]

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001
_STORAGE_TYPES: dict[str, np.dtype[Any]] = {
    "torch FloatStorage": np.dtype("<f4"),
    "torch LongStorage": np.dtype("<i8"),
}
# What torch.save writes.
_OPCODES = frozenset(
    {
        *("PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
        *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"),
        *("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE"),
        *("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"),
        *("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
        *("GLOBAL", "REDUCE", "BUILD", "BINPERSID"),
    }
)

# What a damaged or hostile file can make the readers below trip over.
_DAMAGE = (
    *(ValueError, TypeError, LookupError, ArithmeticError, RuntimeError),
    *(zipfile.BadZipFile, EOFError, OSError, MemoryError),
)


@dataclass(frozen=True)
class _Storage:
    """A run of raw values elsewhere in the file."""

    key: str
    dtype: np.dtype[Any]
    length: int


@dataclass(frozen=True)
class _Tensor:
    """A strided window on a storage, in elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def window(self, values: Array) -> Array:
        """Return a copy of the tensor, cut out of its storage's values."""
        numbers = (self.offset, *self.shape, *self.strides)
        last = self.offset + sum(
            (length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True)
        )
        size = math.prod(self.shape)
        if min(numbers) < 0 or size > len(values) or (size and last >= len(values)):
            raise RefusedPickleError("a tensor reaches outside its stored values")
        strides = tuple(stride * values.itemsize for stride in self.strides)
        window = np.lib.stride_tricks.as_strided(values[self.offset :], self.shape, strides)
        return window.astype(values.dtype.newbyteorder("="), copy=True)


def read_checkpoint(path: Path) -> dict[str, Array]:
    """Return the tensors of a state dict written by torch.save, by name."""
    try:
        # In memory a false length inside the file cannot ask for more than the file has.
        stream = io.BytesIO(path.read_bytes())
        return _read_zip(stream) if zipfile.is_zipfile(stream) else _read_legacy(stream)
    except _DAMAGE as error:
        refused = isinstance(error, RefusedPickleError)
        reason = str(error) if refused else f"it is damaged ({reason_of(error)})"
        raise DataError(
            f"{path} cannot be read as a torch checkpoint: {reason}. Expected a state dict of "
            "float32 tensors as written by torch.save; supply the file again."
        ) from error


def _read_zip(stream: IO[bytes]) -> dict[str, Array]:
    with zipfile.ZipFile(stream) as archive:
        pickle_names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(pickle_names) != 1:
            raise RefusedPickleError("its archive does not hold exactly one data.pkl")
        (pickle_name,) = pickle_names
        folder = pickle_name.removesuffix("data.pkl")
        # Torch stores without compression; refusing it keeps a small file from growing huge.
        if any(record.compress_type != zipfile.ZIP_STORED for record in archive.infolist()):
            raise RefusedPickleError("its archive is compressed")
        byte_order = folder + "byteorder"
        if byte_order in archive.namelist() and archive.read(byte_order) != b"little":
            raise RefusedPickleError("its values are big-endian")
        tensors = _tensors(io.BytesIO(archive.read(pickle_name)))
        storages = {tensor.storage for tensor in tensors.values()}
        values = {
            storage: _values(storage, archive.read(f"{folder}data/{storage.key}"))
            for storage in storages
        }
    return {name: tensor.window(values[tensor.storage]) for name, tensor in tensors.items()}


def _read_legacy(stream: IO[bytes]) -> dict[str, Array]:
    stream.seek(0)
    plain = PickleInterpreter({}, opcodes=_OPCODES)
    magic, protocol = plain.read(stream), plain.read(stream)
    if (magic, protocol) != (_LEGACY_MAGIC, _LEGACY_PROTOCOL):
        raise RefusedPickleError("it does not start as a torch checkpoint does")
    system = plain.read(stream)
    if not isinstance(system, dict) or system["little_endian"] is not True:
        raise RefusedPickleError("its values are big-endian")
    tensors = _tensors(stream)
    storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    keys = plain.read(stream)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise RefusedPickleError("it does not list the values stored")
    if set(keys) != storages.keys():
        raise RefusedPickleError("the values stored are not those of its tensors")
    values = {}
    for key in keys:
        storage = storages[key]
        length = int.from_bytes(stream.read(8), "little")
        if length != storage.length:
            raise RefusedPickleError(f"{length} values are stored where {storage.length} belong")
        values[storage] = _values(storage, stream.read(length * storage.dtype.itemsize))
    return {name: tensor.window(values[tensor.storage]) for name, tensor in tensors.items()}


def _tensors(stream: IO[bytes]) -> dict[str, _Tensor]:
    """Interpret a state dict's pickle."""
    interpreter = PickleInterpreter(
        symbols={
            "collections OrderedDict": _ordered_dict,
            "torch._utils _rebuild_tensor_v2": _tensor,
            "torch._utils _rebuild_parameter": _parameter,
            **dict.fromkeys(_STORAGE_TYPES),
        },
        opcodes=_OPCODES,
        persistent=_storage,
        build=_without_state,
    )
    state = interpreter.read(stream)
    if not isinstance(state, dict):
        raise RefusedPickleError("it does not hold a state dict")
    for name, tensor in state.items():
        if not isinstance(name, str):
            raise RefusedPickleError("an entry's name is not text")
        if not isinstance(tensor, _Tensor):
            raise RefusedPickleError(f"its entry '{name}' is not a tensor")
    return state


def _storage(identifier: object) -> _Storage:
    if not isinstance(identifier, tuple) or identifier[0] != "storage":
        raise RefusedPickleError("it refers to something that is not a storage")
    _, kind, key, _, length, *view = identifier
    if not isinstance(kind, Symbol) or kind.name not in _STORAGE_TYPES:
        raise RefusedPickleError("it refers to a storage of unknown type")
    if any(part is not None for part in view):
        raise RefusedPickleError("it uses storage views, which torch no longer writes")
    return _Storage(str(key), _STORAGE_TYPES[kind.name], int(length))


def _ordered_dict(*items: object) -> dict[object, object]:
    if items:
        raise RefusedPickleError("it fills an OrderedDict in a way that torch does not")
    return {}


def _without_state(target: object, _: object) -> object:
    """Leave an object as it is: its attributes carry nothing that is a weight."""
    return target


def _tensor(
    storage: object, offset: int, shape: Iterable[int], strides: Iterable[int], *_: object
) -> _Tensor:
    if not isinstance(storage, _Storage):
        raise RefusedPickleError("a tensor has no storage")
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _parameter(tensor: _Tensor, *_: object) -> _Tensor:
    return tensor


def _values(storage: _Storage, raw: bytes) -> Array:
    if len(raw) != storage.length * storage.dtype.itemsize:
        raise RefusedPickleError(f"{len(raw)} bytes are left of {storage.length} stored values")
    return np.frombuffer(raw, storage.dtype)
