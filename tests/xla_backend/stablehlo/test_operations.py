"""Every operation: parsed, printed, converted to HLO, evaluated, compared; and back from HLO."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.xla_backend.stablehlo.op_cases import CASES, Case
from xla_backend import library
from xla_backend.hlo.shape import Shape
from xla_backend.stablehlo import module_to_stablehlo, parse_stablehlo
from xla_backend.stablehlo.from_hlo_context import tensor_type
from xla_backend.stablehlo.parser import parse_module
from xla_backend.stablehlo.printer import module_to_text

# All operations of the dialect. `return` is part of every region; infeed, outfeed, send and recv
# need somebody at the other end and are tested below without running.
STABLEHLO = """
abs add after_all all_gather all_reduce all_to_all and async_done async_start atan2
batch_norm_grad batch_norm_inference batch_norm_training bitcast_convert broadcast
broadcast_in_dim case cbrt ceil cholesky clamp collective_broadcast collective_permute compare
complex composite concatenate constant convert convolution cosine count_leading_zeros create_token
cross-replica-sum custom_call divide dot dot_general dynamic_broadcast_in_dim dynamic_conv
dynamic_gather dynamic_iota dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice einsum
exponential exponential_minus_one fft floor gather get_dimension_size get_tuple_element if imag
infeed iota is_finite log log_plus_one logistic map maximum minimum multiply negate not
optimization_barrier or outfeed pad partition_id popcnt power real real_dynamic_slice recv reduce
reduce_precision reduce_scatter reduce_window remainder replica_id reshape return reverse rng
rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select select_and_scatter
send set_dimension_size shift_left shift_right_arithmetic shift_right_logical sign sine slice sort
sqrt subtract tan tanh torch_index_select transpose triangular_solve tuple unary_einsum
uniform_dequantize uniform_quantize while xor
""".split()
TRANSFERS = {"infeed", "outfeed", "send", "recv"}

ALL = [(f"{name}-{i}", c) for name, group in CASES.items() for i, c in enumerate(group)]
_DOUBLE = """
func.func private @double(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.add %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""


def program(case: Case) -> str:
    """`@main` of the case's inputs that returns the results of its last operation."""
    text, inputs, expected = case
    names = [f"%{letter}" for letter in "abcdefgh"[: len(inputs)]]
    types = [str(tensor_type(Shape.of(x))) for x in inputs]
    if types:
        text = re.sub(r"\bT\b", types[0], text)
    results = [str(tensor_type(Shape.of(x))) for x in expected]
    if "?" in text.rpartition("-> ")[2]:
        results = [text.rpartition("-> ")[2]]  # the sizes are only known after conversion
    named = re.findall(r"^ *%([rs]) = ", text, re.MULTILINE)
    outs = [f"%{named[-1]}"] if named else [f"%out#{i}" for i in range(len(results))]
    if not named:
        text = f"%out:{len(results)} = {text}"
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, types))
    return (
        f"func.func @main({parameters}) -> ({', '.join(results)}) {{\n{text}\n"
        f"return {', '.join(outs)} : {', '.join(results)}\n}}{_DOUBLE}"
    )


def assert_close(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(got) == len(expected)
    for g, e in zip(got, expected):
        assert (g.shape, g.dtype) == (e.shape, e.dtype)
        if g.dtype.kind in "fc":
            np.testing.assert_allclose(g, e, rtol=2e-6, atol=2e-6)
        else:
            np.testing.assert_array_equal(g, e)


def test_every_operation_has_a_case() -> None:
    assert len(STABLEHLO) == 117
    missing = set(STABLEHLO) - set(CASES) - TRANSFERS - {"return"}
    assert not missing


@pytest.mark.parametrize(("name", "case"), ALL, ids=[name for name, _ in ALL])
def test_value(name: str, case: Case) -> None:
    text = program(case)
    printed = module_to_text(parse_module(text))
    assert module_to_text(parse_module(printed)) == printed
    _, inputs, expected = case
    module = parse_stablehlo(text)
    assert_close(library.evaluate(module, inputs, seed=0), expected)
    back = module_to_stablehlo(module)
    again = parse_stablehlo(back)
    assert module_to_stablehlo(again) == back
    assert_close(library.evaluate(again, inputs, seed=0), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case"), ALL, ids=[name for name, _ in ALL])
def test_compiled_value(name: str, case: Case) -> None:
    _, inputs, expected = case
    executable = library.compile(parse_stablehlo(program(case)))
    assert_close(executable.execute(inputs), expected)
