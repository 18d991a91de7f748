"""Header attributes of a module in HLO text."""

from __future__ import annotations

import re
from collections.abc import Callable

from xla_backend.hlo.annotation_text import read_frontend_attributes
from xla_backend.hlo.device_lists import read_list
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.text_cursor import Cursor

_NESTED_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def _read_donors(cursor: Cursor) -> str:
    """`{ (0, {}), (1, {0}) }`: parameters and the leaves of them that may be overwritten."""
    return "{ " + ", ".join(read_list(cursor, "{", "}", _read_donor)) + " }"


def _read_donor(cursor: Cursor) -> str:
    cursor.expect("(")
    parameter = cursor.read_integer("a parameter number")
    cursor.expect(",")
    index = cursor.read_integers()
    cursor.expect(")")
    return f"({parameter}, {{{','.join(map(str, index))}}})"


def _read_flags(cursor: Cursor) -> str:
    flags = read_list(cursor, "{", "}", Cursor.read_bool)
    return "{" + ",".join("true" if flag else "false" for flag in flags) + "}"


def _read_flag(cursor: Cursor) -> str:
    return "true" if cursor.read_bool() else ""


def _read_recovery_table(cursor: Cursor) -> str:
    """How arrays of the original program can be computed from others: kept as it is written,
    for the tools that read it. Its entries may hold HLO text, quoted over several lines."""
    cursor.skip_space()
    start = position = cursor.position
    depth = 0
    while position < len(cursor.text):
        character = cursor.text[position]
        nested = _NESTED_TEXT.match(cursor.text, position) if character == '"' else None
        depth += (character == "{") - (character == "}")
        position = nested.end() if nested is not None else position + 1
        if depth == 0:
            cursor.position = position
            return cursor.text[start:position]
    cursor.fail("this bracket is never closed", start)


# Attributes kept as text, in the order they are printed around entry_computation_layout.
BEFORE_LAYOUT: dict[str, Callable[[Cursor], str]] = {
    "buffer_donor": _read_donors,
    "alias_passthrough_params": _read_flag,
}
AFTER_LAYOUT: dict[str, Callable[[Cursor], str]] = {
    "allow_spmd_sharding_propagation_to_parameters": _read_flags,
    "allow_spmd_sharding_propagation_to_output": _read_flags,
}
LAST: dict[str, Callable[[Cursor], str]] = {
    "frontend_attributes": read_frontend_attributes,
    "origin_recovery_table": _read_recovery_table,
}
_KEPT = {**BEFORE_LAYOUT, **AFTER_LAYOUT, **LAST}
_ALLOWED = (
    "entry_computation_layout",
    "input_output_alias",
    "is_scheduled",
    "num_partitions",
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
    elif name == "entry_computation_layout":
        module.entry_layout = _read_entry_layout(cursor)
    elif name in _KEPT:
        text = _KEPT[name](cursor)
        if text:
            module.attributes[name] = text
    else:
        cursor.fail(
            f"a module has no attribute '{name}'; allowed: {', '.join(sorted(_ALLOWED))}", start
        )


def _read_entry_layout(cursor: Cursor) -> tuple[tuple[Shape, ...], Shape]:
    """`{(f32[2]{0}, s32[])->f32[2]{0}}`."""
    cursor.expect("{")
    parameters = read_list(cursor, "(", ")", Cursor.read_shape)
    cursor.expect("->")
    result = cursor.read_shape()
    cursor.expect("}")
    return tuple(parameters), result


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
