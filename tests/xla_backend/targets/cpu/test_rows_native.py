"""Fusions over rows as native code: named ones, random ones, and types that are summed wider."""

import numpy as np
import pytest
from native_checks import check_interpreter, check_native

from tests.xla_backend.passes.row_programs import layer_norm, random_rows, softmax
from xla_backend.hlo.attributes import ParameterAttributes
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.base import Pipeline
from xla_backend.passes.fusion import LoopFusion
from xla_backend.passes.row_fusion import RowFusion
from xla_backend.passes.row_plan_annotator import RowPlanAnnotator

PROGRAMS = {
    "softmax": softmax((64, 515), (1,)),
    "softmax over the middle": softmax((16, 64, 130), (1,)),
    "softmax over the first axis": softmax((20, 300), (0,)),
    "softmax of a vector": softmax((1000,), (0,)),
    "softmax of many rows": softmax((600, 200), (1,)),
    "softmax of tiny rows": softmax((100, 3), (1,)),
    "layer norm": layer_norm((64, 512), (1,)),
    "layer norm over two axes": layer_norm((64, 8, 33), (1, 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_without_memory(name):
    executable = check_native(parse_module(PROGRAMS[name]), scale=20)
    assert len(executable.loop_ir) == 1
    assert executable.temp_size == 0


@pytest.mark.parametrize("seed", range(60))
def test_random_rows(seed):
    check_native(parse_module(random_rows(seed)), scale=100, seed=seed)


@pytest.mark.parametrize("seed", range(0, 24, 3))
def test_random_rows_in_the_loop_interpreter(seed):
    """The loop IR alone: local buffers, guards and indices within bounds."""
    module = parse_module(random_rows(seed))
    Pipeline("fusions", [LoopFusion(), RowFusion(), RowPlanAnnotator()]).run(module)
    rng = np.random.default_rng(seed)
    for fusion in module.entry.post_order(Opcode.FUSION):
        shapes = [operand.shape for operand in fusion.operands]
        arguments = [rng.uniform(-2, 2, s.dimensions).astype(np.float32) for s in shapes]
        check_interpreter(_alone(fusion), arguments, scale=100)


def _alone(fusion: Instruction) -> HloModule:
    """A module that has this fusion as its root, and the same called computations."""
    entry = Computation("main")
    parameters = [
        entry.add(Instruction(Opcode.PARAMETER, o.shape, (), ParameterAttributes(i)))
        for i, o in enumerate(fusion.operands)
    ]
    entry.root = entry.add(clone_instruction(fusion, parameters))
    module = HloModule("alone")
    module.entry = entry
    module.computations = module.post_order()
    return module


@pytest.mark.parametrize("type", ["bf16", "f16", "f64"])
def test_other_types(type):
    text = softmax((32, 129), (1,)).replace("f32", type)
    executable = check_native(parse_module(text), scale=4)
    assert len(executable.loop_ir) == 1


def test_output_takes_the_memory_of_a_donated_argument():
    text = softmax((64, 256), (1,)).replace(
        "HloModule rows", "HloModule rows, input_output_alias={ {0}: (0, {}, may-alias) }"
    )
    executable = check_native(parse_module(text), scale=20)
    assert executable.aliases == {0: 0} and executable.temp_size == 0


def test_output_written_before_the_last_loop_keeps_its_own_memory():
    # tanh(p) is stored while the row is summed, and p is read again afterwards.
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
ENTRY main {
  p = f32[64,256] parameter(0)
  zero = f32[] constant(0)
  t = f32[64,256] tanh(p)
  s = f32[64] reduce(t, zero), dimensions={1}, to_apply=add
  b = f32[64,256] broadcast(s), dimensions={0}
  q = f32[64,256] subtract(p, b)
  ROOT r = (f32[64,256], f32[64,256]) tuple(t, q)
}"""
    executable = check_native(parse_module(text), scale=20)
    assert len(executable.loop_ir) == 1
