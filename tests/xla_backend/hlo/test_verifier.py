"""One broken module per invariant of the verifier."""

import re
from pathlib import Path

import pytest

from xla_backend.hlo import verifier
from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    CustomCallAttributes,
    DimensionsAttributes,
    IotaAttributes,
    ParameterAttributes,
)
from xla_backend.hlo.errors import VerificationError
from xla_backend.hlo.instruction import OpMetadata
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.source_tables import FileLocation, SourceTables, StackFrame
from xla_backend.hlo.types import PrimitiveType
from xla_backend.hlo.verifier import verify

TEXT = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
neg {
  a = f32[4] parameter(0)
  ROOT r = f32[4] negate(a)
}
ENTRY e {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  s = f32[4] add(p, q), metadata={op_name="jit(f)/add" source_file="train.py" source_line=42}
  z = f32[] constant(0)
  t = f32[] reduce(s, z), dimensions={0}, to_apply=add
  f = f32[4] fusion(s), kind=kLoop, calls=neg
  ROOT u = (f32[4], f32[]) tuple(f, t)
}
"""
F32_4, F32_5 = (Shape.array(PrimitiveType.F32, (n,)) for n in (4, 5))


@pytest.fixture
def module():
    parsed = parse_module(TEXT)
    verify(parsed)
    return parsed


def node(module, name):
    return next(n for c in module.computations for n in c if n.name == name and c is module.entry)


def callee(module, name):
    return next(c for c in module.computations if c.name == name)


def no_entry(m):
    m.entry = None


def entry_not_listed(m):
    m.computations.remove(m.entry)


def equal_computation_names(m):
    callee(m, "add").name = "neg"


def foreign_computation(m):
    callee(m, "add").module = HloModule("other")


def callee_not_in_module(m):
    m.computations.remove(callee(m, "add"))


def recursion(m):
    node(m, "t").called[0] = m.entry


def entry_called(m):
    other = parse_module(
        "c { p = f32[4] parameter(0)\n ROOT r = f32[4] negate(p) }\n"
        "ENTRY other { p = f32[4] parameter(0)\n ROOT r = f32[4] call(p), to_apply=c }"
    ).entry
    other.root.called[0] = m.entry
    other.module = m
    m.computations.append(other)
    for other_node in other:
        if other_node.called:
            other_node.shape = m.entry.root.shape
            other.set_operands(other_node, [other.parameters[0]] * 2)


def fused_twice(m):
    m.entry.add(
        type(node(m, "f"))(
            node(m, "f").opcode,
            node(m, "f").shape,
            [node(m, "p")],
            node(m, "f").attributes,
            node(m, "f").called,
        ),
        "f2",
    )


def no_root(m):
    m.entry.root = None


def root_elsewhere(m):
    m.entry.root = callee(m, "add").root


def equal_names(m):
    node(m, "t").name = "s"


def no_name(m):
    node(m, "t").name = ""


def wrong_parent(m):
    node(m, "z").parent = callee(m, "add")


def operand_elsewhere(m):
    node(m, "s").operands[0] = callee(m, "neg").parameters[0]
    del node(m, "p").users[node(m, "s")]


def user_missing(m):
    del node(m, "s").users[node(m, "t")]


def user_too_many(m):
    node(m, "p").users[node(m, "t")] = None


def user_elsewhere(m):
    node(m, "p").users[callee(m, "add").root] = None


def parameter_number(m):
    node(m, "q").attributes = ParameterAttributes(0)


def parameter_not_registered(m):
    m.entry.parameters.append(node(m, "q"))


def cycle(m):
    s, f = node(m, "s"), node(m, "f")
    s.operands[0] = f
    f.users[s] = None
    node(m, "p").users.pop(s, None)


def schedule(m):
    order = m.entry.instructions
    m.is_scheduled = True
    m.entry._instructions = dict.fromkeys([*order[3:], *order[:3]])


def control_schedule(m):
    m.is_scheduled = True
    node(m, "s").annotations = {"control-predecessors": (node(m, "t"),)}


def control_cycle(m):
    node(m, "s").annotations = {"control-predecessors": (node(m, "t"),)}


def attribute_class(m):
    node(m, "t").attributes = IotaAttributes(0)


def attributes_missing(m):
    node(m, "t").attributes = NO_ATTRIBUTES


def arity(m):
    s = node(m, "s")
    m.entry.set_operands(s, [node(m, "p")])


def called_count(m):
    node(m, "t").called = []


def dimension_out_of_range(m):
    node(m, "t").attributes = DimensionsAttributes((1,))


def wrong_shape(m):
    node(m, "s").shape = F32_5


def wrong_reducer(m):
    node(m, "t").called[0] = callee(m, "neg")


def bad_layout(m):
    node(m, "s").shape = Shape(PrimitiveType.F32, (4,), (1,))


def alias_parameter(m):
    m.aliases = (InputOutputAlias((0,), 2),)


def alias_index(m):
    m.aliases = (InputOutputAlias((7,), 0),)


def alias_size(m):
    m.aliases = (InputOutputAlias((1,), 0),)


def alias_output_twice(m):
    m.aliases = (InputOutputAlias((0,), 0), InputOutputAlias((0,), 1))


def alias_parameter_twice(m):
    m.entry.root.shape = Shape.tuple([F32_4, F32_4])
    m.entry.set_operands(m.entry.root, [node(m, "f"), node(m, "s")])
    m.aliases = (InputOutputAlias((0,), 0), InputOutputAlias((1,), 0))


def parameter_attributes(m):
    node(m, "q").attributes = NO_ATTRIBUTES


def negative_dimension(m):
    z = node(m, "z")
    z.attributes = CustomCallAttributes("f")
    z.opcode = Opcode.CUSTOM_CALL
    z.shape = Shape.array(PrimitiveType.F32, (-3,))


def frame_calls_itself(module):
    module.source_tables = SourceTables(
        {1: "a.py"}, {1: "f"}, {1: FileLocation(1, 1)}, {1: StackFrame(1, 1)}
    )


def frame_missing(module):
    module.entry.root.metadata = OpMetadata(stack_frame_id=7)


BROKEN = [
    ("source_tables_c1", frame_calls_itself, "stack frame 1 is its own caller"),
    ("source_tables_c2", frame_missing, "stack_frame_id=7 is not in StackFrames"),
    ("module_c1", no_entry, "no entry computation"),
    ("module_c2", entry_not_listed, "not among the module's computations"),
    ("module_c3", equal_computation_names, "two computations are named %neg"),
    ("module_c4", foreign_computation, "belongs to another module"),
    ("module_c5", callee_not_in_module, "calls %add, which is not in the module"),
    ("module_c6", recursion, "calls itself"),
    ("module_c7", entry_called, "the entry computation is called"),
    ("module_c8", fused_twice, "is fused and has another caller"),
    ("computation_c1", no_root, "no root of its own"),
    ("computation_c1", root_elsewhere, "no root of its own"),
    ("computation_c3", equal_names, "two instructions are named %s"),
    ("computation_c2", no_name, "has no name"),
    ("computation_c4", wrong_parent, "parent is another computation"),
    ("computation_c5", operand_elsewhere, "is not in the same computation"),
    ("computation_c6", user_missing, "does not list this instruction as a user"),
    ("computation_c8", user_too_many, "listed as a user but has no such operand"),
    ("computation_c7", user_elsewhere, "is not in the same computation"),
    ("parameter_c3", parameter_number, "is not registered as parameter"),
    ("parameter_c4", parameter_not_registered, "2 parameter instructions, 3 registered"),
    ("computation_c9", cycle, "cycle of operands"),
    ("schedule_c2", control_schedule, "before one of its control predecessors"),
    ("computation_c9", control_cycle, "cycle of operands and control predecessors"),
    ("schedule_c1", schedule, "scheduled before one of its operands"),
    ("instruction_c4", attribute_class, "needs DimensionsAttributes, has IotaAttributes"),
    ("instruction_c4", attributes_missing, "needs DimensionsAttributes, has Attributes"),
    ("instruction_c1", arity, r"takes 2 operand\(s\), has 1"),
    ("instruction_c2", called_count, r"calls 1 computation\(s\), has 0"),
    ("reduce_c4", dimension_out_of_range, "out of range for rank 1"),
    ("instruction_c3", wrong_shape, r"has shape f32\[5\], its operands give f32\[4\]"),
    ("reduce_c6", wrong_reducer, r"to_apply %neg takes"),
    ("layout_c1", bad_layout, "not a permutation"),
    ("alias_c1", alias_parameter, "names parameter 2 of 2"),
    ("alias_c2", alias_index, "index that does not exist"),
    ("alias_c3", alias_size, "sizes must be equal"),
    ("alias_c4", alias_output_twice, r"output \(0,\) twice"),
    ("alias_c5", alias_parameter_twice, r"parameter \(0, \(\)\) twice"),
    ("parameter_c2", parameter_attributes, "needs ParameterAttributes"),
    ("layout_c2", negative_dimension, "is negative"),
]


@pytest.mark.parametrize(
    "breaking, message", [b[1:] for b in BROKEN], ids=[f"{b[0]}-{b[1].__name__}" for b in BROKEN]
)
def test_broken(module, breaking, message):
    breaking(module)
    with pytest.raises(VerificationError, match=message):
        verify(module)


def test_message_names_pass_instruction_and_source_line(module):
    wrong_shape(module)
    with pytest.raises(VerificationError) as caught:
        verify(module, after="reshape-merging")
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(
        "after pass 'reshape-merging': add(f32[4], f32[4]): has shape f32[5]"
    )
    assert lines[1].strip().startswith("%s = f32[5]{0} add(%p, %q)")
    assert lines[2] == "  in computation %e of module m"
    assert lines[3] == "  from train.py:42"


def test_a_deep_chain_of_calls_verifies():
    """The call graph is walked without recursion."""
    parts = ["HloModule m", "c0 { ROOT p = f32[] parameter(0) }"]
    for i in range(1, 3000):
        parts.append(
            f"c{i} {{ p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=c{i - 1} }}"
        )
    verify(parse_module("\n".join(parts)))


def test_every_constraint_of_the_verifier_has_a_case():
    text = Path(verifier.__file__).read_text()
    cited = re.findall(r"^\s*# (\w+_c\d+)$", text, re.MULTILINE)
    as_text = ("buffer_donor_c", "entry_layout_c")  # in test_verifier_links.py
    missing = set(cited) - {case[0] for case in BROKEN}
    assert [name for name in missing if not name.startswith(as_text)] == []
