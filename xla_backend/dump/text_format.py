"""Protocol buffers' text format, as far as options need it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xla_backend.xla_flag_table import FLAGS

_KINDS = {name: kind for name, kind, _ in FLAGS}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """A string literal."""
    return '"' + "".join(_ESCAPES.get(c, c) for c in text) + '"'


def flag_lines(flags: Iterable[tuple[str, Any]], indent: str = "") -> list[str]:
    """One field per line of a DebugOptions message; lists repeat the field, maps nest."""
    lines: list[str] = []
    for name, value in flags:
        kind = _KINDS[name]
        if kind == "list":
            lines += [f"{indent}{name}: {_scalar('string', item)}" for item in value]
        elif kind == "map":
            for key, item in value:
                shown = item if name == "xla_fuel" else quoted(item)
                lines += [
                    f"{indent}{name} {{",
                    f"{indent}  key: {quoted(key)}",
                    f"{indent}  value: {shown}",
                    f"{indent}}}",
                ]
        else:
            lines.append(f"{indent}{name}: {_scalar(kind, value)}")
    return lines


def _scalar(kind: str, value: Any) -> str:
    if kind == "bool":
        return "true" if value else "false"
    if kind == "string":
        return quoted(value)
    return str(value)


def message(fields: Mapping[str, Any], indent: str = "") -> str:
    """A message from nested mappings; a list repeats its field, text that is to stand bare (an
    enum) comes as `Bare`."""
    lines: list[str] = []
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                lines += [f"{indent}{name} {{", message(item, indent + "  ") + f"{indent}}}"]
            else:
                lines.append(f"{indent}{name}: {_value(item)}")
    return "\n".join(lines) + "\n" if lines else ""


class Bare(str):
    """Text that is printed without quotes."""

    __slots__ = ()


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Bare) or not isinstance(value, str):
        return str(value)
    return quoted(value)
