"""Orders that need less memory: valid, chosen only where they help, and linear to find."""

import numpy as np
import pytest
from pass_checks import random_arguments

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.base import Pipeline, topological_order
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.passes.copy_insertion import CopyInsertion
from xla_backend.passes.memory_schedule import Liveness, best_order, list_order
from xla_backend.passes.scheduler import GrowingOrder, Scheduler, schedule
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.tools.arena_interpreter import ArenaInterpreter
from xla_backend.tools.fuzz.program import generate

ARRAY = "f32[512,512]"
BYTES = 4 * 512 * 512


def product(name: str, a: str, b: str, dims: tuple[int, int] = (1, 0)) -> str:
    lhs, rhs = dims
    contracting = f"lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}"
    return f"{name} = {ARRAY} dot({a}, {b}), {contracting}"


def gradients(layers: int) -> str:
    """Layers a[i+1] = tanh(a[i] w), and a gradient of each weight, all written last."""
    lines = [f"a0 = {ARRAY} parameter(0)", f"w = {ARRAY} parameter(1)"]
    for i in range(layers):
        lines += [product(f"d{i}", f"a{i}", "w"), f"a{i + 1} = {ARRAY} tanh(d{i})"]
    lines.append(f"g{layers} = {ARRAY} negate(a{layers})")
    for i in reversed(range(layers)):
        lines.append(f"h{i} = {ARRAY} multiply(g{i + 1}, a{i + 1})")
        lines.append(product(f"g{i}", f"h{i}", "w", (1, 1)))
    outputs = []
    for i in range(layers):
        lines.append(product(f"u{i}", f"a{i}", f"h{i}", (0, 0)))
        outputs.append(f"u{i}")
    types = ", ".join([ARRAY] * layers)
    lines.append(f"ROOT r = ({types}) tuple({', '.join(outputs)})")
    return "HloModule m\nENTRY main {\n" + "\n".join(lines) + "\n}\n"


def test_gradients_of_weights_run_as_soon_as_they_can():
    layers = 12
    computation = parse_module(gradients(layers)).entry
    in_text_order = topological_order(computation)
    memory = Liveness(computation, in_text_order)
    listed = best_order(computation, in_text_order, {})
    # The text keeps all activations and all h; one of the two is enough.
    assert memory.peak(in_text_order) >= 2 * layers * BYTES
    assert memory.peak(listed) <= (layers + 3) * BYTES


def test_the_lowest_memory_level_does_not_look_for_an_order():
    sizes = []
    for level in (0, 1):
        module = parse_module(gradients(12))
        build_pipeline(CompileOptions(memory_fitting_level=level)).run(module)
        sizes.append(assign_buffers(module).temp_size)
    assert sizes[1] < 0.8 * sizes[0]


def test_small_programs_keep_their_order():
    text = gradients(4).replace("512,512", "16,16")
    computation = parse_module(text).entry
    order = topological_order(computation)
    assert best_order(computation, order, {}) is order


def test_an_order_that_saves_little_is_not_taken():
    text = "HloModule m\nENTRY main {\n" + "\n".join(
        [
            f"p = {ARRAY} parameter(0)",
            f"a = {ARRAY} sine(p)",
            f"b = {ARRAY} tanh(a)",
            f"ROOT r = {ARRAY} cosine(b)\n}}\n",
        ]
    )
    computation = parse_module(text).entry
    order = topological_order(computation)
    assert best_order(computation, order, {}) is order


def is_topological(order, before):
    seen = set()
    for node in order:
        if any(need not in seen for need in (*node.operands, *before.get(node, ()))):
            return False
        seen.add(node)
    return True


@pytest.mark.parametrize("seed", range(20))
def test_list_order_is_an_order(seed):
    module = generate(seed)
    for computation in module.computations:
        order = topological_order(computation)
        memory = Liveness(computation, order)
        readers = [n for n in order if n.operands]
        before = {readers[-1]: readers[:1]} if len(readers) > 2 else {}
        listed = list_order(order, before, memory)
        assert sorted(map(id, listed)) == sorted(map(id, order))
        assert is_topological(listed, before)


def test_readers_stay_before_in_place_updates():
    text = """HloModule m
ENTRY main {
  p = f32[1000000] parameter(0)
  i = s32[] parameter(1)
  u = f32[1] parameter(2)
  x = f32[1000000] sine(p)
  d = f32[1000000] dynamic-update-slice(x, u, i)
  s = f32[1000000] cosine(x)
  ROOT r = f32[1000000] add(d, s)
}
"""
    order = [n.name for n in schedule(parse_module(text).entry)]
    assert order.index("s") < order.index("d")


def test_of_several_updates_of_one_array_one_runs_last_and_needs_no_copy():
    lines = [f"d{k} = f32[1000] dynamic-update-slice(x, u, i)" for k in range(40)]
    lines += [f"r{k} = f32[1000] reverse(d{k}), dimensions={{0}}" for k in range(40)]
    shapes, names = ", ".join(["f32[1000]"] * 40), ", ".join(f"r{k}" for k in range(40))
    text = (
        "HloModule m\nENTRY main {\n  p = f32[1000] parameter(0)\n  i = s32[] parameter(1)\n"
        "  u = f32[1] parameter(2)\n  x = f32[1000] sine(p)\n"
        + "\n".join(lines)
        + f"\n  ROOT r = ({shapes}) tuple({names})\n}}\n"
    )
    module = parse_module(text)
    order = [n.name for n in schedule(module.entry)]
    assert all(order.index("d0") > order.index(f"d{k}") for k in range(1, 40))
    Scheduler().run(module)
    CopyInsertion().run(module)
    assert sum(n.opcode is Opcode.COPY for n in module.entry.instructions) == 39


@pytest.mark.parametrize("seed", range(30))
def test_what_is_told_to_precede_never_makes_a_cycle_and_is_refused_for_nothing_else(seed):
    entry = generate(seed).entry
    nodes = entry.instructions
    order = GrowingOrder(entry)
    rng = np.random.default_rng(seed)
    for a, b in rng.integers(0, len(nodes), (200, 2)):
        first, second = nodes[a], nodes[b]
        if first is second:
            continue
        cyclic = runs_after(first, second, order.before)
        assert order.put_before(first, second) is not cyclic


def runs_after(node, other, before):
    """Whether `node` must run after `other`."""
    stack, seen = [node], {node}
    while stack:
        for need in (*(top := stack.pop()).operands, *before.get(top, ())):
            if need not in seen:
                seen.add(need)
                stack.append(need)
    return other in seen


def test_values_and_memory_of_a_scheduled_network():
    text = gradients(6).replace("512,512", "300,300")
    module = parse_module(text)
    arguments = [a * np.float32(0.01) for a in random_arguments(module)]
    arguments = [np.nan_to_num(a, posinf=1, neginf=-1) for a in arguments]
    want = evaluate(module, arguments)
    build_pipeline(CompileOptions(verify=True)).run(module)
    assignment = assign_buffers(module)
    for w, g in zip(want, ArenaInterpreter(module, assignment, arguments).run()):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)
    assert assignment.temp_size <= 10 * 300 * 300 * 4


def test_scheduler_marks_the_module():
    module = parse_module(gradients(3))
    assert Scheduler().run(module) and module.is_scheduled


@pytest.mark.parametrize("size", [100, 1_000_000])
def test_control_predecessors_come_first(size):
    """Depth first, and where the order that needs least memory is looked for."""
    text = f"""HloModule m
ENTRY main {{
  p = f32[{size}] parameter(0)
  a = f32[{size}] sine(p), control-predecessors={{d}}
  b = f32[] constant(0)
  c = f32[{size}] cosine(p)
  d = f32[{size}] tan(c)
  e = f32[{size}] negate(a)
  f = f32[{size}] add(d, e)
  ROOT r = (f32[{size}], f32[{size}], f32[]) tuple(e, f, b)
}}
"""
    module = parse_module(text)
    assert Pipeline("check", [Scheduler()], CompileOptions(verify=True)).run(module)
    order = [n.name for n in module.entry.instructions]
    assert order.index("d") < order.index("a")


def test_what_is_told_comes_before_what_is_preferred():
    """The reader of an array goes before what writes over it, but not where the program wants it
    the other way."""
    text = """HloModule m
ENTRY main {
  p = f32[1000] parameter(0)
  i = s32[] parameter(1)
  u = f32[1] parameter(2)
  x = f32[1000] sine(p)
  y = f32[1000] cosine(p)
  s = f32[1000] reverse(x), dimensions={0}EDGE
  d = f32[1000] dynamic-update-slice(x, u, i)
  w = f32[1000] reverse(y), dimensions={0}
  v = f32[1000] dynamic-update-slice(y, u, i)
  ROOT r = (f32[1000], f32[1000], f32[1000], f32[1000]) tuple(d, s, v, w)
}
"""
    for edge, told in (("", False), (", control-predecessors={d}", True)):
        module = parse_module(text.replace("EDGE", edge))
        Pipeline("check", [Scheduler()], CompileOptions(verify=True)).run(module)
        order = [n.name for n in module.entry.instructions]
        assert (order.index("d") < order.index("s")) == told
        assert order.index("w") < order.index("v")
