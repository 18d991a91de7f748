"""Opcodes without code of their own, in terms of others."""

import numpy as np
import pytest
from pass_checks import check_pass

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.complex_inverse_expander import ComplexInverseExpander
from xla_backend.passes.scan_expander import ScanExpander
from xla_backend.passes.sharding_remover import ShardingRemover
from xla_backend.passes.stochastic_convert_decomposer import StochasticConvertDecomposer
from xla_backend.passes.tuple_constant_expander import TupleConstantExpander
from xla_backend.targets.cpu.compiler import compile_module

# -- tuple constants -------------------------------------------------------------------------------


def test_tuple_constants_become_tuples():
    check_pass(
        TupleConstantExpander(),
        """HloModule m

        ENTRY main {
          // CHECK-DAG: [[A:%[^ ]+]] = s32[2] constant({1, 2})
          // CHECK-DAG: [[B:%[^ ]+]] = f32[] constant(3.5)
          // CHECK-DAG: [[C:%[^ ]+]] = pred[] constant(true)
          // CHECK: [[I:%[^ ]+]] = (f32[], pred[]) tuple([[B]], [[C]])
          // CHECK-NEXT: ROOT {{.*}} = (s32[2], (f32[], pred[])) tuple([[A]], [[I]])
          ROOT c = (s32[2], (f32[], pred[])) constant(( {1, 2}, ( 3.5, true ) ))
        }
        """,
    )


def test_constant_arrays_stay():
    check_pass(
        TupleConstantExpander(), "ENTRY e { ROOT c = f32[] constant(1) }", expect_change=False
    )


@pytest.mark.parametrize("level", [0, 2])
def test_tuple_constants_run(level):
    module = parse_module(
        """HloModule m
        second { p = (s32[], f32[]) parameter(0)
          ROOT x = f32[] get-tuple-element(p), index=1 }
        ENTRY e { c = (s32[], f32[]) constant(( 1, 3.5 ))
          k = (s32[], f32[]) constant(( 2, 0.5 ))
          x = f32[] call(c), to_apply=second
          ROOT r = (f32[], (s32[], f32[])) tuple(x, k) }
        """
    )
    want = [3.5, 2, 0.5]
    assert evaluate(module, []) == want
    assert compile_module(module, CompileOptions(level, verify=True)).run_arrays([]) == want


# -- complex inverse functions ---------------------------------------------------------------------

INVERSES = {
    "asin": np.arcsin, "acos": np.arccos, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh,
}  # fmt: skip


def expanded(opcode, dims):
    module = parse_module(
        f"HloModule m\nENTRY e {{ x = c128[{dims}] parameter(0)\n"
        f"ROOT r = c128[{dims}] {opcode}(x) }}"
    )
    assert ComplexInverseExpander().run(module)
    assert Opcode(opcode) not in {
        node.opcode for node in module.entry if node.shape.element_type.is_complex
    }
    return module


@pytest.mark.parametrize("opcode", INVERSES)
def test_complex_inverse_functions(opcode):
    rng = np.random.default_rng(0)
    z = rng.uniform(-4, 4, 200) + 1j * rng.uniform(-4, 4, 200)
    z = np.concatenate([z, z.real * 1e-9 + 1j * z.imag * 1e-5])
    (got,) = evaluate(expanded(opcode, len(z)), [z])
    np.testing.assert_allclose(got, INVERSES[opcode](z), rtol=2e-13, atol=1e-13)


@pytest.mark.parametrize("opcode", INVERSES)
def test_sides_of_branch_cuts(opcode):
    """The sign of a zero part tells from which side a cut is approached."""
    z = np.array(
        [complex(x, y) for x in (-3.0, -0.5, 0.5, 3.0) for y in (0.0, -0.0)]
        + [complex(x, y) for y in (-3.0, -0.5, 0.5, 3.0) for x in (0.0, -0.0)]
    )
    (got,) = evaluate(expanded(opcode, len(z)), [z])
    np.testing.assert_allclose(got, INVERSES[opcode](z), rtol=1e-14, atol=1e-14)


def test_real_inverse_functions_stay():
    check_pass(
        ComplexInverseExpander(),
        "HloModule m\nENTRY e { x = f32[9] parameter(0)\n ROOT r = f32[9] asin(x) }",
        expect_change=False,
    )


# -- stochastic-convert ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "random", "target"),
    [("f32", "u32", "s8"), ("bf16", "u16", "s32"), ("f16", "u16", "s4"), ("f64", "u64", "s64")],
)
def test_stochastic_convert(source, random, target):
    module = check_pass(
        StochasticConvertDecomposer(),
        f"""HloModule m

        ENTRY main {{
          x = {source}[4,60] parameter(0)
          u = {random}[4,60] parameter(1)
          ROOT r = {target}[4,60] stochastic-convert(x, u)
        }}
        """,
    )
    assert Opcode.STOCHASTIC_CONVERT not in {node.opcode for node in module.entry}


def test_stochastic_convert_is_unbiased():
    module = parse_module(
        """HloModule m

        ENTRY main {
          x = f32[40000] parameter(0)
          u = u32[40000] parameter(1)
          ROOT r = s32[40000] stochastic-convert(x, u)
        }
        """
    )
    assert StochasticConvertDecomposer().run(module)
    rng = np.random.default_rng(0)
    x = np.full(40000, -2.25, np.float32)
    (r,) = evaluate(module, [x, rng.integers(0, 2**32, 40000, np.uint32)])
    assert set(r.tolist()) == {-3, -2}
    assert abs(r.mean() + 2.25) < 0.01


# -- scan ------------------------------------------------------------------------------------------

SCAN = """HloModule m

step {
  x = TYPE[3] parameter(0)
  c = TYPE[3] parameter(1)
  s = TYPE[3] OPCODE(x, c)
  ROOT t = (TYPE[3], TYPE[3]) tuple(s, s)
}

ENTRY main {
  x = TYPE[3,21] parameter(0)
  i = TYPE[3] parameter(1)
  ROOT r = (TYPE[3,21], TYPE[3]) scan(x, i), dimensions={1}, ATTRIBUTES, to_apply=step
}
"""


def scan_text(type, opcode, attributes="num_carries=1"):
    text = SCAN.replace("TYPE", type).replace("OPCODE", opcode)
    return text.replace("ATTRIBUTES", attributes)


@pytest.mark.parametrize("reverse", ["", ", is_reverse=true"])
@pytest.mark.parametrize(
    ("type", "opcode", "attributes", "loop"),
    [
        ("s32", "add", "num_carries=1", False),
        ("f32", "maximum", "num_carries=1", False),
        ("f32", "add", "num_carries=1, is_associative=true", False),
        ("f32", "add", "num_carries=1", True),
        ("f32", "subtract", "num_carries=1", True),
    ],
)
def test_scan(type, opcode, attributes, loop, reverse):
    module = check_pass(
        ScanExpander(), scan_text(type, opcode, attributes + reverse), exact=loop or type != "f32"
    )
    opcodes = {node.opcode for node in module.entry}
    assert (Opcode.WHILE in opcodes) == loop
    assert (Opcode.REDUCE_WINDOW in opcodes) != loop


def test_scan_of_several_arrays():
    """Two inputs, one of them without an output, and two carries."""
    check_pass(
        ScanExpander(),
        """HloModule m

        step {
          x = f32[2] parameter(0)
          n = s32[2] parameter(1)
          c = f32[2] parameter(2)
          k = s32[] parameter(3)
          one = s32[] constant(1)
          y = f32[2] convert(n)
          p = f32[2] multiply(c, x)
          d = f32[2] add(p, y)
          l = s32[] add(k, one)
          ROOT t = (f32[2], f32[2], s32[]) tuple(p, d, l)
        }

        ENTRY main {
          x = f32[5,2] parameter(0)
          n = s32[5,2] parameter(1)
          c = f32[2] parameter(2)
          k = s32[] parameter(3)
          // CHECK-NOT: scan(
          // CHECK: while(
          ROOT r = (f32[5,2], f32[2], s32[]) scan(x, n, c, k), dimensions={0}, num_carries=2,
            to_apply=step
        }
        """,
    )


def test_scan_of_length_one():
    check_pass(ScanExpander(), scan_text("s32", "add").replace("[3,21]", "[3,1]"))


# -- annotations -----------------------------------------------------------------------------------


def test_shardings_and_domains_go():
    check_pass(
        ShardingRemover(),
        """HloModule m

        ENTRY main {
          // CHECK:      [[X:%[^ ]+]] = f32[4] parameter(0)
          x = f32[4] parameter(0)
          d = f32[4] domain(x), domain={kind="sharding", entry={maximal device=0}, exit={}}
          // CHECK-NEXT: ROOT {{.*}} = f32[4] negate([[X]])
          ROOT n = f32[4] negate(d)
        }
        """,
    )
    module = parse_module(
        """HloModule m

        ENTRY main {
          x = f32[4] parameter(0)
          s = f32[4] custom-call(x), custom_call_target="Sharding", sharding={replicated}
          l = f32[4] custom-call(s), custom_call_target="xla.sdy.GlobalToLocalShape"
          ROOT r = f32[4] custom-call(l), custom_call_target="MoveToHost"
        }
        """
    )
    assert ShardingRemover().run(module)
    assert [node.opcode for node in module.entry] == [Opcode.PARAMETER]


@pytest.mark.parametrize(
    ("header", "call"),
    [
        ("", 'f32[4] custom-call(x), custom_call_target="mine"'),
        ("", 'f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape"'),
        (", num_partitions=2", 'f32[4] custom-call(x), custom_call_target="Sharding"'),
    ],
)
def test_other_calls_stay(header, call):
    module = parse_module(
        f"HloModule m{header}\nENTRY e {{ x = f32[4] parameter(0)\n ROOT r = {call} }}"
    )
    assert not ShardingRemover().run(module)
