"""The whole pipeline against the evaluator, on random programs; and buffers that must not
clobber each other."""

import numpy as np
import pytest
from arena_interpreter import ArenaInterpreter
from random_programs import Generator, arguments_for

from xla_backend.compile_options import CompileOptions
from xla_backend.cpu.pipeline import build_pipeline
from xla_backend.hlo.evaluator import evaluate
from xla_backend.passes.buffer_assignment import assign_buffers


def compare(expected, got, rtol=2e-4, atol=2e-5):
    assert len(expected) == len(got)
    for e, g in zip(expected, got):
        assert e.dtype == g.dtype and e.shape == g.shape
        np.testing.assert_allclose(g, e, rtol=rtol, atol=atol)


def check_program(seed: int, steps: int, verify: bool = True) -> None:
    module = Generator(seed).module(steps)
    args = arguments_for(module, seed)
    expected = evaluate(module, args)
    build_pipeline(CompileOptions(verify=verify)).run(module)
    compare(expected, evaluate(module, args))
    assignment = assign_buffers(module)
    compare(expected, ArenaInterpreter(module, assignment, args).run())


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed):
    check_program(seed, steps=6 + seed % 20)
