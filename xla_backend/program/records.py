"""Records of what programs are made of as bytes, and back: a line of JSON with everything in it but
the bytes of arrays and of object code, which follow it in the order in which it names them.

API
  record_to_bytes(record) -> bytes        record_from_bytes(data, kind) -> record of that kind
  to_bytes(value, modules) -> bytes       from_bytes(data, kind, modules) -> value

What is not a number or a string is a list that begins with a tag. An object that others share is
written once and referred to by number, so that what was one object is one object again. Only
records of the compiler, and classes of the modules that are named, are made when bytes are read:
reading runs no code of the bytes.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from xla_backend.hlo import attributes, opcode, types
from xla_backend.hlo.attributes import Value
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import BY_NAME
from xla_backend.program import steps

T = TypeVar("T")
R = TypeVar("R", bound=Value)
# Whose classes and enums may occur besides.
Modules = tuple[ModuleType, ...]
_FORMAT = "pyjax program"
_VERSION = 2
_COMPILER = __name__.split(".")[0]
_DAMAGE = (ValueError, KeyError, TypeError, IndexError, ImportError)


class ProgramFormatError(HloError, ValueError):
    """Bytes are no program that this version reads."""


def record_to_bytes(record: Value) -> bytes:
    """A record of what programs are made of as bytes.

    Raises:
      ProgramFormatError: something in it is of a kind that bytes cannot hold.
    """
    return to_bytes(record)


def record_from_bytes(data: bytes, kind: type[R]) -> R:
    """The record that `record_to_bytes` wrote.

    Raises:
      ProgramFormatError: the bytes are damaged, of another version, or of another kind.
    """
    return from_bytes(data, kind)


def to_bytes(value: Any, modules: Modules = ()) -> bytes:
    """A value of these modules, or a record, as bytes."""
    writer = _Writer(modules)
    written = writer.write(value)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "modules": sorted(writer.modules),
        "program": written,
    }
    line = json.dumps(content, separators=(",", ":")).encode()
    return b"\n".join([line, b"".join(writer.pieces)])


def from_bytes(data: bytes, kind: type[T], modules: Modules = ()) -> T:
    """What `to_bytes` wrote."""
    end = data.find(b"\n")
    line = data if end < 0 else data[:end]
    pieces = memoryview(data)[len(line) + 1 :]
    try:
        content = json.loads(line)
        form, version = content["format"], content["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramFormatError(f"the bytes are no serialised program: {error}") from None
    if (form, version) != (_FORMAT, _VERSION):
        raise ProgramFormatError(
            f"the bytes are {form!r} of version {version}, expected {_FORMAT!r} of version "
            f"{_VERSION}; serialise the program again with this version"
        )
    try:
        for module in content["modules"]:
            _load_records_of(module)
        reader = _Reader(modules, pieces)
        value = reader.read(content["program"])
        reader.end()
    except _DAMAGE as error:
        raise ProgramFormatError(f"the serialised program is damaged: {error!r}") from None
    if not isinstance(value, kind):
        expected = kind.__name__
        raise ProgramFormatError(f"the bytes hold a {type(value).__name__}, expected a {expected}")
    return value


def _load_records_of(module: str) -> None:
    """Have the kinds of records that a module of the compiler defines, such as attributes that a
    target has of its own."""
    if module.split(".")[0] != _COMPILER:
        raise ValueError(f"{module} is no module of the compiler")
    import_module(module)


@cache
def _classes(*modules: ModuleType) -> dict[str, type]:
    """Classes that modules define, by name."""
    return {
        name: found
        for module in modules
        for name, found in vars(module).items()
        if isinstance(found, type) and found.__module__ == module.__name__
    }


def _enum(name: str, modules: Modules) -> type:
    found = _classes(types, opcode, attributes, steps).get(name)
    return _classes(*modules)[name] if found is None else found


_known_records: dict[str, type[Value]] = {}


def _record(name: str) -> type[Value] | None:
    """A kind of record: steps, slices, and attributes, a target's own included."""
    if name not in _known_records:  # it may have been defined meanwhile
        left: list[type[Value]] = [Value]
        while left:
            record = left.pop()
            left += record.__subclasses__()
            _known_records[record.__name__] = record
    return _known_records.get(name)


def _fields(made: type) -> list[str]:
    """Names of what an object is made with."""
    if issubclass(made, Value):
        return list(made._fields)
    if dataclasses.is_dataclass(made):
        return [f.name for f in dataclasses.fields(made) if f.init]
    slots = [name for kind in reversed(made.__mro__) for name in vars(kind).get("__slots__", ())]
    return [name for name in slots if not name.startswith("_")]


class _Writer:
    def __init__(self, modules: Modules) -> None:
        self._classes = _classes(*modules)
        self._numbers: dict[int, int] = {}  # id -> number, of objects that the program holds
        self.modules: set[str] = set()  # of its records
        self.pieces: list[bytes] = []

    def write(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, tuple | list):
            return ["t" if isinstance(value, tuple) else "l", *map(self.write, value)]
        if isinstance(value, Mapping):
            return ["d", *([self.write(k), self.write(v)] for k, v in value.items())]
        if isinstance(value, enum.Enum):
            return ["e", type(value).__name__, value.name]
        if isinstance(value, np.ndarray | np.generic):
            shape = Shape.of(value)  # type: ignore[arg-type]
            self.pieces.append(np.ascontiguousarray(value).tobytes())
            tag = "a" if isinstance(value, np.ndarray) else "n"
            return [tag, str(shape.element_type), list(shape.dimensions)]
        if isinstance(value, bytes):
            self.pieces.append(value)
            return ["b", len(value)]
        return self._object(value)

    def _object(self, value: Any) -> Any:
        known = self._numbers.get(id(value))
        if known is not None:
            return ["r", known]
        if isinstance(value, Shape):
            if value.layout_details is not None:
                raise ProgramFormatError(f"a program cannot be serialised with {value!r} in it")
            parts = (value.element_type, value.dimensions, value.layout, value.tuple_shapes)
            written = ["s", *map(self.write, (*parts, value.dynamic))]
        else:
            written = [self._tag(value), type(value).__name__]
            written += [[name, self.write(getattr(value, name))] for name in _fields(type(value))]
        self._numbers[id(value)] = len(self._numbers)
        return written

    def _tag(self, value: Any) -> str:
        name = type(value).__name__
        if isinstance(value, Value) and _record(name) is type(value):
            self.modules.add(type(value).__module__)
            return "o"
        if self._classes.get(name) is type(value):
            return "k"
        raise ProgramFormatError(
            f"a program cannot be serialised with {value!r} in it: attributes of host calls are "
            "numbers, strings, arrays, and records of those"
        )


class _Reader:
    def __init__(self, modules: Modules, pieces: memoryview) -> None:
        self._modules = modules
        self._pieces = pieces
        self._next = 0  # byte of them
        self._objects: list[Any] = []

    def read(self, written: Any) -> Any:
        if type(written) is not list:
            return written
        tag, *parts = written
        if tag == "r":
            return self._objects[parts[0]]
        if tag == "t":
            return tuple([v if type(v) is not list else self.read(v) for v in parts])
        if tag == "l":
            return [self.read(part) for part in parts]
        if tag == "d":
            return {self.read(key): self.read(value) for key, value in parts}
        if tag == "e":
            found = _enum(parts[0], self._modules)
            assert issubclass(found, enum.Enum)
            return found[parts[1]]
        if tag in ("a", "n"):
            array = self._array(*parts)
            return array if tag == "a" else array[()]
        if tag == "b":
            return self._piece(*parts)
        made = self._made(tag, parts)
        self._objects.append(made)
        return made

    def end(self) -> None:
        """Nothing may be left."""
        if self._next != len(self._pieces):
            raise ValueError(f"{len(self._pieces) - self._next} bytes are left over")

    def _array(self, type: str, dimensions: list[int]) -> np.ndarray:
        dtype = BY_NAME[type].numpy_dtype
        data = self._piece(math.prod(dimensions) * dtype.itemsize)
        return np.frombuffer(data, dtype).reshape(dimensions)

    def _piece(self, size: int) -> bytes:
        # A copy: the line before it has any length, and arrays are to be aligned.
        piece = bytes(self._pieces[self._next : self._next + size])
        if size < 0 or len(piece) != size:
            raise ValueError(f"{size} bytes are asked for behind {self._next}")
        self._next += size
        return piece

    def _made(self, tag: str, parts: list[Any]) -> Any:
        if tag == "s":
            return Shape(*map(self.read, parts))
        name, *fields = parts
        names = [field for field, _ in fields]
        values = [v if type(v) is not list else self.read(v) for _, v in fields]
        made = _record(name) if tag == "o" else _classes(*self._modules)[name]
        if made is None:
            raise KeyError(name)
        if names != _fields(made):
            raise KeyError(f"{name} is made with {_fields(made)}, not {names}")
        return made(*values) if tag == "o" else made(**dict(zip(names, values)))
