"""Passes whose modules are loaded when they are to run: what stands for them says what they say."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.passes import later
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.later import LaterClass
from xla_backend.passes.registry import builtin_passes

STAND_INS: dict[str, LaterClass] = {
    name: value for name, value in vars(later).items() if isinstance(value, LaterClass)
}
# What those that are not made by name alone are given.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "CustomCallInliner": (lambda name: False,),
    "DotOperandWidening": (lambda node: False,),
    "GemmEpilogueFusion": (lambda node: False,),
    "SortKeyRewriter": ((),),
    "UnstableReductionDetector": (True,),
}


@pytest.mark.parametrize("name", STAND_INS)
def test_each_stands_for_the_class_of_its_name(name: str) -> None:
    stand_in = STAND_INS[name]
    made = stand_in.make(*ARGUMENTS.get(name, ()))
    assert type(made) is builtin_passes()[stand_in.name] and type(made).__name__ == name
    assert (made.opcodes, made.module_opcodes) == (stand_in.opcodes, stand_in.module_opcodes)


def test_one_that_says_something_else_is_an_error() -> None:
    wrong = later._later("defuser.Defuser", "defuser", "fusion call")
    with pytest.raises(AssertionError, match=r"passes\.defuser\.Defuser is not as .*later says"):
        wrong.make()


def test_those_that_do_the_same_are_run_once_where_nothing_changed() -> None:
    module = parse_module("ENTRY main { a = f32[2] parameter(0) ROOT t = (f32[2]) tuple(a) }")
    pipeline = Pipeline("p", [later.TupleSimplifier(), later.TupleSimplifier()])
    pipeline.run(module)
    assert [run.name for run in pipeline.log] == ["tuple-simplifier"]


def test_it_runs_on_the_fuel_of_its_name() -> None:
    text = """ENTRY m {
      a = f32[2] parameter(0)
      t = (f32[2]) tuple(a)
      ROOT g = f32[2] get-tuple-element(t), index=0
    }"""
    for units, changed in ((0, False), (1, True)):
        options = CompileOptions(fuel=(("tuple-simplifier", units),))
        assert Pipeline("p", [later.TupleSimplifier()], options).run(parse_module(text)) is changed


def test_threads_that_run_one_at_the_same_time() -> None:
    for _ in range(20):
        hlo_pass = later.TupleSimplifier()
        together = threading.Barrier(3)
        ran: list[bool] = []

        def run(hlo_pass: HloPass, together: threading.Barrier, ran: list[bool]) -> None:
            module = parse_module("ENTRY main { ROOT a = f32[2] parameter(0) }")
            together.wait()
            ran.append(hlo_pass.run(module))

        threads = [threading.Thread(target=run, args=(hlo_pass, together, ran)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ran == [False] * 3


def test_a_program_loads_the_passes_that_have_something_to_look_for() -> None:
    code = """
import sys
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.targets.cpu.pipeline import build_pipeline
text = "ENTRY m { a = f32[8] parameter(0) b = f32[8] sine(a) ROOT c = f32[8] add(b, a) }"
build_pipeline(CompileOptions()).run(parse_module(text))
print(*sorted(m for m in sys.modules if m.startswith("xla_backend.passes.")))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in ran.stdout.split()}
    assert {"algebraic_simplifier", "fusion", "scheduler"} <= loaded
    without = {stand_in.module.rpartition(".")[2] for stand_in in STAND_INS.values()}
    # Another pass asks it for what it knows.
    assert loaded & without <= {"call_inliner"}
