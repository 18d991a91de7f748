"""Where instructions come from, as HLO text: `metadata={...}` and the tables a module may bring.

A `stack_frame_id` in the metadata points into the tables StackFrames, FileLocations, FileNames
and FunctionNames (`source_tables.py`). The text has the numbers of callers plus 1: a frame that
nobody called says `parent_frame_id=1`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TypeVar

from xla_backend.hlo.instruction import OpMetadata
from xla_backend.hlo.source_tables import (
    FileLocation,
    SourceTables,
    StackFrame,
)
from xla_backend.hlo.text_cursor import INTEGER, Cursor, quote

T = TypeVar("T")
_FIELDS = (
    ("op_type", True),
    ("op_name", True),
    ("source_file", True),
    ("source_line", False),
    ("source_end_line", False),
    ("source_column", False),
    ("source_end_column", False),
    ("deduplicated_name", True),
    ("scheduling_name", True),
    ("stack_frame_id", False),
)
_IS_STRING = dict(_FIELDS)
# Read and dropped: profiles and framework payloads mean nothing to this compiler.
_DROPPED = frozenset({"profile_type", "metadata_payload"})


def metadata_text(metadata: OpMetadata) -> str:
    """The fields that are set, blank separated."""
    parts = []
    for name, is_string in _FIELDS:
        value = getattr(metadata, name)
        if value:
            parts.append(f"{name}={quote(value) if is_string else value}")
    return " ".join(parts)


def read_metadata(cursor: Cursor, frames: Container[int] | None = None) -> OpMetadata:
    """`{op_name="jit(f)/add" source_file="a.py" source_line=3}`.

    Args:
      frames: numbers that `stack_frame_id` may have; None: the text has no stack frames, and a
        number, which cannot mean anything, is dropped.
    """
    cursor.expect("{")
    values: dict[str, str | int] = {}
    while not cursor.accept("}"):
        cursor.skip_space()
        start = cursor.position
        name = cursor.read_name("a metadata field")
        cursor.expect("=")
        is_string = _IS_STRING.get(name)
        if is_string is not None:
            values[name] = cursor.read_string() if is_string else cursor.read_integer()
            if name == "stack_frame_id" and values[name]:
                if frames is None:
                    del values[name]
                elif values[name] not in frames:
                    cursor.fail(f"stack_frame_id={values[name]} is not in StackFrames", start)
        elif name in _DROPPED:
            cursor.read_value_text()
        else:
            allowed = ", ".join(sorted([*_IS_STRING, *_DROPPED]))
            cursor.fail(f"metadata has no field '{name}'; allowed: {allowed}", start)
    return OpMetadata(**values)  # type: ignore[arg-type]


# -- tables ----------------------------------------------------------------------------------------


def tables_text(tables: SourceTables) -> str:
    """The tables as they stand between header and computations; empty where there are none."""
    rows = {
        "FileNames": {n: quote(name) for n, name in tables.files.items()},
        "FunctionNames": {n: quote(name) for n, name in tables.functions.items()},
        "FileLocations": {n: _record(_LOCATION, row) for n, row in tables.locations.items()},
        "StackFrames": {
            n: _record(_FRAME, (row.location, row.parent + 1)) for n, row in tables.frames.items()
        },
    }
    blocks = [
        "\n".join([title, *(f"{number} {text}" for number, text in entries.items())])
        for title, entries in rows.items()
        if entries
    ]
    return "\n\n".join(blocks)


_LOCATION = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
_FRAME = ("file_location_id", "parent_frame_id")


def _record(names: Sequence[str], values: Sequence[int]) -> str:
    return f"{{{' '.join([f'{name}={value}' for name, value in zip(names, values)])}}}"


def read_tables(cursor: Cursor) -> SourceTables:
    """The tables between header and computations, if any.

    Raises:
      ParseError: a row is not of its table's form, refers to what is not there, or a frame is its
        own caller.
    """
    starts: dict[tuple[str, int], int] = {}  # where rows stand

    def table(title: str, read_value: Callable[[Cursor], T]) -> dict[int, T]:
        rows: dict[int, T] = {}
        if not cursor.accept(title):
            return rows
        while True:
            cursor.skip_space()
            start = cursor.position
            if INTEGER.match(cursor.text, start) is None:
                return rows
            number = cursor.read_integer()
            if number < 1 or number in rows:
                cursor.fail(f"{title} has a row {number} already, or counts from 1", start)
            rows[number] = read_value(cursor)
            starts[title, number] = start

    tables = SourceTables(
        table("FileNames", Cursor.read_string),
        table("FunctionNames", Cursor.read_string),
        table("FileLocations", lambda c: FileLocation(*_read_record(c, _LOCATION))),
        table("StackFrames", _read_frame),
    )
    problem = tables.problem()
    if problem is not None:
        cursor.fail(str(problem), starts[problem.title, problem.number])
    return tables


def _read_frame(cursor: Cursor) -> StackFrame:
    start = cursor.position
    location, parent = _read_record(cursor, _FRAME)
    if parent < 1:
        cursor.fail("parent_frame_id is the number of the calling frame plus 1", start)
    return StackFrame(location, parent - 1)


def _read_record(cursor: Cursor, names: Sequence[str]) -> list[int]:
    """`{file_location_id=1 parent_frame_id=2}`: the values of all the names."""
    cursor.expect("{")
    begin = cursor.position
    values: dict[str, int] = {}
    while not cursor.accept("}"):
        cursor.skip_space()
        start = cursor.position
        name = cursor.read_name("a field name")
        if name not in names or name in values:
            cursor.fail(f"unexpected '{name}'; a row has {', '.join(names)}, each once", start)
        cursor.expect("=")
        values[name] = cursor.read_integer()
    missing = [name for name in names if name not in values]
    if missing:
        cursor.fail(f"the row has no {missing[0]}; a row has {', '.join(names)}", begin)
    return [values[name] for name in names]
