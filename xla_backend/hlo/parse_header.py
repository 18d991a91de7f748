"""Parts of HLO text that carry no computation: module header attributes, source tables,
metadata."""

from __future__ import annotations

from dataclasses import dataclass, field

from xla_backend.hlo.instruction import OpMetadata
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.text_cursor import INTEGER, Cursor

# Kept as text and printed back.
_KEPT = (
    "buffer_donor",
    "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "frontend_attributes",
)
_ALLOWED = (
    "entry_computation_layout",
    "input_output_alias",
    "is_scheduled",
    "num_partitions",
    "origin_recovery_table",
    "replica_count",
    *_KEPT,
)


def apply_header_attribute(cursor: Cursor, module: HloModule, name: str, start: int) -> None:
    """Read the value of header attribute `name` into the module."""
    if name == "is_scheduled":
        module.is_scheduled = cursor.read_bool()
    elif name == "replica_count":
        module.replica_count = cursor.read_integer()
    elif name == "num_partitions":
        module.num_partitions = cursor.read_integer()
    elif name == "input_output_alias":
        module.aliases = _read_aliases(cursor)
    elif name == "frontend_attributes":
        module.attributes[name] = read_frontend_attributes(cursor)
    elif name in _KEPT:
        module.attributes[name] = cursor.read_value_text()
    elif name in ("entry_computation_layout", "origin_recovery_table"):
        # printed anew from the entry's own shapes; the table serves XLA's debugger only
        cursor.read_value_text()
    else:
        cursor.fail(
            f"a module has no attribute '{name}'; allowed: {', '.join(sorted(_ALLOWED))}", start
        )


def _read_aliases(cursor: Cursor) -> tuple[InputOutputAlias, ...]:
    """`{ {0}: (1, {}, may-alias), {1}: (0, {}) }`."""
    cursor.expect("{")
    aliases = []
    while not cursor.accept("}"):
        output = cursor.read_integers()
        cursor.expect(":")
        cursor.expect("(")
        parameter = cursor.read_integer("a parameter number")
        index: tuple[int, ...] = ()
        must = False
        if cursor.accept(","):
            index = cursor.read_integers()
            if cursor.accept(","):
                must = cursor.accept("must-alias")
                if not must:
                    cursor.expect("may-alias")
        cursor.expect(")")
        aliases.append(InputOutputAlias(output, parameter, index, must))
        if not cursor.accept(",") and not cursor.at("}"):
            cursor.fail("expected ',' or '}'")
    return tuple(aliases)


def read_frontend_attributes(cursor: Cursor) -> str:
    """`{k="v",a={n = 1 : i32}}` with the keys sorted."""
    cursor.expect("{")
    items: dict[str, str] = {}
    while not cursor.accept("}"):
        start = cursor.position
        name = cursor.read_name("a name")
        if name in items:
            cursor.fail(f"frontend attribute '{name}' is given twice", start)
        cursor.expect("=")
        items[name] = cursor.read_value_text()
        if not cursor.accept(",") and not cursor.at("}"):
            cursor.fail("expected ',' or '}'")
    return "{" + ",".join(f"{name}={items[name]}" for name in sorted(items)) + "}"


# -- source tables ---------------------------------------------------------------------------------


@dataclass(slots=True)
class SourceTables:
    """FileNames, FunctionNames, FileLocations and StackFrames of a module, by number."""

    files: dict[int, str] = field(default_factory=dict)
    locations: dict[int, dict[str, int]] = field(default_factory=dict)
    frames: dict[int, dict[str, int]] = field(default_factory=dict)


def read_tables(cursor: Cursor) -> SourceTables:
    """The tables between header and computations, if any."""
    tables = SourceTables()
    functions: dict[int, str] = {}
    for name, target in (
        ("FileNames", tables.files),
        ("FunctionNames", functions),
        ("FileLocations", tables.locations),
        ("StackFrames", tables.frames),
    ):
        if not cursor.accept(name):
            continue
        while True:
            cursor.skip_space()
            if INTEGER.match(cursor.text, cursor.position) is None:
                break
            number = cursor.read_integer()
            if name in ("FileNames", "FunctionNames"):
                target[number] = cursor.read_string()  # type: ignore[assignment]
            else:
                target[number] = _read_record(cursor)  # type: ignore[assignment]
    return tables


def _read_record(cursor: Cursor) -> dict[str, int]:
    """`{file_location_id=1 parent_frame_id=2}`."""
    cursor.expect("{")
    record = {}
    while not cursor.accept("}"):
        name = cursor.read_name("a field name")
        cursor.expect("=")
        record[name] = cursor.read_integer()
    return record


# -- metadata --------------------------------------------------------------------------------------

_STRINGS = frozenset({"op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name"})
_NUMBERS = frozenset({"source_line", "source_end_line", "source_column", "source_end_column"})


def read_metadata(cursor: Cursor, tables: SourceTables) -> OpMetadata:
    """`{op_name="jit(f)/add" source_file="a.py" source_line=3}`. A stack_frame_id is looked up in
    the tables and gives file and line; fields that say nothing about the source are dropped."""
    cursor.expect("{")
    values: dict[str, str | int] = {}
    frame = 0
    while not cursor.accept("}"):
        name = cursor.read_name("a metadata field")
        cursor.expect("=")
        if name in _STRINGS:
            values[name] = cursor.read_string()
        elif name in _NUMBERS:
            values[name] = cursor.read_integer()
        elif name == "stack_frame_id":
            frame = cursor.read_integer()
        else:
            cursor.read_value_text()
    if frame and "source_file" not in values:
        values.update(_frame_source(tables, frame))
    return OpMetadata(**values)  # type: ignore[arg-type]


def _frame_source(tables: SourceTables, frame: int) -> dict[str, str | int]:
    location = tables.locations.get(tables.frames.get(frame, {}).get("file_location_id", 0))
    if location is None:
        return {}
    result: dict[str, str | int] = {}
    file_name = tables.files.get(location.get("file_name_id", 0))
    if file_name:
        result["source_file"] = file_name
    for source, target in (
        ("line", "source_line"),
        ("end_line", "source_end_line"),
        ("column", "source_column"),
        ("end_column", "source_end_column"),
    ):
        if location.get(source):
            result[target] = location[source]
    return result
