"""Pipelines: order, nesting, fixed points, disabled passes, audits, dumps; and linear time."""

import time

import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.dump.interface import make_dumper
from xla_backend.dump_options import DumpOptions
from xla_backend.hlo.errors import HloError, VerificationError
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.targets.cpu.pipeline import build_pipeline

TEXT = """HloModule m

ENTRY main {
  p = f32[4] parameter(0)
  ROOT r = f32[4] sine(p)
}
"""


class Appender(HloPass):
    """Wraps the root in another operation, up to `limit` times; lies about it if told to."""

    name = "appender"

    def __init__(self, limit=1, report=None):
        self.limit, self.report = limit, report

    def run_on_computation(self, computation):
        if len(computation) > self.limit + 1:
            return False
        root = computation.root
        computation.set_root(computation.add(Instruction(Opcode.SINE, root.shape, (root,))))
        return True if self.report is None else self.report


def test_fixed_point_repeats_until_nothing_changes():
    module = parse_module(TEXT)
    options = CompileOptions(verify=True)
    inner = Pipeline("inner", [Appender(limit=5)], options, max_iterations=10)
    outer = Pipeline("outer", [inner], options)
    assert outer.run(module)
    assert len(module.entry) == 7
    assert outer.statistics["appender"].runs == 6
    assert outer.statistics["appender"].changes == 5
    assert "appender" in outer.report()
    assert not outer.run(module)


def test_fixed_point_that_does_not_settle_is_an_error_when_checking():
    pipeline = Pipeline("p", [Appender(limit=99)], CompileOptions(verify=True), max_iterations=3)
    with pytest.raises(HloError, match="still changes"):
        pipeline.run(parse_module(TEXT))


def test_disabled_pass_does_not_run():
    options = CompileOptions(disabled_passes=frozenset({"appender"}))
    assert not Pipeline("p", [Appender()], options).run(parse_module(TEXT))


def test_changed_flag_is_audited():
    pipeline = Pipeline("p", [Appender(report=False)], CompileOptions(verify=True))
    with pytest.raises(VerificationError, match="no change"):
        pipeline.run(parse_module(TEXT))


def test_claimed_change_is_audited():
    class Liar(HloPass):
        name = "liar"

        def run(self, module):
            return True

    with pytest.raises(VerificationError, match="its text is the same"):
        Pipeline("p", [Liar()], CompileOptions(verify=True)).run(parse_module(TEXT))


def test_broken_module_names_the_pass():
    class Breaker(HloPass):
        name = "breaker"

        def run(self, module):
            module.entry.root.shape = module.entry.root.shape.with_dimensions((5,))
            return True

    with pytest.raises(VerificationError, match="after pass 'breaker'"):
        Pipeline("p", [Breaker()], CompileOptions(verify=True)).run(parse_module(TEXT))


def test_dump_after_each_changing_pass(tmp_path):
    dumper = make_dumper(DumpOptions(to=str(tmp_path), pass_re=".*"), "m")
    pipeline = Pipeline("my pipeline", [Appender(), Appender(limit=0)], observer=dumper)
    pipeline.run(parse_module(TEXT))
    start, after = sorted(tmp_path.iterdir())
    assert start.name.endswith(".m.0000.my_pipeline.after_pipeline-start.before_appender.txt")
    assert after.name.endswith(".m.0001.my_pipeline.after_appender.before_appender.txt")
    assert after.read_text().startswith("HloModule m")


def long_program(length: int) -> str:
    lines = ["p = f32[4] parameter(0)", "v0 = f32[4] sine(p)", "v1 = f32[4] cosine(p)"]
    opcodes = ("add", "multiply", "maximum", "subtract")
    for i in range(2, length):
        operation = opcodes[i % 4]
        lines.append(f"v{i} = f32[4] {operation}(v{i - 1}, v{i - 2})")
        if i % 50 == 0:
            lines.append(f"w{i} = f32[4] reverse(v{i}), dimensions={{0}}")
    return (
        "HloModule m\n\nENTRY main {\n"
        + "\n".join(lines)
        + f"\nROOT r = f32[4] sine(v{length - 1})\n}}\n"
    )


def test_time_grows_linearly():
    def seconds(length):
        module = parse_module(long_program(length))
        start = time.process_time()
        build_pipeline(CompileOptions()).run(module)
        assign_buffers(module)
        return time.process_time() - start

    seconds(100)
    short, long = min(seconds(400) for _ in range(3)), seconds(4000)
    assert long < 40 * short  # 10 times the size; room for noise, none for a square


EFFECTS = """HloModule m

cond {
  t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(%TRIPS%)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[4] get-tuple-element(t), index=1
  shown = f32[4] custom-call(x), custom_call_target="show", custom_call_has_side_effect=true
  ROOT r = (s32[], f32[4]) tuple(next, x)
}

ENTRY main {
  p = f32[4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4]) tuple(zero, p)
  w = (s32[], f32[4]) while(t), condition=cond, body=body
  g = f32[4] get-tuple-element(w), index=1
  ROOT r = f32[4] sine(g)
}
"""


@pytest.mark.parametrize("trips", [1, 4, 40])
def test_side_effects_in_an_unused_loop_survive(trips):
    module = parse_module(EFFECTS.replace("%TRIPS%", str(trips)))
    build_pipeline(CompileOptions(verify=True)).run(module)
    shown = []
    record = {"show": lambda operands, results, attributes: shown.append(operands[0].copy())}
    evaluate(module, [np.ones(4, np.float32)], custom_calls=record)
    assert len(shown) == trips
