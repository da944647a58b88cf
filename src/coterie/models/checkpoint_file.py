"""Reading the tensors of a torch checkpoint without unpickling it.

The pickle inside a checkpoint is walked opcode by opcode; nothing it names is imported or called.
Both of torch's formats are read: the zip archive and the older sequence of pickles.
"""

from __future__ import annotations

import io
import math
import pickletools
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from coterie.errors import DataError

Array = npt.NDArray[Any]

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001
_STORAGE_TYPES: dict[str, np.dtype[Any]] = {
    "torch FloatStorage": np.dtype("<f4"),
    "torch LongStorage": np.dtype("<i8"),
}
_LITERALS = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"}
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_CONTAINERS: dict[str, Callable[[], object]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list}
_SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


# What a damaged or hostile file can make the readers below trip over.
_DAMAGE = (
    *(ValueError, TypeError, LookupError, ArithmeticError, RuntimeError),
    *(zipfile.BadZipFile, EOFError),
)


class RefusedPickleError(ValueError):
    """A pickle that asks for something other than plain values and the allowed symbols."""


@dataclass(frozen=True)
class Symbol:
    """A global that a pickle names, as "module name"; never the object itself."""

    name: str


class PickleInterpreter:
    """Turns one pickle into plain values, given what each symbol and persistent id stands for."""

    def __init__(
        self,
        calls: Mapping[str, Callable[..., object]],
        names: frozenset[str] = frozenset(),
        persistent: Callable[[object], object] | None = None,
    ) -> None:
        self._calls = calls
        self._names = names | calls.keys()
        self._persistent = persistent
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}

    def read(self, stream: IO[bytes]) -> object:
        """Return the value of the pickle that starts at the stream's position."""
        self._stack, self._marks, self._memo = [], [], {}
        for opcode, argument, _ in pickletools.genops(stream):
            if opcode.name == "STOP":
                break
            self._step(opcode.name, argument)
        if len(self._stack) != 1 or self._marks:
            raise RefusedPickleError("its pickle does not come to one value")
        return self._stack.pop()

    def _step(self, opcode: str, argument: Any) -> None:  # noqa: ANN401 - as pickletools types it
        stack = self._stack
        if opcode in _LITERALS:
            stack.append(argument)
        elif opcode in _CONSTANTS:
            stack.append(_CONSTANTS[opcode])
        elif opcode in _CONTAINERS:
            stack.append(_CONTAINERS[opcode]())
        elif opcode in _SHORT_TUPLES:
            stack.append(tuple(self._pop_from(len(stack) - _SHORT_TUPLES[opcode])))
        elif opcode in {"BINPUT", "LONG_BINPUT"}:
            self._memo[argument] = stack[-1]
        elif opcode in {"BINGET", "LONG_BINGET"}:
            stack.append(self._memo[argument])
        elif opcode != "PROTO":
            handler = self._HANDLERS.get(opcode)
            if handler is None:
                raise RefusedPickleError(f"it uses the pickle instruction {opcode}")
            handler(self, argument)

    def _pop_from(self, start: int) -> list[Any]:
        """Take the values from `start` on off the stack."""
        if start < 0:
            raise RefusedPickleError("its pickle takes more values than it has")
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def _pop_marked(self) -> list[Any]:
        return self._pop_from(self._marks.pop())

    def _mark(self, _: object) -> None:
        self._marks.append(len(self._stack))

    def _tuple(self, _: object) -> None:
        self._stack.append(tuple(self._pop_marked()))

    def _set_item(self, _: object) -> None:
        self._fill_dict(self._pop_from(len(self._stack) - 2))

    def _set_items(self, _: object) -> None:
        self._fill_dict(self._pop_marked())

    def _fill_dict(self, flat: list[Any]) -> None:
        if not isinstance(self._stack[-1], dict):
            raise RefusedPickleError("it sets items of something that is not a dict")
        self._stack[-1].update(zip(flat[::2], flat[1::2], strict=True))

    def _append(self, _: object) -> None:
        self._fill_list(self._pop_from(len(self._stack) - 1))

    def _appends(self, _: object) -> None:
        self._fill_list(self._pop_marked())

    def _fill_list(self, values: list[Any]) -> None:
        if not isinstance(self._stack[-1], list):
            raise RefusedPickleError("it appends to something that is not a list")
        self._stack[-1].extend(values)

    def _global(self, name: str) -> None:
        if name not in self._names:
            raise RefusedPickleError(f"it names '{name}', which no file of weights needs")
        self._stack.append(Symbol(name))

    def _reduce(self, _: object) -> None:
        symbol, arguments = self._pop_from(len(self._stack) - 2)
        if not isinstance(symbol, Symbol) or symbol.name not in self._calls:
            raise RefusedPickleError("it calls something that is not a known function")
        if not isinstance(arguments, tuple):
            raise RefusedPickleError(f"it calls '{symbol.name}' without a tuple of arguments")
        self._stack.append(self._calls[symbol.name](*arguments))

    def _persistent_id(self, _: object) -> None:
        if self._persistent is None:
            raise RefusedPickleError("it refers to data outside itself")
        self._stack.append(self._persistent(self._stack.pop()))

    def _drop_state(self, _: object) -> None:
        """Leave an object as it is: its attributes carry nothing that is a weight."""
        self._pop_from(len(self._stack) - 1)

    _HANDLERS: Mapping[str, Callable[[PickleInterpreter, Any], None]] = {
        "MARK": _mark,
        "TUPLE": _tuple,
        "SETITEM": _set_item,
        "SETITEMS": _set_items,
        "APPEND": _append,
        "APPENDS": _appends,
        "GLOBAL": _global,
        "REDUCE": _reduce,
        "BINPERSID": _persistent_id,
        "BUILD": _drop_state,
    }


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
        reason = str(error) if refused else f"it is damaged ({error})"
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
    plain = PickleInterpreter({})
    magic, protocol = plain.read(stream), plain.read(stream)
    if (magic, protocol) != (_LEGACY_MAGIC, _LEGACY_PROTOCOL):
        raise RefusedPickleError("it does not start as a torch checkpoint does")
    system = plain.read(stream)
    if not isinstance(system, dict) or system["little_endian"] is not True:
        raise RefusedPickleError("its values are big-endian")
    tensors = _tensors(stream)
    storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    keys = plain.read(stream)
    if not isinstance(keys, list) or set(keys) != storages.keys():
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
        calls={
            "collections OrderedDict": dict,
            "torch._utils _rebuild_tensor_v2": _tensor,
            "torch._utils _rebuild_parameter": _parameter,
        },
        names=frozenset(_STORAGE_TYPES),
        persistent=_storage,
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
