"""Where instructions come from, as HLO text: `metadata={...}` and the tables a module may bring.

A `stack_frame_id` in the metadata points into the tables StackFrames, FileLocations, FileNames
and FunctionNames; `SourceTables.locate` follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xla_backend.hlo.instruction import OpMetadata, SourceTables
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


def read_metadata(cursor: Cursor) -> OpMetadata:
    """`{op_name="jit(f)/add" source_file="a.py" source_line=3}`."""
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
        "FileLocations": {n: _record_text(record) for n, record in tables.locations.items()},
        "StackFrames": {n: _record_text(record) for n, record in tables.frames.items()},
    }
    blocks = [
        "\n".join([title, *(f"{number} {text}" for number, text in entries.items())])
        for title, entries in rows.items()
        if entries
    ]
    return "\n\n".join(blocks)


def _record_text(record: dict[str, int]) -> str:
    return "{" + " ".join(f"{name}={value}" for name, value in record.items()) + "}"


def read_tables(cursor: Cursor) -> SourceTables:
    """The tables between header and computations, if any."""
    tables = SourceTables()
    _read_table(cursor, "FileNames", tables.files, Cursor.read_string)
    _read_table(cursor, "FunctionNames", tables.functions, Cursor.read_string)
    _read_table(cursor, "FileLocations", tables.locations, _read_record)
    _read_table(cursor, "StackFrames", tables.frames, _read_record)
    return tables


def _read_table(
    cursor: Cursor, title: str, target: dict[int, T], read_value: Callable[[Cursor], T]
) -> None:
    if not cursor.accept(title):
        return
    while True:
        cursor.skip_space()
        if INTEGER.match(cursor.text, cursor.position) is None:
            return
        number = cursor.read_integer()
        target[number] = read_value(cursor)


def _read_record(cursor: Cursor) -> dict[str, int]:
    """`{file_location_id=1 parent_frame_id=2}`."""
    cursor.expect("{")
    record = {}
    while not cursor.accept("}"):
        name = cursor.read_name("a field name")
        cursor.expect("=")
        record[name] = cursor.read_integer()
    return record
