"""Methods: callables that try entries first, and call a Python function where none fits.

They stay for the life of the process, as the classes do whose methods they are.
"""

from __future__ import annotations

import ctypes
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

from pyjax.core.tree_nodes import leaf_types
from pyjax.native.c_api import address_of
from pyjax.native.entry_code import entry_library
from pyjax.native.function_writer import Fact, Field

_WORD = ctypes.sizeof(ctypes.c_void_p)
# Slots and flags of the stable ABI.
_TP_CALL, _TP_DESCR_GET, _TP_MEMBERS = 50, 54, 72
_DISALLOW_INSTANTIATION, _IMMUTABLE, _HAVE_VECTORCALL, _METHOD = 1 << 7, 1 << 8, 1 << 11, 1 << 17
_SSIZE, _READONLY = 19, 1


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("value", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Methods:
    """Makes methods that share one table of facts.

    Args:
      facts: of each kind the object, or the place of a slot. They are kept.
    """

    def __init__(self, facts: Mapping[Fact, object | int]) -> None:
        self._code = entry_library().addresses()
        self._facts = (ctypes.c_int64 * len(Fact))()
        self._kept: list[object] = [facts]
        for fact in Fact:
            value = facts[fact]
            self._facts[fact] = value if type(value) is int else id(value)
        self._type = self._make_type()

    def _make_type(self) -> type:
        offsets = {
            b"__vectorcalloffset__": Field.VECTORCALL,
            b"__dictoffset__": Field.DICT,
            b"__weaklistoffset__": Field.WEAK,
        }
        members = (_Member * (len(offsets) + 1))()
        for member, (name, field) in zip(members, offsets.items()):
            member.name, member.kind, member.flags = name, _SSIZE, _READONLY
            member.offset = field * _WORD
        slots = (_Slot * 4)(
            _Slot(_TP_MEMBERS, ctypes.addressof(members)),
            _Slot(_TP_CALL, address_of("PyVectorcall_Call")),
            _Slot(_TP_DESCR_GET, +self._code["pyjax_bind"]),
        )
        flags = _DISALLOW_INSTANTIATION | _IMMUTABLE | _HAVE_VECTORCALL | _METHOD
        spec = _Spec(b"pyjax.native.method", Field.SIZE * _WORD, 0, flags, slots)
        self._kept += [members, slots, spec]
        make = ctypes.pythonapi.PyType_FromSpec
        make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(_Spec)]
        return make(ctypes.byref(spec))

    def of_holder(self, fallback: Callable[..., Any]) -> Any:
        """A method of the type `Fact.HOLDER`, whose instances have programs."""
        return self._make(fallback, "pyjax_call_method", None)

    def of_operator(self, fallback: Callable[..., Any], programs: Any) -> Any:
        """A method that calls one table of programs, with the instance and its operands."""
        return self._make(fallback, "pyjax_call_operator", programs)

    def of_trees(self, fallback: Callable[..., Any], table: Any) -> Any:
        """What gives the leaves and the structure of a tree whose shape a table has."""
        return self._make(fallback, "pyjax_flatten", table)

    def _make(self, fallback: Callable[..., Any], code: str, programs: Any) -> Any:
        allocate = ctypes.pythonapi.PyType_GenericAlloc
        allocate.restype, allocate.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_ssize_t]
        method = allocate(self._type, 0)
        words = (ctypes.c_int64 * Field.SIZE).from_address(id(method))
        words[Field.FALLBACK] = id(fallback)
        words[Field.PROGRAMS] = id(programs)
        words[Field.FACTS] = ctypes.addressof(self._facts)
        words[Field.VECTORCALL] = +self._code[code]
        for stays in (method, fallback, programs, self):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(stays))
        functools.update_wrapper(method, fallback, updated=())
        return method


def facts_of_python() -> dict[Fact, object]:
    """Those that are the same whatever is called."""
    return {
        Fact.NONE: None,
        Fact.TEXT: str,
        Fact.DICT: dict,
        Fact.TYPE: type,
        Fact.TUPLE: tuple,
        Fact.LEAF_TYPES: leaf_types,
        Fact.NO_BLOCKS: (),
        Fact.EMPTY: IndexError,
        Fact.REFUSED: MemoryError,
        Fact.BOUND: types.MethodType,
    }
