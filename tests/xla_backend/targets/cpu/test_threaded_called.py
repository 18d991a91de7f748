"""Kernels that routines call have threaded code with the same bits: what follows a product."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.llvm import objects
from xla_backend.llvm.jit import Library
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.program.ir import launched_buffers, passed_buffers
from xla_backend.targets.cpu.kernel_functions import KernelFunctions
from xla_backend.targets.cpu.planned import plan_program
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.threaded_names import called
from xla_backend.targets.cpu.threaded.assembler import Assembler
from xla_backend.targets.cpu.threaded.kernel_code import KernelTables

ROWS, COLUMNS = 70, 96
TEXT = f"""HloModule m
ENTRY e {{
  a = f32[{ROWS},64] parameter(0)
  b = f32[64,{COLUMNS}] parameter(1)
  c = f32[{COLUMNS}] parameter(2)
  d = f32[{ROWS},{COLUMNS}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  w = f32[{ROWS},{COLUMNS}] broadcast(c), dimensions={{1}}
  s = f32[{ROWS},{COLUMNS}] add(d, w)
  ROOT t = f32[{ROWS},{COLUMNS}] tanh(s)
}}
"""

Run = Callable[[list[int], int, list[int]], None]


def _optimised(kernel: Kernel) -> Run:
    """The kernel as a function of addresses, the routine's own memory, and parameters."""
    module = ModuleWriter(host_target())
    name = KernelFunctions(module).called(kernel)
    numbers = [("i64", f"p{n}") for n in range(len(kernel.parameters))]
    w = module.function("run", [("ptr", "data"), ("ptr", "own"), *numbers])
    given = [("ptr", "data"), ("ptr", "own"), *numbers]
    w.call(name, "void", [(ty, f"%{text}") for ty, text in given])
    w.ret()
    library = Library(objects.compile_object(module.to_text(), host_target()))
    types = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * len(numbers)]
    function = library.function("run", None, *types)

    def run(addresses: list[int], own: int, parameters: list[int]) -> None:
        function((ctypes.c_void_p * len(addresses))(*addresses), own, *parameters)

    return run


def _threaded(kernel: Kernel) -> Run:
    asm = Assembler()
    asm.export("code", KernelTables(asm, host_target()).called(kernel).subroutine)
    kernels = kernel_library(host_target())
    library = Library([asm.object()], {name: kernels[name] for name in asm.symbols})
    count = len(kernel.parameters)
    types = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * count]
    function = ctypes.CFUNCTYPE(None, *types)(int(kernels[called(count)]))

    def run(addresses: list[int], own: int, parameters: list[int]) -> None:
        code = int(library.address("code"))
        function((ctypes.c_void_p * (1 + len(addresses)))(code, *addresses), own, *parameters)

    return run


@pytest.mark.parametrize(
    "numbers",
    [
        {"ld": COLUMNS, "rows": ROWS, "columns": COLUMNS},
        {"ld": 32, "row_lo": 5, "rows": 7, "column_lo": 16, "columns": 32},
        {"ld": 64, "row_lo": 69, "rows": 1, "column_lo": 80, "columns": 16},
    ],
    ids=["all", "part", "row"],
)
def test_what_follows_a_product(numbers: dict[str, int]) -> None:
    program = plan_program(parse_module(TEXT), CompileOptions()).program
    (kernel,) = (k for k in program.kernels.values() if k.parameters)
    results = []
    for code in (_optimised(kernel), _threaded(kernel)):
        rng = np.random.default_rng(0)
        arrays = {
            b: rng.standard_normal(b.size).astype(b.element_type.numpy_dtype)
            for b in launched_buffers(kernel)
        }
        (own,) = (b for b in arrays if b.role is BufferRole.SCRATCH)
        addresses = [arrays[b].ctypes.data for b in passed_buffers(kernel)]
        parameters = [numbers.get(p.name, 0) for p in kernel.parameters]
        before = np.abs(next(a for b, a in arrays.items() if b.name == "out0")) > 1
        code(addresses, arrays[own].ctypes.data, parameters)
        results.append({b.name: array for b, array in arrays.items()})
    first, second = results
    assert all((first[name].view(np.uint8) == second[name].view(np.uint8)).all() for name in first)
    assert np.count_nonzero(np.abs(second["out0"]) > 1) < np.count_nonzero(before), "it wrote"
