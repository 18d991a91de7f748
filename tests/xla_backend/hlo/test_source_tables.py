"""Stack frames of HLO: text, messages, protobuf, and what passes make of them."""

from __future__ import annotations

import pytest

from xla_backend.hlo.errors import ParseError, VerificationError
from xla_backend.hlo.instruction import OpMetadata
from xla_backend.hlo.module import source_places
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.proto import module_from_proto, module_to_proto
from xla_backend.hlo.proto_module import module_from_message, module_to_message
from xla_backend.hlo.proto_wire import ProtoError
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.source_tables import FrameNumbering, SourcePlace, SourceTables, StackFrame
from xla_backend.hlo.types import PrimitiveType
from xla_backend.hlo.verifier import verify
from xla_backend.passes.call_inliner import CallInliner

TABLES = """
FileNames
1 "train.py"
2 "library.py"

FunctionNames
1 "main"
2 "helper"
3 "Norm.scale"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=4 end_column=9}
2 {file_name_id=1 function_name_id=2 line=30 end_line=31 column=4 end_column=9}
3 {file_name_id=2 function_name_id=3 line=300 end_line=300 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=1}

"""
TEXT = f"""HloModule m, entry_computation_layout={{(f32[4]{{0}})->f32[4]{{0}}}}
{TABLES}
%scale (a: f32[4]) -> f32[4] {{
  %a = f32[4]{{0}} parameter(0)
  %s = f32[4]{{0}} sine(%a), metadata={{op_name="scale/sin" stack_frame_id=3}}
  %c = f32[4]{{0}} cosine(%s), metadata={{op_name="scale/cos"}}
  ROOT %n = f32[4]{{0}} negate(%c)
}}

ENTRY %e (p: f32[4]) -> f32[4] {{
  %p = f32[4]{{0}} parameter(0), metadata={{op_name="x"}}
  %r = f32[4]{{0}} call(%p), to_apply=%scale, metadata={{op_name="call" stack_frame_id=2}}
  ROOT %t = f32[4]{{0}} call(%r), to_apply=%scale, metadata={{op_name="again" stack_frame_id=1}}
}}

"""
HELPER = SourcePlace("train.py", "helper", 30, 31, 4, 9)
MAIN = SourcePlace("train.py", "main", 3, 3, 4, 9)
SCALE = SourcePlace("library.py", "Norm.scale", 300, 300, 4, 9)


def test_text_survives() -> None:
    module = parse_module(TEXT)
    assert module_to_text(module) == TEXT
    assert module_to_text(module.clone()) == TEXT
    assert module_to_text(module_from_proto(module_to_proto(module))) == TEXT
    verify(module)


def test_frames_name_their_callers() -> None:
    module = parse_module(TEXT)
    assert module.entry is not None
    call = next(node for node in module.entry if node.name == "r")
    assert source_places(call) == [HELPER, MAIN]
    assert source_places(module.entry.parameters[0]) == []


def test_the_bytes_number_callers_from_1() -> None:
    """The text has their numbers plus 1, as XLA's has."""
    message = module_to_message(parse_module(TEXT))["stack_frame_index"]
    assert [row["parent_frame_id"] for row in message["stack_frames"]] == [0, 1, 0]


MALFORMED = [
    ("2 {file_location_id=2 parent_frame_id=2", "2 {file_location_id=2 parent_frame_id=3",
     r"19:1: stack frame 2 is its own caller \(2 <- 2\)"),
    ("1 {file_location_id=1 parent_frame_id=1", "1 {file_location_id=1 parent_frame_id=3",
     r"18:1: stack frame 1 is its own caller \(1 <- 2 <- 1\)"),
    ("3 {file_location_id=3 parent_frame_id=1", "3 {file_location_id=3 parent_frame_id=9",
     "20:1: stack frame 3 was called by 8, which is not there"),
    ("3 {file_location_id=3 parent_frame_id=1", "3 {file_location_id=3 parent_frame_id=0",
     "20:2: parent_frame_id is the number of the calling frame plus 1"),
    ("3 {file_location_id=3", "3 {file_location_id=7",
     "20:1: file_location_id=7 of row 3 is not in FileLocations"),
    ("3 {file_location_id=3 parent_frame_id=1}", "3 {file_location_id=3}",
     "20:4: the row has no parent_frame_id; a row has file_location_id, parent_frame_id"),
    ("3 {file_location_id=3 ", "3 {file_location=3 ", "20:4: unexpected 'file_location'"),
    ("3 {file_location_id=3 ", "2 {file_location_id=3 ", "20:1: StackFrames has a row 2 already"),
    ("3 {file_name_id=2", "3 {file_name_id=5", "15:1: file_name_id=5 of row 3 is not in FileNames"),
    ("function_name_id=3", "function_name_id=4", "15:1: function_name_id=4 of row 3 is not in"),
    (" column=4 end_column=9}\n\nStack", "}\n\nStack", "15:4: the row has no column"),
    ("stack_frame_id=3", "stack_frame_id=9", "25:58: stack_frame_id=9 is not in StackFrames"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), MALFORMED, ids=[m for _, _, m in MALFORMED])
def test_malformed(old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(ParseError, match=message):
        parse_module(TEXT.replace(old, new))


def test_numbers_of_a_text_without_tables_are_dropped() -> None:
    """As XLA does: a piece of a module is read without them."""
    module = parse_module(TEXT.replace(TABLES, ""))
    assert "stack_frame_id" not in module_to_text(module)


def test_malformed_bytes() -> None:
    message = module_to_message(parse_module(TEXT))
    frames = message["stack_frame_index"]["stack_frames"]
    frames[1]["parent_frame_id"] = 2
    with pytest.raises(ProtoError, match="stack_frame_index: stack frame 2 is its own caller"):
        module_from_message(message)
    del frames[1:]
    with pytest.raises(ProtoError, match=r"stack frame 3 of s is not in stack_frame_index"):
        module_from_message(message)
    del message["stack_frame_index"]
    assert "stack_frame_id" not in module_to_text(module_from_message(message))


def test_the_verifier_looks_at_frames() -> None:
    module = parse_module(TEXT)
    assert module.entry is not None and module.entry.root is not None
    module.entry.root.metadata = OpMetadata(stack_frame_id=4)
    with pytest.raises(VerificationError, match="t: stack_frame_id=4 is not in StackFrames"):
        verify(module)
    module.source_tables.frames[2] = StackFrame(2, 2)
    with pytest.raises(VerificationError, match="StackFrames: stack frame 2 is its own caller"):
        verify(module)


def test_messages_of_the_verifier_name_callers() -> None:
    module = parse_module(TEXT)
    assert module.entry is not None
    call = next(node for node in module.entry if node.name == "r")
    call.shape = Shape.array(PrimitiveType.F32, (5,))
    with pytest.raises(VerificationError) as caught:
        verify(module)
    lines = str(caught.value).splitlines()
    assert lines[-2:] == ["  from train.py:30 in helper", "    called at train.py:3 in main"]


def test_inlining_joins_frames() -> None:
    """What was called stands under who called it; what has no place stands at the call."""
    module = parse_module(TEXT)
    before = module.clone()
    CallInliner().run(module)
    verify(module)
    assert module.entry is not None
    found = {node.name: source_places(node) for node in module.entry if node.operands}
    assert found == {
        "s": [SCALE, HELPER, MAIN],
        "c": [HELPER, MAIN],
        "n": [HELPER, MAIN],
        "s.1": [SCALE, MAIN],
        "c.1": [MAIN],
        "n.1": [MAIN],
    }
    names = {node.name: node.metadata.op_name for node in module.entry if node.operands}
    assert (names["s"], names["c"], names["n"]) == ("scale/sin", "scale/cos", "call")
    assert module_to_text(parse_module(module_to_text(module))) == module_to_text(module)
    assert module_to_text(before) == TEXT  # a copy has rows of its own


def test_inlining_keeps_lines_without_frames() -> None:
    text = TEXT.replace('op_name="scale/sin" stack_frame_id=3', 'source_file="z.py" source_line=5')
    module = parse_module(text.replace('op_name="call" stack_frame_id=2', 'source_file="y.py"'))
    CallInliner().run(module)
    assert module.entry is not None
    found = {node.name: source_places(node) for node in module.entry if node.operands}
    assert found["s"] == found["s.1"] == [SourcePlace("z.py", "", 5)]
    assert found["c"] == found["n"] == [SourcePlace("y.py", "")] and found["c.1"] == [MAIN]


def test_lines_are_looked_up_when_somebody_reads_them() -> None:
    asked = []

    def look_up(key: str) -> SourcePlace:
        asked.append(key)
        return SourcePlace("a.py", key, len(asked))

    numbering = FrameNumbering[str]()
    outer = numbering.frame("main", 0)
    inner = [numbering.frame("helper", outer) for _ in range(1000)]
    assert set(inner) == {2} and numbering.frame("helper", 0) == 3
    tables = numbering.tables(look_up)
    copy = tables.copy()
    assert copy.joined(3, outer) == 2 and copy.joined(2, 2) == 5  # main, then helper, under 2
    assert not asked
    assert [place.function for place in copy.callers(5)] == ["helper", "main", "helper", "main"]
    assert asked == ["main", "helper"]
    assert len(tables.frames) == 3 and len(copy.frames) == 5


def test_a_chain_of_thousands() -> None:
    numbering = FrameNumbering[int]()
    frame = 0
    for _ in range(20_000):
        frame = numbering.frame(1, frame)
    tables = numbering.tables(lambda line: SourcePlace("a.py", "recursive", line))
    assert tables.problem() is None and len(tables.callers(frame)) == 20_000
    assert SourceTables().joined(0, 0) == 0 and tables.joined(frame, 0) == frame
