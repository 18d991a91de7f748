"""Every constraint that the source names has a program that breaks it.

A row is: the constraint as the source names it, operand shapes (joined by ;), the instruction with
its operands left out, the result shape written in the text, and a fragment of the message.
"""

import re
from pathlib import Path

import constraint_cases_basic
import constraint_cases_collectives
import constraint_cases_structured
import pytest

import xla_backend.hlo
from xla_backend.hlo.attributes import (
    CallAttributes,
    ConditionalAttributes,
    ConvolutionAttributes,
    ConvolutionDimensionNumbers,
    DotAttributes,
    PadAttributes,
    ParameterAttributes,
    WindowDimension,
)
from xla_backend.hlo.errors import HloError, ShapeInferenceError
from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module, parse_shape
from xla_backend.hlo.shape_inference import infer_shape_from_shapes
from xla_backend.hlo.verifier import verify

CALLEES = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
vec { a = f32[4] parameter(0)
  ROOT r = f32[4] negate(a) }
row { a = f32[] parameter(0)
  ROOT r = f32[4] broadcast(a), dimensions={} }
yes { a = f32[4] parameter(0)
  ROOT r = pred[] constant(true) }
scal { a = f32[] parameter(0)
  ROOT r = f32[] negate(a) }
step { a = f32[] parameter(0)
  b = f32[] parameter(1)
  r = f32[] add(a, b)
  ROOT t = (f32[], f32[]) tuple(r, r) }
"""

CASES = [
    *constraint_cases_basic.CASES,
    *constraint_cases_structured.CASES,
    *constraint_cases_collectives.CASES,
]


def text_of(operands, line, result):
    declared = "".join(f" a{i} = {s} parameter({i})\n" for i, s in enumerate(operands))
    names = ", ".join(f"a{i}" for i in range(len(operands)))
    body = line.replace("()", f"({names})", 1)
    return f"{CALLEES}ENTRY e {{\n{declared} ROOT r = {result} {body}\n}}"


@pytest.mark.parametrize(
    "operands, line, result, message", [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_broken(operands, line, result, message):
    text = text_of([s for s in operands.split("; ") if s], line, result)
    with pytest.raises(HloError, match=message):
        verify(parse_module(text))


VEC = next(
    c
    for c in parse_module(f"{CALLEES}ENTRY e {{ ROOT a = f32[] parameter(0) }}").computations
    if c.name == "vec"
)
LABELS = ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))
LABELS_OF_KERNEL = ConvolutionDimensionNumbers(0, 2, (1,), 1, 1, (0,), 0, 2, (1,))
LABELS_OF_OUTPUT = ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (0,))
IMAGES = ["f32[2,9,4]", "f32[3,4,8]"]
NO_SHAPE_GIVEN = ["s32[2]", "f32[2]"]


def convolution(numbers):
    return ConvolutionAttributes((WindowDimension(3),), numbers)


# What HLO text cannot say, because the parser complains first.
DIRECT = [
    ("called_c1", "call", ["f32[4]"], CallAttributes(), [], "calls 1 computation"),
    ("called_c2", "call", ["f32[4]"], CallAttributes(), [Computation("c")], "%c has no root"),
    ("parameter_c1", "parameter", [], ParameterAttributes(-1), [], "must not be negative"),
    ("conditional_c1", "conditional", ["s32[]"], ConditionalAttributes(True), [], "at least one"),
    (
        "conditional_c5",
        "conditional",
        ["pred[]", "f32[4]"],
        ConditionalAttributes(False),
        [VEC],
        "between exactly 2",
    ),
    (
        "pad_c3",
        "pad",
        ["f32[3]", "f32[]"],
        PadAttributes((0,), (0,), (-1,)),
        [],
        "interior padding",
    ),
    ("dot_c14", "dot", NO_SHAPE_GIVEN, DotAttributes((0,), (0,)), [], "equal element types"),
    (
        "convolution_c18",
        "convolution",
        IMAGES,
        convolution(LABELS_OF_KERNEL),
        [],
        "each of the 3 dimensions",
    ),
    (
        "convolution_c20",
        "convolution",
        IMAGES,
        convolution(LABELS_OF_OUTPUT),
        [],
        "each of the 3 dimensions",
    ),
    (
        "convolution_c27",
        "convolution",
        ["f32[2,9,4]", "s32[3,4,8]"],
        convolution(LABELS),
        [],
        "equal element types",
    ),
]


@pytest.mark.parametrize(
    "opcode, shapes, attributes, called, message",
    [d[1:] for d in DIRECT],
    ids=[d[0] for d in DIRECT],
)
def test_broken_directly(opcode, shapes, attributes, called, message):
    given = parse_shape("f32[]") if opcode == "parameter" else None
    with pytest.raises(ShapeInferenceError, match=message):
        infer_shape_from_shapes(
            Opcode(opcode), [parse_shape(s) for s in shapes], attributes, called, given
        )


_CITED = re.compile(r"^\s*# (\w+_c\d+(?:, \w+_c\d+)*)$", re.MULTILINE)


def test_every_constraint_of_the_source_has_a_case():
    folder = Path(xla_backend.hlo.__path__[0])
    cited = {
        name
        for path in [*folder.glob("shape_*.py")]
        for match in _CITED.finditer(path.read_text())
        for name in match[1].split(", ")
    }
    assert len(cited) > 250
    assert sorted(cited - {case[0] for case in [*CASES, *DIRECT]}) == []
