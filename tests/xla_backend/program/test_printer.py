"""Programs as text."""

import re

import pytest
from sample_programs import BODIES, sample

from xla_backend.hlo.parser import parse_module
from xla_backend.program.printer import program_to_text
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.routines.contract_table import ROUTINES

LINES = {
    "kernel": ["program m(arg0: f32[4,6]) -> (out0: f32[4,6]):", "launch "],
    "loop": ["copy temp[", "while temp[", "condition:", "launch ", "body:", "launch tanh_fusion"],
    "branch": ["if arg1 pred[]:", "branch 0:", "branch 1:"],
    "switch": ["if arg1 s32[]:", "branch 2:"],
    "product": ["library gemm_f32(M=4, N=5, K=6, A=arg0 f32[4,6], rsA=6, csA=1, B=arg1 f32[6,5]"],
    "product-epilogue": ["C=out0 f32[4,17]", "tanh_fusion(", "arg2 f32[17]", "weight="],
    "sort-by-difference": ["library merge_argsort(less=", "work=scratch["],
    "host": ["host cholesky(arg0 f16[2,4,4]) -> (out0 f16[2,4,4]) CholeskyAttributes("],
    "random": ["state0: u64[1]", "library rng_state(state=state0 u64[1], out=", "delta=7"],
    "constant": ["const0: s32[3]", "copy out0 s32[3] <- const0"],
}


@pytest.mark.parametrize("name", LINES)
def test_lines(name):
    executable, _ = sample(name)
    text = program_to_text(executable.program, ROUTINES)
    at = 0
    for line in LINES[name]:
        found = text.find(line, at)
        assert found >= 0, f"{line!r} is not in, or not in this order:\n{text}"
        at = found


def test_numbers_of_a_participant_are_copies_from_the_context():
    module = parse_module("""HloModule m, replica_count=2

    ENTRY e {
      r = u32[] replica-id()
      p = u32[] partition-id()
      ROOT t = (u32[], u32[]) tuple(r, p)
    }""")
    text = program_to_text(compile_module(module).program, ROUTINES)
    assert "copy out0 u32[] <- context[0:4]" in text
    assert "copy out1 u32[] <- context[4:8]" in text


@pytest.mark.parametrize("name", BODIES)
def test_each_step_names_its_instruction(name):
    executable, _ = sample(name)
    text = program_to_text(executable.program, ROUTINES)
    names = {node.name for c in executable.module.computations for node in c}
    notes = re.findall(r"# %([\w.-]+)", text)
    assert notes and set(notes) <= names


def test_operands_of_unknown_routines_have_no_names():
    executable, _ = sample("product")
    assert "library gemm_f32(4, 5, 6, arg0 f32[4,6], 6, 1, " in program_to_text(
        executable.program, {}
    )
