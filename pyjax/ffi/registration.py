"""Targets of foreign calls: what runs them. Layer: ffi."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.errors import JaxRuntimeError, new_error
from pyjax.core.source_info import function_location
from pyjax.ffi.attributes import decoded
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.custom_calls import HostFunction, find_custom_call, register_custom_call
from xla_backend.runtime.ffi.handlers import Handlers, OriginalFunction
from xla_backend.runtime.ffi.interface import set_registrar, type_number
from xla_backend.runtime.ffi.structures import Stage, TypeId

_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]


def include_dir() -> str:
    """The folder to compile handlers with: it has `xla/ffi/api/c_api.h`.

    >>> import os
    >>> os.path.exists(os.path.join(include_dir(), "xla", "ffi", "api", "c_api.h"))
    True
    """
    return str(Path(__file__).parent / "include")


def pycapsule(funcptr: Any) -> Any:
    """A function of a shared library, as `register_ffi_target` takes it.

    Args:
      funcptr: of ctypes: `ctypes.CDLL(path).name`, or a pointer.
    Raises:
      ValueError: a null pointer.

    >>> import ctypes
    >>> type(pycapsule(ctypes.CDLL(None).printf)).__name__
    'PyCapsule'
    """
    return _api.PyCapsule_New(ctypes.cast(funcptr, ctypes.c_void_p), None, None)


def _address(what: str, capsule: Any) -> int:
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(
            f"{what}: expected a PyCapsule, got {capsule!r:.60} of type {type(capsule).__name__}; "
            "write pycapsule(library.function)."
        )
    return _api.PyCapsule_GetPointer(capsule, _api.PyCapsule_GetName(capsule))


def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Name a function for `ffi_call`. A name that is registered again gets the new function,
    in programs that are compiled already, too.

    Args:
      fn: a PyCapsule of a handler of XLA's foreign function interface (see `pycapsule`); a dict of
        them by stage ("instantiate", "prepare", "initialize", "execute"), of which the first is
        called once for each set of attributes; or a Python function, called with a read-only NumPy
        array per operand and the attributes as keywords, that returns an array or a sequence.
      platform: where it runs. Functions for other platforms than "cpu" are passed over, for
        libraries that register them all: programs for GPUs call those of the CPU, on copies in the
        host's memory.
      api_version: 1: such handlers; 0: `void f(void* out, const void** in)`, for calls with
        `custom_call_api_version=1`.
    Raises:
      TypeError: `fn` is none of these.
      ValueError: another version; a stage that there is not, or none that executes.

    >>> register_ffi_target("doc.twice", lambda x: 2 * x)
    """
    if kwargs:
        raise TypeError(f"register_ffi_target takes no {', '.join(map(repr, kwargs))}")
    if api_version not in (0, 1):
        raise ValueError(f"register_ffi_target: api_version is {api_version}; 0 and 1 are known.")
    if platform.lower() not in _HOSTS:
        return
    if isinstance(fn, Mapping):
        unknown = sorted(fn.keys() - {stage.name.lower() for stage in Stage})
        if unknown or api_version == 0:
            raise ValueError(
                f"register_ffi_target of {name!r}: the stages are instantiate, prepare, initialize "
                f"and execute, of handlers with api_version=1; got {', '.join(fn)} and "
                f"{api_version}."
            )
        handlers = {s: _address(name, fn[s.name.lower()]) for s in Stage if s.name.lower() in fn}
        _register_handlers(name, platform, handlers)
    elif callable(fn):
        _register(name, _PythonTarget(name, fn))
    elif api_version == 0:
        _register(name, OriginalFunction(name, _address(name, fn)))
    else:
        _register_handlers(name, platform, {Stage.EXECUTE: _address(name, fn)})


_HOSTS = ("cpu", "host")


class _Latest:
    """The function that a name has by now: compiled programs hold this."""

    def __init__(self, function: HostFunction) -> None:
        self.function = function

    def __call__(
        self,
        operands: list[np.ndarray],
        results: list[np.ndarray],
        attributes: CustomCallAttributes,
        context: ExecutionContext,
    ) -> None:
        self.function(operands, results, attributes, context)


def _register(name: str, function: HostFunction) -> None:
    known = find_custom_call(name)
    if isinstance(known, _Latest):
        known.function = function
    else:
        register_custom_call(name, _Latest(function), replace=True)


def _register_handlers(name: str, platform: str, handlers: Mapping[Stage, int]) -> None:
    """Also called by libraries that register their handlers by themselves."""
    if Stage.EXECUTE not in handlers:
        raise ValueError(f"the target {name!r} has no handler for the stage 'execute'.")
    if platform.lower() in _HOSTS:
        _register(name, _reporting(Handlers(name, handlers)))


set_registrar(_register_handlers)


def _reporting(run: HostFunction) -> HostFunction:
    """Errors of handlers as users of programs know them."""

    def call(
        operands: list[np.ndarray],
        results: list[np.ndarray],
        attributes: CustomCallAttributes,
        context: ExecutionContext,
    ) -> None:
        try:
            run(operands, results, attributes, context)
        except RuntimeFailure as error:
            raise JaxRuntimeError(str(error)) from None

    return call


class _PythonTarget:
    """A Python function as what runs a custom call."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function

    def __call__(
        self,
        operands: list[np.ndarray],
        results: list[np.ndarray],
        attributes: CustomCallAttributes,
        context: ExecutionContext,
    ) -> None:
        # The memory is the program's: what the function keeps must be copies.
        arrays = [np.array(x) for x in operands]
        for array in arrays:
            array.flags.writeable = False
        found = self.function(*arrays, **decoded(attributes.backend_config))
        if found is None:
            found = ()
        outs = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(outs) != len(results):
            raise self._error(
                ValueError,
                f"{len(outs)} arrays, and {len(results)} were declared",
                "Return one array per declared result, a tuple of several; or declare others."
                if outs
                else "Write return at the end of the function.",
            )
        for result, out in zip(results, outs):
            value = np.asarray(out)
            if value.shape != result.shape:
                raise self._error(
                    ValueError,
                    f"an array of shape {value.shape}, and {result.shape} was declared",
                    "Reshape it in the function, or declare its shape.",
                )
            if _kind(value.dtype) > _kind(result.dtype):
                raise self._error(
                    TypeError,
                    f"an array of dtype {value.dtype}, and {result.dtype} was declared, which "
                    "cannot hold it",
                    "Convert it in the function (x.real, x.astype(dtype)), or declare its dtype.",
                )
            result[...] = value.astype(result.dtype, copy=False)

    def _error(self, kind: type[Exception], returned: str, fix: str) -> Exception:
        return new_error(
            kind,
            f"{self.name}: the function returned {returned}.",
            f"the target is {function_location(self.function)}; the results are declared as the "
            "second argument of ffi_call",
            fix,
        )


# Values of a kind go into results of the same or of a later one.
_KINDS = (np.bool_, np.integer, np.floating, np.complexfloating)


def _kind(dtype: np.dtype) -> int:
    """The place in `_KINDS`; behind them for objects and texts, which no result holds."""
    return next((i for i, kind in enumerate(_KINDS) if dtypes.issubdtype(dtype, kind)), len(_KINDS))


def register_ffi_type(
    name: str, type_registration: Mapping[str, Any], platform: str = "cpu"
) -> None:
    """Give a type of a library's states its number.

    Args:
      name: of the type.
      type_registration: "type_id": a PyCapsule of an `XLA_FFI_TypeId`, which gets a number if it
        has none; "type_info" is accepted: states live as long as the process here.
      platform: "cpu", or another one, for which nothing runs.
    Raises:
      KeyError: no type_id.   TypeError: no PyCapsule.   ValueError: the name has another number.

    >>> import ctypes
    >>> number = ctypes.c_int64(0)  # an `XLA_FFI_TypeId`, as a library has it
    >>> register_ffi_type("doc.State", {"type_id": pycapsule(ctypes.pointer(number))})
    >>> number.value > 0
    True
    """
    register_ffi_type_id(name, type_registration["type_id"], platform)


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """`register_ffi_type` for a PyCapsule of an `XLA_FFI_TypeId` alone.

    >>> import ctypes
    >>> number = ctypes.c_int64(0)  # an `XLA_FFI_TypeId`, as a library has it
    >>> register_ffi_type_id("doc.Counter", pycapsule(ctypes.pointer(number)))
    >>> number.value > 0
    True
    """
    known = TypeId.from_address(_address(name, obj))
    known.type_id = type_number(name, max(known.type_id, 0))


_batch_partitionable: set[str] = set()


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Say that a target computes the examples of leading dimensions apart from each other, so that
    several devices may share them. An array has one device today: nothing is shared.

    >>> register_ffi_target_as_batch_partitionable("doc.twice")
    """
    _batch_partitionable.add(name)
