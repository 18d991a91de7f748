"""Programs as bytes, and back: JSON with everything in it, constants and kernels included.

API
  program_to_bytes(program) -> bytes        record_to_bytes(record) -> bytes
  program_from_bytes(data) -> Program       record_from_bytes(data, kind) -> record of that kind

What is not a number or a string is a list that begins with a tag. Kernels are kept as the objects
they are made of; an object that others share is written once and referred to by number, so that
what was one object is one object again. Only records of the compiler are made when bytes are
read: reading runs no code of the bytes.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import enum
import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from xla_backend.hlo import attribute_values, attributes, opcode, types
from xla_backend.hlo.attributes import Value
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import BY_NAME
from xla_backend.kernels import index
from xla_backend.kernels import ir as kernel_ir
from xla_backend.program import ir
from xla_backend.program.ir import Program

T = TypeVar("T")
R = TypeVar("R", bound=Value)
_FORMAT = "pyjax program"
_VERSION = 1
_COMPILER = __name__.split(".")[0]
_DAMAGE = (ValueError, KeyError, TypeError, IndexError, ImportError, binascii.Error)


class ProgramFormatError(HloError, ValueError):
    """Bytes are no program that this version reads."""


def program_to_bytes(program: Program) -> bytes:
    """A program as bytes.

    Raises:
      ProgramFormatError: an attribute of a host call is of a kind that bytes cannot hold.
    """
    return _to_bytes(program)


def program_from_bytes(data: bytes) -> Program:
    """The program that `program_to_bytes` wrote.

    Raises:
      ProgramFormatError: the bytes are damaged, or of another version.
    """
    return _from_bytes(data, Program)


def record_to_bytes(record: Value) -> bytes:
    """A record of what programs are made of as bytes, without line ends.

    Raises:
      ProgramFormatError: something in it is of a kind that bytes cannot hold.
    """
    return _to_bytes(record)


def record_from_bytes(data: bytes, kind: type[R]) -> R:
    """The record that `record_to_bytes` wrote.

    Raises:
      ProgramFormatError: the bytes are damaged, of another version, or of another kind.
    """
    return _from_bytes(data, kind)


def _to_bytes(value: Program | Value) -> bytes:
    writer = _Writer()
    written = writer.write(value)
    modules = sorted(writer.modules)
    content = {"format": _FORMAT, "version": _VERSION, "modules": modules, "program": written}
    return json.dumps(content, separators=(",", ":")).encode()


def _from_bytes(data: bytes, kind: type[T]) -> T:
    try:
        content = json.loads(data)
        form, version = content["format"], content["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ProgramFormatError(f"the bytes are no serialised program: {error}") from None
    if (form, version) != (_FORMAT, _VERSION):
        raise ProgramFormatError(
            f"the bytes are {form!r} of version {version}, expected {_FORMAT!r} of version "
            f"{_VERSION}; serialise the program again with this version"
        )
    try:
        for module in content.get("modules", ()):
            _load_records_of(module)
        value = _Reader().read(content["program"])
    except _DAMAGE as error:
        raise ProgramFormatError(f"the serialised program is damaged: {error!r}") from None
    if not isinstance(value, kind):
        expected = "program" if kind is Program else kind.__name__
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


def _enums() -> dict[str, type]:
    return _classes(types, opcode, attributes, attribute_values, kernel_ir, ir)


def _kernel_classes() -> dict[str, type]:
    return _classes(index, kernel_ir)


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
    slots: tuple[str, ...] = vars(made)["__slots__"]
    return [name for name in slots if not name.startswith("_")]


class _Writer:
    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # id -> number, of objects that the program holds
        self.modules: set[str] = set()  # of its records

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
            data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
            tag = "a" if isinstance(value, np.ndarray) else "n"
            return [tag, str(shape.element_type), list(shape.dimensions), data]
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
        if isinstance(value, Program):
            return "p"
        if isinstance(value, Value) and _record(name) is type(value):
            self.modules.add(type(value).__module__)
            return "o"
        if _kernel_classes().get(name) is type(value):
            return "k"
        raise ProgramFormatError(
            f"a program cannot be serialised with {value!r} in it: attributes of host calls are "
            "numbers, strings, arrays, and records of those"
        )


class _Reader:
    def __init__(self) -> None:
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
            found = _enums()[parts[0]]
            assert issubclass(found, enum.Enum)
            return found[parts[1]]
        if tag in ("a", "n"):
            return _array(*parts, scalar=tag == "n")
        made = self._made(tag, parts)
        self._objects.append(made)
        return made

    def _made(self, tag: str, parts: list[Any]) -> Any:
        if tag == "s":
            return Shape(*map(self.read, parts))
        name, *fields = parts
        values = {name: v if type(v) is not list else self.read(v) for name, v in fields}
        made = Program if tag == "p" else _record(name) if tag == "o" else _kernel_classes()[name]
        if made is None:
            raise KeyError(name)
        if list(values) != _fields(made):
            raise KeyError(f"{name} is made with {_fields(made)}, not {list(values)}")
        return made(**values)


def _array(type: str, dimensions: list[int], data: str, *, scalar: bool) -> Any:
    dtype = BY_NAME[type].numpy_dtype
    array = np.frombuffer(base64.b64decode(data, validate=True), dtype).reshape(dimensions)
    return array[()] if scalar else array
