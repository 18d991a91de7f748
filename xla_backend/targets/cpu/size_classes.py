"""Programs for arrays of any sizes: one native function for all sizes that are computed in one
order.

The order in which a reduction puts elements together depends on sizes, and results have the bits of
a program that is compiled for them. For sizes that are new `class_compiler` says what the order is;
it makes code for an order that is new. What is known, code and orders of sizes, is kept on disk: a
process that finds it there does not load the compiler.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.attributes import Value
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.hlo.shape import Shape
from xla_backend.llvm.jit import Library
from xla_backend.process.lazy import lazy
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.client import Device, NotAtHand
from xla_backend.targets.cpu.native import NativeExecutable, Temporaries, never_fails
from xla_backend.targets.cpu.work_queue import QueuedCode

_make_compiler = on_first_use("xla_backend.targets.cpu.class_compiler", "ClassCompiler")

# A program on fewer bytes is not worth releasing the interpreter lock.
_TINY_BYTES = 1 << 17
# `i32 entry(ptr args, ptr outs, ptr numbers)`
_SIGNATURE = (ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
# Sizes of a class whose order is remembered.
_MOST_SIZES = 512

# Of each reduction, in how many lanes it has partial results; 0: its elements follow each other.
# Then for each scatter that its updates do.
Order = tuple[int, ...]
IN_TURN = -1


class ClassFacts(Value):
    """What is known of a program beside its code.

    Fields:
      parameters, outputs: with stand-ins.
      orders: that there is code for.  temporaries: of each, with stand-ins.
      sizes: whose order is known, and which (-1: they have none).
      has_forms: whether all instructions have one with run-time sizes.
    """

    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    orders: tuple[Order, ...]
    temporaries: tuple[tuple[Shape, ...], ...]
    sizes: tuple[tuple[tuple[int, ...], int], ...]
    has_forms: bool = True


def without_forms(module: HloModule) -> ClassFacts:
    """Of a module that has instructions without a form with run-time sizes."""
    return ClassFacts(*_taken_and_given(module), (), (), (), has_forms=False)


def _taken_and_given(module: HloModule) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    assert module.entry is not None
    parameters = tuple(p.shape for p in module.entry.parameters)
    return parameters, tuple(node.shape for node in module.entry.outputs)


class _Compiled(Protocol):
    object_code: bytes
    temporaries: tuple[Shape, ...]


class _Compiler(Protocol):
    def order(self, sizes: Sequence[int]) -> Order | None: ...
    def compile(self, order: Order) -> _Compiled: ...


class _Code:
    """Code for an order. Equal by identity."""

    def __init__(self, order: Order, temporaries: tuple[Shape, ...], object_code: bytes) -> None:
        self.order = order
        self.temporaries = temporaries
        self.object_code = object_code
        self.library = Library(object_code)


# Takes what is known, and the code of each order.
Keep = Callable[[ClassFacts, Sequence[bytes]], None]


class SizeClasses:
    """A program for all sizes. Threads may share it: what two of them find at the same time is the
    same.

    Args:
      source: of the module for `stand_ins` of the sizes.
      known: of it, with the code of each order; None: it is compiled.
      keep: is called from time to time, as more becomes known.

    Raises:
      UnimplementedError: it is compiled, and an instruction has no form with run-time sizes.
    """

    def __init__(
        self,
        source: ModuleSource,
        stand_ins: Sequence[int],
        options: CompileOptions,
        known: tuple[ClassFacts, Sequence[bytes]] | None,
        keep: Keep,
    ) -> None:
        self.stand_ins = tuple(stand_ins)
        self._source = source
        self._options = options
        self._keep = keep
        self._codes: list[_Code] = []
        self._by_sizes: dict[tuple[int, ...], _Code | None] = {}
        self._found = 0  # sizes that were not known
        if known is None:
            self.parameters, self.outputs = _taken_and_given(source.module)
            _ = self._compiler
        else:
            facts, objects = known
            self.parameters, self.outputs = facts.parameters, facts.outputs
            self._codes += map(_Code, facts.orders, facts.temporaries, objects)
            for sizes, number in facts.sizes:
                self._by_sizes[sizes] = None if number < 0 else self._codes[number]

    @property
    def module(self) -> HloModule:
        """For the stand-ins."""
        return self._source.module

    @lazy
    def _compiler(self) -> _Compiler:
        return _make_compiler(self.module.clone(), self.stand_ins, self._options)

    def at(
        self, sizes: Sequence[int], device: Device, *, at_hand: bool = False
    ) -> ClassExecutable | None:
        """The program for certain sizes, none of them 0 or 1; None if it is to be compiled for
        them.

        Raises:
          NotAtHand: it is to be `at_hand`, and is to be compiled for all sizes of its class.
        """
        sizes = tuple(sizes)
        code = self._by_sizes[sizes] if sizes in self._by_sizes else self._find(sizes, at_hand)
        return None if code is None else ClassExecutable(self, code, sizes, device)

    def _find(self, sizes: tuple[int, ...], at_hand: bool) -> _Code | None:
        order = self._without_reductions if self._codes else None
        if order is None:
            order = self._compiler.order(sizes)
        code = next((c for c in self._codes if c.order == order), None)
        is_new = code is None and order is not None
        if is_new and at_hand:
            raise NotAtHand
        if code is None and order is not None:
            compiled = self._compiler.compile(order)
            code = _Code(order, compiled.temporaries, compiled.object_code)
            self._codes.append(code)
        if order != ():
            if len(self._by_sizes) < _MOST_SIZES:
                self._by_sizes[sizes] = code
            # Not for each of many sizes: a file is written. What was known at the start does not
            # count, or the first sizes of a process might be found anew by all others.
            self._found += 1
            is_new = is_new or self._found.bit_count() == 1
        if is_new:
            self._keep(self.facts(), [c.object_code for c in self._codes])
        return code

    @property
    def _without_reductions(self) -> Order | None:
        """The order of all sizes, where there is none."""
        return () if self._codes[0].order == () else None

    def facts(self) -> ClassFacts:
        """What is known by now."""
        codes = [*self._codes]
        numbers: dict[_Code | None, int] = {code: k for k, code in enumerate(codes)}
        numbers[None] = -1
        known = [*self._by_sizes.items()]
        return ClassFacts(
            self.parameters,
            self.outputs,
            tuple(c.order for c in codes),
            tuple(c.temporaries for c in codes),
            tuple((sizes, numbers[code]) for sizes, code in known if code in numbers),
        )


class ClassExecutable(NativeExecutable):
    """A program for certain sizes; all of its class share their native code."""

    held_bytes = 1 << 13

    def __init__(
        self, classes: SizeClasses, code: _Code, sizes: tuple[int, ...], device: Device
    ) -> None:
        values = dict(zip(classes.stand_ins, sizes))
        parameters = [_with_sizes(shape, values) for shape in classes.parameters]
        outputs = [_with_sizes(shape, values) for shape in classes.outputs]
        super().__init__(device, parameters, outputs)
        self._classes, self._sizes = classes, sizes
        moved = sum(s.byte_size for s in (*parameters, *outputs))
        function = code.library.function("entry", *_SIGNATURE, keeps_gil=moved < _TINY_BYTES)
        packed = struct.pack(f"{len(sizes)}q", *sizes)
        if code.temporaries:
            memory = Temporaries(_with_sizes(s, values).byte_size for s in code.temporaries)
            self._call = lambda arguments, outputs: memory.lent_to(
                lambda addresses: function(arguments, outputs, packed + addresses)
            )
            return
        self._numbers = ctypes.create_string_buffer(packed)
        numbers = ctypes.addressof(self._numbers)
        self._call = lambda arguments, outputs: function(arguments, outputs, numbers)
        self.releases_lock = moved >= _TINY_BYTES
        self.queued = QueuedCode(code.library.address("entry"), None, numbers, 0.0, never_fails)

    @lazy
    def module(self) -> HloModule:  # type: ignore[override]
        return at_sizes(self._classes.module, self._classes.stand_ins, self._sizes)


def at_sizes(module: HloModule, stand_ins: Sequence[int], sizes: Sequence[int]) -> HloModule:
    """A copy of a module, for certain sizes."""
    values = dict(zip(stand_ins, sizes))
    copy = module.clone()
    for computation in copy.computations:
        for node in computation:
            node.shape = _with_sizes(node.shape, values)
    return copy


def _with_sizes(shape: Shape, values: Mapping[int, int]) -> Shape:
    if shape.is_tuple:
        return Shape.tuple([_with_sizes(s, values) for s in shape.tuple_shapes])
    if not shape.dimensions:
        return shape
    return shape.with_dimensions(tuple([values.get(d, d) for d in shape.dimensions]))
