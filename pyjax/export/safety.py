"""What may be in an exported program, and whether a module is the program that it is said to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import xla_backend
from pyjax.core import dtypes
from pyjax.core.errors import fail, new_error
from pyjax.interpreters.hlo import aval_to_shape
from pyjax.lax.buffer_callbacks import BUFFER_TARGET
from pyjax.lax.callbacks import CALLBACK_TARGET
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.verifier import verify
from xla_backend.spmd.shardy_importer import ShardyImporter

# Custom calls that mean the same in every version and process: routines of LAPACK, and layouts.
_STABLE_PREFIX = "lapack."
# How arrays lie over devices, and where bodies that see parts of them begin and end.
_STABLE = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})


class DisabledSafetyCheck:
    """A check that `export` or a call leaves out, made by `platform()` or `custom_call(target)`.

    >>> DisabledSafetyCheck.custom_call("my_library.sum")
    custom_call:my_library.sum
    """

    def __init__(self, _impl: str) -> None:
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Calls run on platforms that the program was not exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """The program has custom calls of a target that may change its meaning, or that the
        process which loads the program has to register."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The target of a `custom_call` check; None of another check."""
        kind, _, target = self._impl.partition(":")
        return target if kind == "custom_call" else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and other._impl == self._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return self._impl

    __str__ = __repr__


def custom_call_targets(module: HloModule) -> set[str]:
    """Names of all custom calls of a module."""
    found = set()
    for computation in module.computations:
        for node in computation:
            if node.opcode is Opcode.CUSTOM_CALL:
                assert isinstance(node.attributes, CustomCallAttributes)
                found.add(node.attributes.target)
    return found


def check_custom_calls(
    module: HloModule, name: str, disabled: Iterable[DisabledSafetyCheck]
) -> None:
    """Refuse what no other process could run, or would understand in another way.

    Raises:
      NotImplementedError: the program calls Python functions of this process.
      ValueError: it has other custom calls without a promise, and no check allows them.
    """
    targets = custom_call_targets(module)
    if targets & {CALLBACK_TARGET, BUFFER_TARGET}:
        fail(
            NotImplementedError,
            f"{name} calls back into Python, and cannot be exported",
            "an exported program runs in processes that do not have the function; this includes "
            "debug.print",
            "take pure_callback, io_callback and debug.print out of the function that you export",
        )
    allowed = {check.is_custom_call() for check in disabled}
    unknown = sorted(t for t in targets - allowed - _STABLE if not t.startswith(_STABLE_PREFIX))
    if unknown:
        fail(
            ValueError,
            f"{name} has custom calls that cannot be exported: {', '.join(unknown)}",
            "nothing promises that they mean the same in another version or process",
            "if you know that they do, pass disabled_checks="
            f"[DisabledSafetyCheck.custom_call({unknown[0]!r})]",
        )


def shapes_of(avals: Iterable[Any]) -> list[Shape]:
    """How the arrays of these types are passed; float0 arrays are not."""
    return [aval_to_shape(a) for a in avals if a.dtype != dtypes.float0]


def checked_module(
    text: str,
    name: str,
    arguments: Sequence[Shape],
    results: Sequence[Shape],
    disabled: Iterable[DisabledSafetyCheck],
) -> HloModule:
    """The program of a StableHLO text that takes and returns these shapes.

    Raises:
      ValueError: the text is no valid program, or the program of other types.
      NotImplementedError, ValueError: `check_custom_calls`.
    """
    try:
        module = xla_backend.parse_stablehlo(text)
        ShardyImporter().run(module)  # it becomes part of programs with other meshes
        verify(module)
    except (HloError, RecursionError) as error:
        raise new_error(
            ValueError,
            f"the module of {name} is no valid StableHLO program",
            str(error),
            "pass all bytes that Exported.serialize() returned, unchanged",
        ) from error
    assert module.entry is not None
    taken = [p.shape for p in module.entry.parameters]
    assert module.entry.root is not None
    returned = module.entry.root.shape.flatten()
    if taken != list(arguments) or returned != list(results):
        fail(
            ValueError,
            f"the module of {name} takes {_listed(taken)} and returns {_listed(returned)}, "
            f"but {_listed(arguments)} and {_listed(results)} are recorded",
            "a module runs with the memory of the types that are recorded",
            "export the function again",
        )
    check_custom_calls(module, name, disabled)
    return module


def _listed(shapes: Sequence[Shape]) -> str:
    return f"({', '.join(map(str, shapes))})"
