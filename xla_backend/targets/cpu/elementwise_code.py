"""Native code of elementwise programs for any number of elements; `dynamic` makes it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Protocol

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.attributes import Value
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.hlo.shape import Shape
from xla_backend.llvm.jit import Library
from xla_backend.process.lazy import lazy
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.client import Device
from xla_backend.targets.cpu.native import NativeExecutable, never_fails
from xla_backend.targets.cpu.work_queue import QueuedCode

_stages_of = on_first_use("xla_backend.targets.cpu.dynamic", "elementwise_stages")


class NotElementwise(HloError, ValueError):
    """The module is not an elementwise program over one length; compile it for its shapes."""


_SIGNATURE = (ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64)


class ElementwiseFacts(Value):
    """What the code does not say itself: shapes for the length that the module was written for,
    and an estimate for choosing between this and a program that uses several threads."""

    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    cycles_per_element: float


class ElementwiseStages(Protocol):
    """What a program went through: the simplified HLO, its kernel, and that as LLVM text."""

    @property
    def module(self) -> HloModule: ...
    @property
    def llvm_ir(self) -> str: ...

    def loop_ir(self) -> dict[str, str]:
        """Kernel name -> its loop nest as text."""


class ElementwiseCode:
    """Native code for an elementwise program of any length n >= 0.

    `library` has `i32 entry_n(ptr args, ptr outs, i64 n)` with arrays of addresses; it never
    fails (returns 0), is safe for concurrent callers, and an output may share memory with an
    argument only if they are the same array. Stages are made again if the code came from disk.
    """

    def __init__(
        self, facts: ElementwiseFacts, object_code: bytes, stages: Callable[[], ElementwiseStages]
    ) -> None:
        self.facts = facts
        self.object_code = object_code
        self.library = Library(object_code)
        self.cycles_per_element = facts.cycles_per_element
        self._make_stages = stages

    @lazy
    def stages(self) -> ElementwiseStages:
        """What the program went through."""
        return self._make_stages()

    @property
    def loop_ir(self) -> dict[str, str]:
        """Kernel name -> its loop nest as text."""
        return self.stages.loop_ir()

    def at(self, n: int, device: Device) -> ElementwiseExecutable:
        """The program for arrays of n elements (and scalars)."""
        return ElementwiseExecutable(self, n, device)


class ElementwiseExecutable(NativeExecutable):
    """An elementwise program at one length; all lengths share its native code."""

    held_bytes = 1 << 13

    def __init__(self, code: ElementwiseCode, n: int, device: Device) -> None:
        parameters, outputs = (
            [s.with_dimensions((n,)) if s.dimensions else s for s in shapes]
            for shapes in (code.facts.parameters, code.facts.outputs)
        )
        super().__init__(device, parameters, outputs)
        self._code = code
        entry = code.library.function("entry_n", *_SIGNATURE, keeps_gil=True)
        self._call = lambda arguments, outputs: entry(arguments, outputs, n)
        self.queued = QueuedCode(code.library.address("entry_n"), None, n, 0.0, never_fails)

    @property
    def module(self) -> HloModule:  # type: ignore[override]
        return self._code.stages.module


def load_elementwise(
    facts: ElementwiseFacts, object_code: bytes, source: ModuleSource, options: CompileOptions
) -> ElementwiseCode:
    """What `compile_elementwise` made of an equal module and options in another process."""
    return ElementwiseCode(facts, object_code, lambda: _stages_of(source.module, options))
