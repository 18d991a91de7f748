"""Cheap values are computed again where memory is short, and nowhere else."""

from collections.abc import Callable

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
from xla_backend.passes.rematerialization import Rematerialization, fixed_bytes
from xla_backend.passes.scheduler import Scheduler
from xla_backend.targets.cpu.pipeline import build_pipeline

N = 64
ARRAY = f"f32[{N},{N}]"
BYTES = 4 * N * N


DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def activation_lines(
    count: int, opcode: str, relabelled: bool, read: Callable[[int], str]
) -> list[str]:
    """`count` arrays that a product reads at once, and another product reads again, in reverse
    order, when the first products are done: t0. `read`: what gives input i."""
    lines = [f"p = {ARRAY} {read(0)}", f"w = {ARRAY} {read(1)}"]
    lines.append(f"s0 = {ARRAY} copy(p)")
    for i in range(count):
        lines.append(f"q{i} = {ARRAY} {read(i + 2)}")
        if opcode == "dot":
            lines.append(f"a{i} = {ARRAY} dot(q{i}, w), {DOT}")
        elif opcode == "add":
            lines.append(f"a{i} = {ARRAY} add(q{i}, p)")
        else:
            lines.append(f"a{i} = {ARRAY} {opcode}(q{i})")
        lines.append(f"s{i + 1} = {ARRAY} dot(s{i}, a{i}), {DOT}")
    lines.append(f"t{count} = {ARRAY} dot(s{count}, w), {DOT}")
    for i in reversed(range(count)):
        again = f"a{i}"
        if relabelled:
            flat = f"f32[{N * N}]"
            lines += [f"f{i} = {flat} reshape(a{i})", f"b{i} = {ARRAY} reshape(f{i})"]
            again = f"b{i}"
        lines.append(f"t{i} = {ARRAY} dot(t{i + 1}, {again}), {DOT}")
    return lines


def activations(count: int, opcode: str = "sine", relabelled: bool = False) -> str:
    lines = activation_lines(count, opcode, relabelled, lambda i: f"parameter({i})")
    lines[-1] = "ROOT " + lines[-1]
    return "HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}\n"


def loop_of_activations(count: int) -> str:
    """The same as the body of a loop of three rounds, each with the last one's result: the
    activations depend on it."""
    inputs = range(count + 2)
    state = f"(s32[], {', '.join(ARRAY for _ in inputs)})"
    body = [f"b = {state} parameter(0)"]
    body += activation_lines(count, "add", False, lambda i: f"get-tuple-element(b), index={i + 1}")
    kept = ", ".join(["w", *(f"q{i}" for i in range(count))])
    parameters = [f"p{i} = {ARRAY} parameter({i})" for i in inputs]
    first = ", ".join(["zero", "copied", *(f"p{i}" for i in inputs[1:])])
    text = "\n".join
    return f"""HloModule m
body {{
{text(body)}
n = s32[] get-tuple-element(b), index=0
one = s32[] constant(1)
n1 = s32[] add(n, one)
ROOT r = {state} tuple(n1, t0, {kept})
}}
condition {{
c = {state} parameter(0)
i = s32[] get-tuple-element(c), index=0
three = s32[] constant(3)
ROOT less = pred[] compare(i, three), direction=LT
}}
ENTRY main {{
{text(parameters)}
zero = s32[] constant(0)
copied = {ARRAY} copy(p0)
start = {state} tuple({first})
loop = {state} while(start), condition=condition, body=body
ROOT out = {ARRAY} get-tuple-element(loop), index=1
}}
"""


def scheduled(text: str) -> HloModule:
    module = parse_module(text)
    LoopFusion().run(module)
    Scheduler().run(module)
    return module


def within(temporaries: int, module: HloModule) -> Rematerialization:
    """The pass with room for so many bytes besides the module's arguments and results."""
    return Rematerialization(temporaries + fixed_bytes(module))


def peak(module: HloModule) -> int:
    order = module.entry.instructions
    return Liveness(module.entry, order).peak(order)


@pytest.mark.parametrize("relabelled", [False, True])
def test_peak_falls_below_the_limit(relabelled):
    text = activations(6, relabelled=relabelled)
    module = scheduled(text)
    limit = 5 * BYTES
    assert peak(module) > limit
    assert within(limit, module).run(module)
    verify(module)
    assert peak(module) <= limit
    compare_values(parse_module(text), module, exact=True, rtol=0, seed=0)


def test_no_limit_and_enough_memory_change_nothing():
    module = scheduled(activations(6))
    assert not Rematerialization().run(module)
    assert not within(peak(module), module).run(module)


def test_products_are_never_run_twice():
    module = scheduled(activations(4, "dot"))
    dots = len(module.entry.post_order(Opcode.DOT))
    assert not within(BYTES, module).run(module)
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
    assert within(2 * BYTES, module).run(module)
    verify(module)
    kinds = [node.shape.is_tuple for node in module.entry.post_order(Opcode.FUSION)]
    assert sorted(kinds) == [False, True]
    compare_values(parse_module(text), module, exact=True, rtol=0, seed=0)


def temporaries(text: str, **options: object) -> int:
    module = parse_module(text)
    build_pipeline(CompileOptions(verify=True, **options)).run(module)
    compare_values(parse_module(text), module, exact=True, rtol=0, seed=0)
    return assign_buffers(module).temp_size


def test_bodies_of_loops_compute_values_again():
    text = loop_of_activations(6)
    plain = temporaries(text)
    room = fixed_bytes(parse_module(text)) + plain - 2 * BYTES
    assert temporaries(text, memory_limit=room) <= plain - 2 * BYTES


def test_the_highest_level_needs_no_limit():
    for text in (activations(6), loop_of_activations(6)):
        sizes = [temporaries(text, memory_fitting_level=level) for level in (1, 2, 3)]
        assert sizes[0] == sizes[1] >= sizes[2] + 2 * BYTES


def test_the_pipeline_takes_the_limit_from_the_options():
    sizes = []
    fixed = fixed_bytes(parse_module(activations(6)))
    for limit in (None, 5 * BYTES + fixed):
        module = parse_module(activations(6))
        build_pipeline(CompileOptions(verify=True, memory_limit=limit)).run(module)
        sizes.append(assign_buffers(module).temp_size)
    assert sizes[1] <= 5 * BYTES + 64 < sizes[0]
