"""Elementwise programs for any number of elements: one native function serves every shape.

`compile_elementwise` takes a module whose arrays are scalars or 1-D of one common length (which
stands for any length) and gives `i32 entry_n(ptr args, ptr outs, i64 n)`: one serial vector loop
and a masked tail. The bits are those of the same program compiled for that shape, because each
element goes through the same code.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.cpu.emitter import KernelEmitter
from xla_backend.cpu.kernel_functions import KERNEL_COST_LIMIT, arguments_of
from xla_backend.cpu.pipeline import expansion, simplification
from xla_backend.cpu.schedule import schedule
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.llvm import jit
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.loops.builder import LoopBuilder
from xla_backend.loops.from_hlo.elemental import ElementalEmitter
from xla_backend.loops.from_hlo.nests import pointwise_nest
from xla_backend.loops.ir import Buffer, BufferRole, Kernel, Loop
from xla_backend.passes.base import Pipeline
from xla_backend.passes.call_inliner import CallGraphFlattener, CallInliner
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.opt_barrier_elimination import OptBarrierElimination
