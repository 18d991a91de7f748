"""What Shardy's attributes and operations do to propagation, beside what they did in JAX 0.10.2:
its compiler was given these texts for eight devices of a CPU, and asked how it cuts the results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from spmd_checks import partitioned

from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.parser import parse_module as parse_hlo
from xla_backend.hlo.sharding import Sharding, parse_sharding, sharding_text
from xla_backend.spmd.pipeline import prepare_and_partition
from xla_backend.stablehlo.from_hlo import module_from_hlo
from xla_backend.stablehlo.lowering import ConversionError
from xla_backend.stablehlo.parser import parse_module
from xla_backend.stablehlo.printer import module_to_text
from xla_backend.stablehlo.to_hlo import module_to_hlo

HEAD = """\
module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
"""
TYPE = "tensor<8x16xf32>"
ADD = f"%r = stablehlo.add %arg0, %arg1 : {TYPE}"
CUT, OPEN = '@mesh, [{"x"}, {"y"}]', "@mesh, [{?}, {?}]"


class Program(NamedTuple):
    """Shardings of two arguments (None: nothing is said) and operations that make %r; how the
    result is cut, and the arguments."""

    first: str
    second: str | None
    body: str
    result: str
    arguments: tuple[str, str]
    why_not_as_jax: str = ""
    said_of_result: str = ""


def barrier(direction: str) -> str:
    return (
        f"%0 = stablehlo.add %arg0, %arg1 : {TYPE}\n"
        f"%1 = sdy.propagation_barrier %0 allowed_direction={direction} : {TYPE}\n"
        f"%r = stablehlo.negate %1 : {TYPE}"
    )


def backwards(direction: str) -> str:
    return (
        f"%0 = stablehlo.add %arg0, %arg1 : {TYPE}\n"
        f"%1 = sdy.propagation_barrier %0 allowed_direction={direction} : {TYPE}\n"
        f"%r = sdy.sharding_constraint %1 <{CUT}> : {TYPE}"
    )


def group(first: str, second: str) -> str:
    return (
        f"%0 = stablehlo.negate %arg0 : {TYPE}\n%r = stablehlo.sine %arg1 : {TYPE}\n"
        f"sdy.sharding_group {first} group_id=0 : {TYPE}\n"
        f"sdy.sharding_group {second} group_id=0 : {TYPE}"
    )


INLINE = 'mesh<["a"=2, "b"=4]>, [{"a"}, {"b"}]'
TURNED = 'mesh<["a"=2, "b"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>'
PROGRAMS = {
    # -- priorities --------------------------------------------------------------------------------
    "without priorities the first wins": Program(
        '@mesh, [{"x"}, {?}]', '@mesh, [{?}, {"x"}]', ADD, "x, -", ("x, -", "-, x")
    ),
    "the second goes first": Program(
        '@mesh, [{"x"}p1, {?}]', '@mesh, [{?}, {"x"}p0]', ADD, "-, x", ("x, -", "-, x")
    ),
    "the first goes first": Program(
        '@mesh, [{"x"}p0, {?}]', '@mesh, [{?}, {"x"}p1]', ADD, "x, -", ("x, -", "-, x")
    ),
    "one dimension, the second first": Program(
        '@mesh, [{"x"}p1, {}]', '@mesh, [{"y"}p0, {}]', ADD, "y, -", ("x, -", "y, -")
    ),
    "one dimension, the first first": Program(
        '@mesh, [{"x"}p0, {}]', '@mesh, [{"y"}p1, {}]', ADD, "x, -", ("x, -", "y, -")
    ),
    "each dimension has its own": Program(
        '@mesh, [{"x"}p2, {"y"}p0]', '@mesh, [{"y"}p1, {"x"}p3]', ADD, "x, y", ("x, y", "y, x"),
        "JAX leaves a dimension whole that two want along other axes",
    ),
    "of a constraint": Program(
        '@mesh, [{"x"}, {}]', '@mesh, [{"y"}, {}]',
        f'%0 = sdy.sharding_constraint %arg0 <@mesh, [{{"x", ?}}p1, {{?}}]> : {TYPE}\n'
        f"%r = stablehlo.add %0, %arg1 : {TYPE}",
        "y, -", ("x, -", "y, -"),
    ),
    # -- open and closed, whole along axes ---------------------------------------------------------
    "open behind an axis": Program(
        '@mesh, [{"x", ?}, {}]', '@mesh, [{"x", "y"}, {}]', ADD, "x y, -", ("x y, -", "x y, -")
    ),
    "closed behind an axis": Program(
        '@mesh, [{"x"}, {}]', '@mesh, [{"x", "y"}, {}]', ADD, "x, -", ("x, -", "x y, -"),
        said_of_result='@mesh, [{"x"}, {?}]',
    ),
    "whole along an axis": Program(
        '@mesh, [{?}, {?}], replicated={"x"}', CUT, ADD, "x, y", ("-, y", "x, y")
    ),
    "whole along an axis in between": Program(
        CUT, CUT,
        f"%0 = stablehlo.add %arg0, %arg1 : {TYPE}\n"
        f'%1 = sdy.sharding_constraint %0 <@mesh, [{{?}}, {{?}}], replicated={{"x"}}> : {TYPE}\n'
        f"%r = stablehlo.negate %1 : {TYPE}",
        "-, y", ("x, y", "x, y"),
    ),
    # -- barriers ----------------------------------------------------------------------------------
    "backward only, seen from behind": Program(
        CUT, CUT, barrier("BACKWARD"), "-, -", ("x, y", "x, y")
    ),
    "forward only": Program(CUT, CUT, barrier("FORWARD"), "x, y", ("x, y", "x, y")),
    "neither way": Program(CUT, CUT, barrier("NONE"), "-, -", ("x, y", "x, y")),
    "forward only, seen from in front": Program(
        OPEN, OPEN, backwards("FORWARD"), "x, y", ("-, -", "-, -")
    ),
    "backward only": Program(OPEN, OPEN, backwards("BACKWARD"), "x, y", ("x, y", "x, y")),
    # -- groups ------------------------------------------------------------------------------------
    "a group of results": Program(CUT, OPEN, group("%0", "%r"), "x, y", ("x, y", "x, y")),
    "a group of arguments": Program(CUT, OPEN, group("%arg0", "%arg1"), "x, y", ("x, y", "x, y")),
    # -- meshes ------------------------------------------------------------------------------------
    "a mesh where it is used": Program(INLINE, OPEN, ADD, "a, b", ("a, b", "a, b")),
    "a mesh of devices in another order": Program(
        f'{TURNED}, [{{"a"}}, {{"b"}}]', f"{TURNED}, [{{?}}, {{?}}]", ADD, "a, b", ("a, b", "a, b")
    ),
    "on one device": Program(
        CUT, OPEN,
        "%r = stablehlo.negate %arg0 {sdy.sharding = "
        f"#sdy.sharding_per_value<[<mesh<[], device_ids=[3]>, []>]>}} : {TYPE}",
        "x, y", ("x, y", "-, -"),
    ),
    # -- parts of axes -----------------------------------------------------------------------------
    "two parts of one axis": Program(
        '@mesh, [{"y":(1)2}, {?}]', '@mesh, [{?}, {"y":(2)2}]', ADD, "-, -",
        ("y:(1)2, -", "-, y:(2)2"),
    ),
    "a part of an axis, and all of it": Program(
        '@mesh, [{"y":(1)2}, {}]', '@mesh, [{"y"}, {?}]', ADD, "y, -", ("y:(1)2, -", "y, -")
    ),
}  # fmt: skip


def text_of(program: Program) -> str:
    arguments = ", ".join(
        f"%arg{k}: {TYPE} {{sdy.sharding = #sdy.sharding<{said}>}}" if said else f"%arg{k}: {TYPE}"
        for k, said in enumerate((program.first, program.second))
    )
    said = program.said_of_result
    result = f"{TYPE} {{sdy.sharding = #sdy.sharding<{said}>}}" if said else TYPE
    return (
        f"{HEAD}  func.func public @main({arguments}) -> ({result}) {{\n{program.body}\n"
        f"return %r : {TYPE}\n}}\n}}\n"
    )


def spec_of(sharding: Sharding) -> str:
    dims = sharding.dimensions or ((), ())
    return ", ".join(" ".join(str(a).replace("'", "") for a in axes) or "-" for axes in dims)


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_are_cut_as_jax_cuts_them(name: str) -> None:
    program = PROGRAMS[name]
    partition = prepare_and_partition(module_to_hlo(parse_module(text_of(program))))
    assert partition is not None
    assert spec_of(partition.results[0]) == program.result
    assert tuple(map(spec_of, partition.parameters)) == program.arguments


@pytest.mark.parametrize("name", PROGRAMS)
def test_hlo_says_the_same(name: str) -> None:
    module = module_to_hlo(parse_module(text_of(PROGRAMS[name])))
    text = module_to_text(module_from_hlo(module))
    assert "custom_call" not in text
    again = prepare_and_partition(module_to_hlo(parse_module(text)))
    assert again == prepare_and_partition(module)


def test_a_barrier_that_is_none() -> None:
    text = text_of(PROGRAMS["forward only"]._replace(body=barrier("BOTH")))
    with pytest.raises(ConversionError, match=r"BOTH directions.*leave it out"):
        module_to_hlo(parse_module(text))


def test_priorities_in_hlo() -> None:
    text = "{mesh['a'=2,'b'=4], [{'a', ?}p1, {'b'}, {?}p2]}"
    sharding = parse_sharding(text)
    assert sharding.priorities == (1, 0, 2)
    assert sharding_text(sharding) == text
    assert not parse_sharding("{mesh['a'=2], [{'a'}p0]}").priorities


# As JAX's compiler dumps it, before optimisation.
HLO = """HloModule jit_f, num_partitions=8,
  frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}
ENTRY main {
  x = f32[8,16] parameter(0), sharding={devices=[2,4]<=[8]},
    frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}, {\\"y\\"}]>"}
  n = f32[8,16] negate(x)
  b = f32[8,16] custom-call(n), custom_call_target="xla.sdy.PropagationBarrier",
    custom_call_has_side_effect=true, frontend_attributes={xla.sdy.allowed_direction="2 : i32"}
  s = f32[8,16] sine(b)
  c = f32[8,16] cosine(b)
  g = () custom-call(n), custom_call_target="xla.sdy.ShardingGroup",
    custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding_group_id="0 : i64"}
  h = () custom-call(s), custom_call_target="xla.sdy.ShardingGroup",
    custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding_group_id="0 : i64"}
  ROOT t = (f32[8,16], f32[8,16]) tuple(s, c)
}
"""


def test_hlo_of_jax() -> None:
    """The group goes past the barrier, for one of two; the other is cut as its sibling."""
    module = parse_hlo(HLO)
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    done = partitioned(module)
    cut = [[x[4 * a : 4 * a + 4, 4 * b : 4 * b + 4]] for a in range(2) for b in range(4)]
    for (part,), (sine, _) in zip(cut, evaluate_partitioned(done, cut)):
        np.testing.assert_allclose(sine, np.sin(-part), rtol=1e-6)
