"""Stack frames in the texts of lowered and compiled programs."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

import pyjax
import pyjax.numpy as jnp
from pyjax import export
from xla_backend.hlo.module import source_places
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.stablehlo import parse_stablehlo


def inner(x: Any) -> Any:
    return jnp.sin(x) * 2


class Model:
    def helper(self, x: Any) -> Any:
        y = inner(x)
        return y + inner(x + 1)


def f(x: Any) -> Any:
    return Model().helper(x).sum()


@pyjax.jit
def stored(x: Any) -> Any:
    return jnp.tanh(jnp.sin(x) * 2)


def calls(x: Any) -> Any:
    y = stored(x)
    return y + stored(x + 1)


def line(fun: Any, offset: int) -> int:
    return fun.__code__.co_firstlineno + offset


@pytest.fixture
def options() -> Iterator[Any]:
    """Sets an option until the test ends."""
    before: dict[str, Any] = {}

    def update(name: str, value: Any) -> None:
        before.setdefault(name, getattr(pyjax.config, name))
        pyjax.config.update(name, value)

    yield update
    for name, value in before.items():
        pyjax.config.update(name, value)


def check(text: str, checks: str) -> None:
    """Match a text with CHECK lines, in which `LINE(f+2)` is the number of a line of this file."""
    lines = re.sub(
        r"LINE\(([\w.]+)\+(\d+)\)",
        lambda found: str(line(eval(found[1]), int(found[2]))),
        checks,
    )
    found = Options(match_filename="checks")
    parser = Parser(found, io.StringIO(lines), *pattern_for_opts(found))
    matcher = Matcher(found, FInput("text", text), parser)
    matcher.stderr = io.StringIO()
    assert matcher.run() == 0, f"{matcher.stderr.getvalue()}\n{text}"


def test_hlo(options: Any) -> None:
    options("jax_traceback_in_locations_limit", 4)  # not those who run the test
    lowered = pyjax.jit(f).lower(jnp.ones(4))
    checks = """
    // CHECK:      FileNames
    // CHECK-NEXT: 1 "{{.*}}test_locations_of_programs.py"
    // CHECK:      FunctionNames
    // CHECK:      [[HLO:[0-9]+]] "test_hlo"
    // CHECK:      [[F:[0-9]+]] "f"
    // CHECK:      [[HELPER:[0-9]+]] "Model.helper"
    // CHECK:      [[INNER:[0-9]+]] "inner"
    // CHECK:      FileLocations
    // CHECK:      [[LF:[0-9]+]] {file_name_id=1 function_name_id=[[F]] line=LINE(f+1) end_line=LINE(f+1) column=11 end_column=28}
    // CHECK:      [[LHELPER:[0-9]+]] {file_name_id=1 function_name_id=[[HELPER]] line=LINE(Model.helper+1) {{.*}} column=12 end_column=20}
    // CHECK:      [[LSIN:[0-9]+]] {file_name_id=1 function_name_id=[[INNER]] line=LINE(inner+1) {{.*}} column=11 end_column=21}
    // CHECK:      [[LMUL:[0-9]+]] {file_name_id=1 function_name_id=[[INNER]] line=LINE(inner+1) {{.*}} column=11 end_column=25}
    // CHECK:      StackFrames
    // CHECK:      [[SIN:[0-9]+]] {file_location_id=[[LSIN]] parent_frame_id=[[PARENT:[0-9]+]]}
    // CHECK:      [[MUL:[0-9]+]] {file_location_id=[[LMUL]] parent_frame_id=[[PARENT]]}
    // CHECK:      [[SIN2:[0-9]+]] {file_location_id=[[LSIN]] parent_frame_id=
    """  # noqa: E501
    before, after = lowered.as_text("hlo", debug_info=True), lowered.compile().as_text()
    check(
        before,
        f"""{checks}
    // CHECK:      sine({{{{.*}}}}), metadata={{op_type="sin" op_name="jit(f)/sin" stack_frame_id=[[SIN]]}}
    // CHECK:      multiply({{{{.*}}}}), metadata={{op_type="mul" op_name="jit(f)/mul" stack_frame_id=[[MUL]]}}
    // CHECK:      sine({{{{.*}}}}), metadata={{op_type="sin" op_name="jit(f)/sin" stack_frame_id=[[SIN2]]}}
    """,  # noqa: E501
    )
    check(
        after,
        f"""{checks}
    // CHECK:      fused
    // CHECK:      sine({{{{.*}}}}), metadata={{op_type="sin" op_name="jit(f)/sin" stack_frame_id=[[SIN]]}}
    // CHECK:      ROOT {{{{.*}}}} fusion({{{{.*}}}}metadata={{op_type="reduce_sum" {{{{.*}}}} stack_frame_id=
    """,  # noqa: E501
    )
    for text in (before, after):
        again = parse_module(text)
        assert module_to_text(parse_module(module_to_text(again))) == module_to_text(again)


def test_stablehlo() -> None:
    text = pyjax.jit(f).lower(jnp.ones(4)).as_text(debug_info=True)
    check(
        text,
        """
    // CHECK:      stablehlo.sine %arg0 : tensor<4xf32> loc([[SIN:#loc[0-9]+]])
    // CHECK:      } loc(#loc)
    // CHECK:      } loc(#loc)
    // CHECK:      #loc = loc(unknown)
    // CHECK-DAG:  [[FSIN:#loc[0-9]+]] = loc("{{.*}}.py":LINE(inner+1):11 to :21)
    // CHECK-DAG:  [[FHELPER:#loc[0-9]+]] = loc("{{.*}}.py":LINE(Model.helper+1):12 to :20)
    // CHECK-DAG:  [[FF:#loc[0-9]+]] = loc("{{.*}}.py":LINE(f+1):11 to :28)
    // CHECK:      [[NSIN:#loc[0-9]+]] = loc("inner"([[FSIN]]))
    // CHECK:      [[NHELPER:#loc[0-9]+]] = loc("Model.helper"([[FHELPER]]))
    // CHECK:      [[NF:#loc[0-9]+]] = loc("f"([[FF]]))
    // CHECK:      [[CF:#loc[0-9]+]] = loc(callsite([[NF]] at {{#loc[0-9]+}}))
    // CHECK:      [[CHELPER:#loc[0-9]+]] = loc(callsite([[NHELPER]] at [[CF]]))
    // CHECK:      [[CSIN:#loc[0-9]+]] = loc(callsite([[NSIN]] at [[CHELPER]]))
    // CHECK:      [[SIN]] = loc("jit(f)/sin"([[CSIN]]))
    """,
    )
    module = parse_stablehlo(text)
    assert module.entry is not None
    sine = next(node for node in module.entry if node.opcode.value == "sine")
    found = [(place.function, place.line) for place in source_places(sine)]
    assert found[:3] == [
        ("inner", line(inner, 1)),
        ("Model.helper", line(Model.helper, 1)),
        ("f", line(f, 1)),
    ]
    assert found[3][0] == "test_stablehlo" and len(found) == 10


def sines(compiled_or_text: Any) -> list[list[tuple[str, int]]]:
    module = parse_module(compiled_or_text)
    return [
        [(place.function, place.line) for place in source_places(node)]
        for computation in module.computations
        for node in computation
        if node.opcode.value == "sine"
    ]


def test_a_function_that_is_called_twice_has_its_callers_where_it_is_inlined() -> None:
    lowered = pyjax.jit(calls).lower(jnp.ones(4))
    own = ("stored", stored.__wrapped__.__code__.co_firstlineno + 2)
    assert sines(lowered.as_text("hlo", debug_info=True)) == [[own]]
    found = sines(lowered.compile().as_text())
    assert sorted(chain[:2] for chain in found) == [
        [own, ("calls", line(calls, 1))],
        [own, ("calls", line(calls, 2))],
    ]


def test_functions_of_the_library_stand_where_they_are_called() -> None:
    """They are traced once, for the line that called them first."""

    def first(x: Any) -> Any:
        return jnp.linspace(0.0, 1.0, 7) + x

    def second(x: Any) -> Any:
        return jnp.linspace(0.0, 1.0, 7) * x

    for fun in (first, second):
        text = pyjax.jit(fun).lower(1.0).compile().as_text()
        module = parse_module(text)
        places = [source_places(n) for c in module.computations for n in c if n.metadata.op_name]
        assert {chain[0].line for chain in places if chain} == {line(fun, 1)}


def test_bodies_of_loops_name_the_loop_as_their_caller() -> None:
    def body(i: Any, x: Any) -> Any:
        return jnp.sin(x) + i

    def looped(x: Any) -> Any:
        return pyjax.lax.fori_loop(0, 3, body, x)

    found = sines(pyjax.jit(looped).lower(1.0).as_text("hlo", debug_info=True))
    assert [chain[:2] for chain in found] == [
        [("test_bodies_of_loops_name_the_loop_as_their_caller.<locals>.body", line(body, 1)),
         ("test_bodies_of_loops_name_the_loop_as_their_caller.<locals>.looped", line(looped, 1))]
    ]  # fmt: skip


def deep(x: Any, n: int) -> Any:
    return jnp.sin(x) if n == 0 else deep(x, n - 1)


@pytest.mark.parametrize("limit, frames", [(10, 10), (3, 3), (1, 1), (0, 0)])
def test_the_limit(limit: int, frames: int, options: Any) -> None:
    options("jax_traceback_in_locations_limit", limit)
    lowered = pyjax.jit(lambda x: deep(x, 40)).lower(1.0)
    assert [len(chain) for chain in sines(lowered.as_text("hlo", debug_info=True))] == [frames]


def test_no_limit(options: Any) -> None:
    options("jax_traceback_in_locations_limit", -1)
    lowered = pyjax.jit(lambda x: deep(x, 400)).lower(1.0)
    (chain,) = sines(lowered.as_text("hlo", debug_info=True))
    assert len([place for place in chain if place[0] == "deep"]) == 401
    assert parse_stablehlo(lowered.as_text(debug_info=True)).source_tables.problem() is None


def test_one_place_without_tracebacks(options: Any) -> None:
    options("jax_include_full_tracebacks_in_locations", False)
    lowered = pyjax.jit(calls).lower(jnp.ones(4))
    for text in (lowered.as_text("hlo", debug_info=True), lowered.compile().as_text()):
        assert "StackFrames" not in text and f"source_line={line(calls, 2)} source_column=" in text
        assert all(len(chain) == 1 for chain in sines(text))
    assert "callsite" not in lowered.as_text(debug_info=True)


def test_an_exported_program_brings_its_frames() -> None:
    exported = export.export(pyjax.jit(f))(jnp.ones(4))

    def user(x: Any) -> Any:
        return exported.call(x) + 1

    found = sines(pyjax.jit(user).lower(jnp.ones(4)).compile().as_text())
    for chain in found:
        names = [name for name, _ in chain]
        assert names[:3] == ["inner", "Model.helper", "f"]
        assert "test_an_exported_program_brings_its_frames.<locals>.user" in names


def test_dumps_have_frames_if_they_have_debug_information(tmp_path: Path, options: Any) -> None:
    options("jax_dump_ir_to", str(tmp_path))
    for number, wanted in enumerate(("False", "True")):
        options("jax_include_debug_info_in_dumps", wanted)
        pyjax.jit(lambda x, n=number: f(x) + n)(jnp.ones(4))
        (path,) = tmp_path.glob("*lambda*.hlo.txt")
        assert ("StackFrames" in path.read_text()) == bool(number)
        path.unlink()


def test_paths_are_canonical_in_tables(options: Any) -> None:
    options("jax_hlo_source_file_canonicalization_regex", ".*/tests/")
    lowered = pyjax.jit(f).lower(jnp.ones(4))
    assert '"pyjax/test_locations_of_programs.py"' in lowered.as_text("hlo", debug_info=True)
    assert 'loc("pyjax/test_locations_of_programs.py":' in lowered.as_text(debug_info=True)


def quotient(x: Any) -> Any:
    return jnp.log(x)


def normalized(x: Any) -> Any:
    first = quotient(x + 2)
    return first + quotient(x - 2)


def fault(fun: Any) -> list[str]:
    with pyjax.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        fun(jnp.ones(3))
    return str(caught.value).splitlines()


def test_faults_name_who_called_the_line(options: Any) -> None:
    lines = fault(pyjax.jit(normalized))
    file = "test_locations_of_programs.py"
    at = lines.index(f"  {file}:{line(quotient, 1)} in quotient:   return jnp.log(x)")
    called = f"{line(normalized, 2)} in normalized:   return first + quotient(x - 2)"
    assert lines[at + 2] == f"  called at {file}:{called}"
    assert sum("called at" in text for text in lines) == 1
    options("jax_traceback_in_locations_limit", 1)
    assert not any("called at" in text for text in fault(pyjax.jit(normalized)))


def test_faults_name_callers_through_jitted_functions() -> None:
    inner = pyjax.jit(normalized)

    def step(x: Any) -> Any:
        return inner(x) * 2

    lines = [text for text in fault(pyjax.jit(step)) if "called at" in text]
    assert [text.split(" in ")[1].split(":")[0] for text in lines] == ["normalized", "step"]


def test_faults_name_at_most_the_limit() -> None:
    lines = fault(pyjax.jit(lambda x: deep_log(x, 40)))
    assert sum("called at" in text for text in lines) == 9


def deep_log(x: Any, n: int) -> Any:
    return jnp.log(x - 2) if n == 0 else deep_log(x, n - 1)
