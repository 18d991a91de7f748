"""The passes against the evaluator, on the programs of the fuzzer; and buffers that must not
clobber each other."""

import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.tools.arena_interpreter import ArenaInterpreter
from xla_backend.tools.fuzz.comparison import Expectation
from xla_backend.tools.fuzz.data import arguments_for
from xla_backend.tools.fuzz.program import generate


@pytest.mark.parametrize("seed", range(10_000, 10_040))
def test_random_program(seed):
    module = generate(seed)
    arguments = arguments_for(module, seed)
    expectation = Expectation(module.clone(), arguments)
    build_pipeline(CompileOptions(verify=seed % 4 == 0)).run(module)
    assert expectation.difference(evaluate(module, arguments)) is None
    results = ArenaInterpreter(module, assign_buffers(module), arguments).run()
    assert expectation.difference(results) is None
