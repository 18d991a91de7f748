"""Attributes any opcode may carry, read from HLO text into the text they are kept as.

Each reader checks what it reads and gives it back as XLA would print it; an empty text says
nothing and is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xla_backend.hlo.device_lists import read_list
from xla_backend.hlo.sharding import read_sharding, sharding_text
from xla_backend.hlo.text_cursor import MAX_NESTING, Cursor, quote, unescape


def read_frontend_attributes(cursor: Cursor) -> str:
    """`{k="v",a={n = 1 : i32}}` with the keys sorted."""
    return _frontend_text(_frontend_items(cursor))


def _frontend_items(cursor: Cursor) -> dict[str, str]:
    cursor.expect("{")
    items: dict[str, str] = {}
    while not cursor.accept("}"):
        cursor.skip_space()
        start = cursor.position
        name = cursor.read_name("a name")
        if name in items:
            cursor.fail(f"frontend attribute '{name}' is given twice", start)
        cursor.expect("=")
        if not cursor.at('"') and not cursor.at("{"):
            cursor.fail("the value of a frontend attribute is a string or stands in braces")
        items[name] = cursor.read_value_text()
        if not cursor.accept(",") and not cursor.at("}"):
            cursor.fail("expected ',' or '}'")
    return items


def _frontend_text(items: dict[str, str]) -> str:
    if not items:
        return ""
    return "{" + ",".join(f"{name}={items[name]}" for name in sorted(items)) + "}"


def merged_frontend_attributes(text: str, more: Iterable[tuple[str, str]]) -> str:
    """The text of attributes with more of them, whose values are strings; what is there stays."""
    have = _frontend_items(Cursor(text)) if text else {}
    return _frontend_text({name: quote(value) for name, value in more} | have)


def read_backend_config(cursor: Cursor) -> str:
    """A quoted string, or raw JSON in braces; a string that is such JSON loses its quotes."""
    if cursor.at('"'):
        text = cursor.read_value_text()
        config = unescape(text[1:-1])
        return config_text(config)
    if not cursor.at("{"):
        cursor.fail("expected a quoted string or {...}")
    return cursor.read_value_text()


def config_text(config: str) -> str:
    """A backend configuration as printed: in braces as it is, else quoted; empty for none."""
    if not config:
        return ""
    return config if is_braced(config) else quote(config)


def is_braced(config: str) -> bool:
    """Whether a configuration can stand in the text without quotes."""
    if not (config.startswith("{") and config.endswith("}")):
        return False
    cursor = Cursor(config)
    return cursor.try_balanced() and cursor.position == len(config)


def _read_sharding(cursor: Cursor) -> str:
    return sharding_text(read_sharding(cursor))


def _read_replication(cursor: Cursor) -> str:
    """`{true,false}`, one flag a leaf of the parameter."""
    flags = read_list(cursor, "{", "}", Cursor.read_bool)
    return "{" + ",".join("true" if flag else "false" for flag in flags) + "}"


def _number(value: float) -> str:
    return format(value, "g")


def _read_statistics(cursor: Cursor) -> str:
    """`{visualizing_index=0,cov=0.5}`: which of the statistics to show, then each by name."""
    cursor.expect("{")
    if cursor.accept("}"):
        return ""
    cursor.expect("visualizing_index")
    cursor.expect("=")
    parts = [f"visualizing_index={cursor.read_integer()}"]
    while cursor.accept(","):
        name = cursor.read_name("the name of a statistic")
        cursor.expect("=")
        parts.append(f"{name}={_number(cursor.read_float())}")
    cursor.expect("}")
    return "{" + ",".join(parts) + "}"


_TOLERANCES = ("atol", "rtol", "ulps")


def _read_accuracy(cursor: Cursor) -> str:
    """`{mode=highest}` or `{tolerance={atol=1,rtol=0.5,ulps=2}}`."""
    cursor.expect("{")
    cursor.skip_space()
    start = cursor.position
    kind = cursor.read_name("mode or tolerance")
    cursor.expect("=")
    if kind == "mode":
        cursor.skip_space()
        start = cursor.position
        mode = cursor.read_name("default or highest")
        if mode not in ("default", "highest"):
            cursor.fail(f"'{mode}' is not one of default, highest", start)
        cursor.expect("}")
        return "{mode=highest}" if mode == "highest" else ""
    if kind != "tolerance":
        cursor.fail(f"'{kind}' is not one of mode, tolerance", start)
    values = dict(read_list(cursor, "{", "}", _read_tolerance))
    cursor.expect("}")
    body = ",".join(f"{name}={_number(values.get(name, 0))}" for name in _TOLERANCES)
    return f"{{tolerance={{{body}}}}}"


def _read_tolerance(cursor: Cursor) -> tuple[str, float]:
    cursor.skip_space()
    start = cursor.position
    name = cursor.read_name("a tolerance")
    if name not in _TOLERANCES:
        cursor.fail(f"'{name}' is not one of {', '.join(_TOLERANCES)}", start)
    cursor.expect("=")
    return name, cursor.read_integer() if name == "ulps" else cursor.read_float()


def _read_origin(cursor: Cursor) -> str:
    """`{{"x" {0}}}`: a tree of the arrays of the original program; `{[synthetic_call]}`."""
    cursor.expect("{")
    if cursor.accept("[synthetic_call]"):
        text = "[synthetic_call]"
    elif cursor.at("}"):
        text = "()"
    else:
        text = _read_origin_tree(cursor, 0)
    cursor.expect("}")
    return f"{{{text}}}"


def _read_origin_tree(cursor: Cursor, depth: int) -> str:
    if depth > MAX_NESTING:
        cursor.fail(f"origins are nested more than {MAX_NESTING} deep")
    if cursor.at("("):
        members = read_list(cursor, "(", ")", lambda c: _read_origin_tree(c, depth + 1))
        return f"({', '.join(members)})"
    cursor.expect("{")
    if cursor.accept("}"):
        return "{}"
    name = cursor.read_string()
    index = cursor.read_integers() if cursor.at("{") else ()
    cursor.expect("}")
    place = f" {{{','.join(map(str, index))}}}" if index else ""
    return f"{{{quote(name)}{place}}}"


# Attributes kept as text, in the order they are printed, with what reads them.
ANNOTATIONS: dict[str, Callable[[Cursor], str]] = {
    "parameter_replication": _read_replication,
    "sharding": _read_sharding,
    "frontend_attributes": read_frontend_attributes,
    "statistics": _read_statistics,
    "result_accuracy": _read_accuracy,
    "origin": _read_origin,
}
