"""Calls of handlers: an HLO custom call with its arrays and attributes as a call frame of XLA's
foreign function interface."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import c_int, c_int64, c_void_p
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.errors import RuntimeFailure, UnimplementedError
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.process.waits import LOOK_EVERY
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.ffi import structures as s
from xla_backend.runtime.ffi.interface import API, Run, check, futures, runs
from xla_backend.runtime.ffi.structures import DATA_TYPES, Stage
from xla_backend.stablehlo.attributes import (
    ArrayAttribute,
    DenseAttribute,
    FloatAttribute,
    IntegerAttribute,
)
from xla_backend.stablehlo.dense_text import element_dtype
from xla_backend.stablehlo.from_hlo_context import read_dictionary


class Attributes:
    """Attributes in memory, as handlers read them. What they point to lives as long as this."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._held: list[Any] = []
        names, kinds, pointers = [], [], []
        for name in sorted(values):
            kind, structure = self._attribute(name, values[name])
            self._held.append(structure)
            names.append(ctypes.pointer(self._span(name)))
            kinds.append(kind)
            pointers.append(ctypes.addressof(structure))
        n = len(names)
        self._arrays = (
            (c_int * n)(*kinds),
            (ctypes.POINTER(s.ByteSpan) * n)(*names),
            (c_void_p * n)(*pointers),
        )
        kinds_, names_, pointers_ = self._arrays
        self.structure = s.made(s.Attrs, size=n, types=kinds_, names=names_, attrs=pointers_)

    def _span(self, text: str) -> s.ByteSpan:
        data = text.encode("utf-8", "surrogateescape")
        span = s.ByteSpan(data, len(data))
        self._held.append((data, span))
        return span

    def _attribute(self, name: str, value: Any) -> tuple[int, Any]:
        if isinstance(value, dict):
            inner = Attributes(value)
            self._held.append(inner)
            return s.DICTIONARY, inner.structure
        if isinstance(value, str):
            return s.STRING, self._span(value)
        array = self._numbers(name, value)
        self._held.append(array)
        number = DATA_TYPES[array.dtype]
        if isinstance(value, (ArrayAttribute, DenseAttribute)):
            return s.ARRAY, s.Array(number, array.size, array.ctypes.data)
        return s.SCALAR, s.Scalar(number, array.ctypes.data)

    def _numbers(self, name: str, value: Any) -> np.ndarray:
        if isinstance(value, bool):
            return np.array(value)
        if isinstance(value, DenseAttribute):
            return np.ascontiguousarray(value.array)
        if isinstance(value, ArrayAttribute):
            return np.array(value.values, element_dtype(value.element))
        if isinstance(value, (IntegerAttribute, FloatAttribute)):
            return np.array(value.value, element_dtype(value.type))
        raise UnimplementedError(
            f"the attribute {name!r} is {value}; handlers take numbers, texts, arrays and "
            "dictionaries of these"
        )


class Handlers:
    """The functions of a target, by stage.

    Attributes:
      name: of the target, for messages.
    """

    def __init__(self, name: str, addresses: Mapping[Stage, int]) -> None:
        self.name = name
        self._functions = {stage: s.HANDLER(address) for stage, address in addresses.items()}
        # What an instantiation keeps, by its attributes: it is made once for each.
        self._instances: dict[str, dict[Stage, Any]] = {}

    def __call__(
        self,
        operands: list[np.ndarray],
        results: list[np.ndarray],
        attributes: CustomCallAttributes,
        context: ExecutionContext,
    ) -> None:
        attrs = _attributes(self.name, attributes)
        run = Run(context, self._instance(attributes.backend_config, attrs))
        inputs = _with_aliases(operands, results, attributes)
        for stage in (Stage.PREPARE, Stage.INITIALIZE, Stage.EXECUTE):
            self._call(stage, inputs, results, attrs, run)

    def _instance(self, config: str, attrs: Attributes) -> dict[Stage, Any]:
        found = self._instances.get(config)
        if found is None:
            run = Run(None, {})
            self._call(Stage.INSTANTIATE, [], [], attrs, run)
            found = self._instances.setdefault(config, run.states)
        return found

    def _call(
        self,
        stage: Stage,
        operands: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        attrs: Attributes,
        run: Run,
    ) -> None:
        function = self._functions.get(stage)
        if function is None:
            return
        args, held_args = _buffers(self.name, operands)
        rets, held_rets = _buffers(self.name, results)
        number = runs.add(run)
        frame = s.made(
            s.CallFrame,
            api=ctypes.addressof(API),
            ctx=number,
            stage=stage,
            args=s.made(s.Args, size=len(operands), types=args[0], args=args[1]),
            rets=s.made(s.Rets, size=len(results), types=rets[0], rets=rets[1]),
            attrs=attrs.structure,
        )
        try:
            check(self.name, stage, function(frame))
            future = futures.get(frame.future)
            if future is not None:
                while True:
                    if future.done.wait(LOOK_EVERY):
                        break
                futures.take(frame.future)
                if future.failure is not None:
                    raise RuntimeFailure(f"{future.failure} (the handler of {self.name!r})")
        finally:
            runs.take(number)
            del held_args, held_rets


_decoded: BoundedCache[str, Attributes] = BoundedCache(Budget("foreign attributes", entries=1024))


def _attributes(name: str, attributes: CustomCallAttributes) -> Attributes:
    config = attributes.backend_config or "{}"
    found = _decoded.hot.get(config)
    return _decoded.make(config, lambda: _read(name, config)) if found is None else found


def _read(name: str, config: str) -> Attributes:
    values = read_dictionary(config)
    if values is None:
        raise UnimplementedError(
            f"the configuration of {name!r} is no dictionary: {config!r:.80}; functions that take "
            "a text are registered with api_version=0"
        )
    return Attributes(values)


def _with_aliases(
    operands: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    attributes: CustomCallAttributes,
) -> list[np.ndarray]:
    """The operands; those whose memory a result takes over are that result."""
    inputs = list(operands)
    for output, number, _ in attributes.output_to_operand_aliasing:
        result = results[output[0] if output else 0]
        if inputs[number].ctypes.data != result.ctypes.data:
            result[...] = inputs[number]
        inputs[number] = result
    return inputs


def _buffers(name: str, arrays: Sequence[np.ndarray]) -> tuple[tuple[Any, Any], list[Any]]:
    """Arrays as arguments: their types and addresses; and what must live meanwhile."""
    held: list[Any] = []
    for array in arrays:
        number = DATA_TYPES.get(array.dtype)
        if number is None:
            raise UnimplementedError(f"{name!r}: handlers know no elements of type {array.dtype}")
        dims = (c_int64 * array.ndim)(*array.shape)
        data = array.ctypes.data
        held.append(s.made(s.Buffer, dtype=number, data=data, rank=array.ndim, dims=dims))
    n = len(held)
    kinds = (c_int * n)(*[s.BUFFER] * n)
    return (kinds, (c_void_p * n)(*map(ctypes.addressof, held))), held


_Original = ctypes.CFUNCTYPE(None, c_void_p, ctypes.POINTER(c_void_p))


class OriginalFunction:
    """A function of the first convention: `void f(void* out, const void** in)`; with several
    results `out` points to their addresses."""

    def __init__(self, name: str, address: int) -> None:
        self.name = name
        self._function = _Original(address)

    def __call__(
        self,
        operands: list[np.ndarray],
        results: list[np.ndarray],
        attributes: CustomCallAttributes,
        context: ExecutionContext,
    ) -> None:
        inputs = _with_aliases(operands, results, attributes)
        ins = (c_void_p * len(inputs))(*[x.ctypes.data for x in inputs])
        outs = (c_void_p * len(results))(*[x.ctypes.data for x in results])
        out = outs[0] if len(results) == 1 else ctypes.addressof(outs)
        self._function(out, ins)
