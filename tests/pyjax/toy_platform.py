"""A platform with memory of its own, as plugins register one: buffers are handles of byte strings
that only the client can look into, and it counts what goes to the host and back. Programs run in
the evaluator."""

from __future__ import annotations

import itertools
from collections.abc import Container
from typing import Any

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.runtime.buffer import Buffer, BufferKind, OutOfMemory
from xla_backend.runtime.client import (
    AbstractClient,
    Device,
    ExecutionContext,
    LoadedExecutable,
    kind_of,
)
from xla_backend.runtime.custom_calls import custom_calls_in
from xla_backend.runtime.plugins import register_plugin


class Memory:
    """What a device keeps, by the number of the handle; `limit`: most bytes of it."""

    def __init__(self) -> None:
        self.content: dict[int, bytes] = {}
        self.limit = 1 << 30
        self.from_host = self.to_host = self.waits = 0
        self._numbers = itertools.count()

    def keep(self, data: bytes) -> Handle:
        if sum(map(len, self.content.values())) + len(data) > self.limit:
            raise OutOfMemory(f"cannot allocate {len(data)} bytes on the toy\n  it is full")
        number = next(self._numbers)
        self.content[number] = data
        return Handle(self, number)


class Handle(Buffer):
    __slots__ = ("memory", "number")

    def __init__(self, memory: Memory, number: int) -> None:
        self.memory, self.number = memory, number

    def __del__(self) -> None:
        del self.memory.content[self.number]


class ToyKind(BufferKind):
    __slots__ = ("memory",)

    def __init__(self, memory: Memory, dimensions: tuple[int, ...], dtype: np.dtype) -> None:
        super().__init__(dimensions, dtype)
        self.memory = memory

    def from_host(self, array: np.ndarray) -> Handle:
        assert array.shape == self.dimensions
        self.memory.from_host += 1
        return self.memory.keep(array.astype(self.numpy_dtype).tobytes())

    def to_host(self, buffer: Any) -> np.ndarray:
        self.memory.to_host += 1
        return self.value(buffer)

    def wait(self, buffer: Buffer) -> None:
        self.memory.waits += 1

    def value(self, buffer: Any) -> np.ndarray:
        assert buffer.memory is self.memory, "a buffer of another device"
        data = self.memory.content[buffer.number]
        return np.frombuffer(data, self.numpy_dtype).reshape(self.dimensions)


class ToyExecutable(LoadedExecutable):
    def __init__(self, module: HloModule, device: Device) -> None:
        assert module.entry is not None
        parameters, root = module.entry.program_shape
        self.module, self.device = module, device
        self.parameter_shapes = [leaf for shape in parameters for leaf in shape.flatten()]
        self.output_shapes = root.flatten()
        self.aliases = {
            (a.output_index[0] if a.output_index else 0): a.parameter for a in module.aliases
        }

    def execute(
        self, arguments: list[Any], donated: Container[int], context: ExecutionContext
    ) -> list[Any]:
        memory = context.device.client.memory[context.device.id]  # type: ignore[attr-defined]
        kinds: Any = [kind_of(shape, context.device) for shape in self.parameter_shapes]
        values = [kind.value(buffer) for kind, buffer in zip(kinds, arguments)]
        outputs: list[Any] = [
            None
            if i in self.aliases and self.aliases[i] in donated
            else memory.keep(b"?" * s.byte_size)
            for i, s in enumerate(self.output_shapes)
        ]
        for output, number in self.aliases.items():
            if number in donated:
                outputs[output], arguments[number] = arguments[number], None
        calls = custom_calls_in(context)
        results = evaluate(self.module, values, custom_calls=calls, host=context.device.host)
        for handle, result in zip(outputs, results):
            memory.content[handle.number] = result.tobytes()
        return outputs

    def texts(self) -> dict[str, str]:
        return {"hlo": module_to_text(self.module)}


class ToyClient(AbstractClient):
    platform = "toy"
    platform_version = "1"

    def __init__(self) -> None:
        self._devices = [Device(self, i, "toy") for i in range(2)]
        self.memory = [Memory() for _ in self._devices]

    def devices(self) -> list[Device]:
        return self._devices

    def buffer_kind(self, device: Device, dimensions: tuple[int, ...], dtype: np.dtype) -> ToyKind:
        return ToyKind(self.memory[device.id], dimensions, dtype)

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        return ToyExecutable(module, self._devices[0])


def register() -> None:
    register_plugin("toy", ToyClient, automatic=False)
