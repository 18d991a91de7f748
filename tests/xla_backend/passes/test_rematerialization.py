"""Cheap values are computed again where memory is short, and nowhere else."""

import pytest
from pass_checks import compare_values

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.verifier import verify
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.passes.fusion import LoopFusion
from xla_backend.passes.memory_schedule import Liveness
from xla_backend.passes.rematerialization import Rematerialization
from xla_backend.passes.scheduler import Scheduler
from xla_backend.targets.cpu.pipeline import build_pipeline

N = 64
ARRAY = f"f32[{N},{N}]"
BYTES = 4 * N * N


def activations(count: int, opcode: str = "sine", relabelled: bool = False) -> str:
    """`count` arrays that a product reads at once, and another product reads again, in reverse
    order, when the first products are done."""
    lines = [f"p = {ARRAY} parameter(0)", f"w = {ARRAY} parameter(1)", f"s0 = {ARRAY} copy(p)"]
    dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for i in range(count):
        lines.append(f"q{i} = {ARRAY} parameter({i + 2})")
        if opcode == "dot":
            lines.append(f"a{i} = {ARRAY} dot(q{i}, w), {dot}")
        else:
            lines.append(f"a{i} = {ARRAY} {opcode}(q{i})")
        lines.append(f"s{i + 1} = {ARRAY} dot(s{i}, a{i}), {dot}")
    lines.append(f"t{count} = {ARRAY} dot(s{count}, w), {dot}")
    for i in reversed(range(count)):
        again = f"a{i}"
        if relabelled:
            flat = f"f32[{N * N}]"
            lines += [f"f{i} = {flat} reshape(a{i})", f"b{i} = {ARRAY} reshape(f{i})"]
            again = f"b{i}"
        lines.append(f"t{i} = {ARRAY} dot(t{i + 1}, {again}), {dot}")
    lines[-1] = "ROOT " + lines[-1]
    return "HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}\n"


def scheduled(text: str) -> HloModule:
    module = parse_module(text)
    LoopFusion().run(module)
    Scheduler().run(module)
    return module


def peak(module: HloModule) -> int:
    order = module.entry.instructions
    return Liveness(module.entry, order).peak(order)


@pytest.mark.parametrize("relabelled", [False, True])
def test_peak_falls_below_the_limit(relabelled):
    text = activations(6, relabelled=relabelled)
    module = scheduled(text)
    limit = 5 * BYTES
    assert peak(module) > limit
    assert Rematerialization(limit).run(module)
    verify(module)
    assert peak(module) <= limit
    compare_values(parse_module(text), module, exact=True, rtol=0, seed=0)


def test_no_limit_and_enough_memory_change_nothing():
    module = scheduled(activations(6))
    assert not Rematerialization().run(module)
    assert not Rematerialization(peak(module)).run(module)


def test_products_are_never_run_twice():
    module = scheduled(activations(4, "dot"))
    dots = len(module.entry.post_order(Opcode.DOT))
    assert not Rematerialization(BYTES).run(module)
    assert len(module.entry.post_order(Opcode.DOT)) == dots


def test_a_limit_out_of_reach_leaves_a_valid_program():
    text = activations(5)
    module = scheduled(text)
    before = peak(module)
    assert Rematerialization(1).run(module)
    assert peak(module) < before
    compare_values(parse_module(text), module, exact=True, rtol=0, seed=0)


def test_one_output_of_a_fusion_is_computed_again_alone():
    text = f"""HloModule m
ENTRY main {{
  p = {ARRAY} parameter(0)
  w = {ARRAY} parameter(1)
  e = {ARRAY} exponential(p)
  x = {ARRAY} add(e, p)
  y = {ARRAY} multiply(e, w)
  d = {ARRAY} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  c = {ARRAY} dot(d, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = {ARRAY} dot(c, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
    module = scheduled(text)
    assert Rematerialization(2 * BYTES).run(module)
    verify(module)
    kinds = [node.shape.is_tuple for node in module.entry.post_order(Opcode.FUSION)]
    assert sorted(kinds) == [False, True]
    compare_values(parse_module(text), module, exact=True, rtol=0, seed=0)


def test_the_pipeline_takes_the_limit_from_the_options():
    sizes = []
    for limit in (None, 5 * BYTES):
        module = parse_module(activations(6))
        build_pipeline(CompileOptions(verify=True, memory_limit=limit)).run(module)
        sizes.append(assign_buffers(module).temp_size)
    assert sizes[1] <= 5 * BYTES + 64 < sizes[0]
