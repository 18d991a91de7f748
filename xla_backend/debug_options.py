"""XLA_FLAGS: parsing, and the options that result from it.

Every flag of XLA is known with its type and default, so that a flag meant for XLA is never an
error; which of them act in this compiler is `flag_effects.ACTING`. An unknown flag or a bad value
raises with a suggestion, where XLA ends the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from xla_backend.hlo.errors import HloError
from xla_backend.process.on_first_use import on_first_use
from xla_backend.xla_flag_table import ENUM_VALUES, FLAGS, WIDE_INTEGERS

_close_matches = on_first_use("difflib", "get_close_matches")


class FlagError(HloError, ValueError):
    """A flag that does not exist or a value it does not take."""


class DebugOptions(SimpleNamespace):
    """All flags as attributes; see `xla_flag_table` for names, types and defaults."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"XLA_FLAGS has no flag {name!r}{_suggestion(name)}")


_TYPES = {name: kind for name, kind, _ in FLAGS}
_DEFAULTS = {name: default for name, _, default in FLAGS}
# Flags whose repetition appends instead of replacing.
_APPENDING = frozenset(
    {
        "xla_disable_hlo_passes",
        "xla_enable_hlo_passes_only",
        "xla_gpu_llvm_ir_file",
        "xla_gpu_ptx_file",
    }
)
# Flags that act, and what makes sense for them; others take whatever fits their type.
_MOST_DEVICES = 4096
_RANGES = {
    "xla_backend_optimization_level": (-1, 3),
    "xla_cpu_parallel_codegen_split_count": (1, 1024),
    "xla_cpu_prefer_vector_width": (1, 1 << 16),
    "xla_dump_max_hlo_modules": (-1, (1 << 31) - 1),
    "xla_force_host_platform_device_count": (1, _MOST_DEVICES),
    "xla_gpu_autotune_level": (0, 4),
}
# Enums that also take their values without the prefix.
_SHORT_ENUMS = frozenset({"xla_cpu_opt_preset"})


def _suggestion(name: str) -> str:
    close = _close_matches(name, _TYPES, n=1, cutoff=0.6)
    return f"; did you mean --{close[0]}?" if close else ""


def unknown_flag(name: str) -> FlagError:
    """The error for a name that is no flag, with the closest one."""
    return FlagError(f"there is no flag --{name}{_suggestion(name)}")


def _parse_bool(text: str) -> bool:
    word = text.lower()
    if word in ("true", "1"):
        return True
    if word in ("false", "0"):
        return False
    raise ValueError("expected true, false, 1 or 0")


def _parse_map(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (item.partition("=") for item in text.split(",")) if text else ()
    return tuple((key, value) for key, _, value in pairs)


def _parse_int(text: str, name: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ValueError("expected a decimal integer")
    value, bits = int(text), 64 if name in WIDE_INTEGERS else 32
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"it does not fit into {bits} bits")
    low, high = _RANGES.get(name, (value, value))
    if not low <= value <= high:
        raise ValueError(f"it must be from {low} to {high}")
    return value


def _parse_enum(text: str, name: str) -> str:
    values = ENUM_VALUES[name]
    if text in values:
        return text
    if name in _SHORT_ENUMS:
        for value in values:
            if value.endswith("_" + text):
                return value
    raise ValueError(f"expected one of {', '.join(values)}")


def _parse_list(text: str, name: str) -> tuple[str, ...]:
    items = tuple(text.split(",")) if text else ()
    values = ENUM_VALUES.get(name)
    if values is None:
        return items
    if not any(item[:1] in "+-" for item in items):
        return tuple(_list_value(item, values) for item in items)
    chosen = list(_DEFAULTS[name])  # +x and -y edit the default
    for item in items:
        if item[:1] not in "+-":
            raise ValueError("either every item has a + or - in front, or none")
        value = _list_value(item[1:], values)
        if item[0] == "+" and value not in chosen:
            chosen.append(value)
        elif item[0] == "-" and value in chosen:
            chosen.remove(value)
    return tuple(chosen)


def _list_value(text: str, values: tuple[str, ...]) -> str:
    """An enum value by its name in any case, or by the end of its name."""
    word = text.upper()
    for value in values:
        if value == word or value.endswith("_" + word):
            return value
    raise ValueError(f"{text!r} is none of {', '.join(values)}")


def _parse_fuel(text: str) -> tuple[tuple[str, int], ...]:
    pairs = []
    for name, count in _parse_map(text):
        if not count.isdecimal():
            raise ValueError("expected PASS=N, with N the rewrites that are allowed")
        pairs.append((name, int(count)))
    return tuple(pairs)


_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "bool": lambda text, name: _parse_bool(text),
    "int": _parse_int,
    "float": lambda text, name: float(text),
    "string": lambda text, name: text.upper() if name == "xla_cpu_max_isa" else text,
    "enum": _parse_enum,
    "list": _parse_list,
    "map": lambda text, name: _parse_fuel(text) if name == "xla_fuel" else _parse_map(text),
}

# --name=value with the value bare, 'literal' or "with \" escapes". Few processes have flags: it is
# compiled for the first one.
_TOKEN = (
    r"--(?P<name>[\w-]+)"
    r"""(?:=(?:'(?P<single>[^']*)'?|"(?P<double>(?:\\.|[^"\\])*)"?|(?P<bare>\S*)))?"""
)


def parse_flags(text: str, origin: str = "XLA_FLAGS") -> DebugOptions:
    """Options of a flag text such as `--xla_dump_to=dumps --xla_dump_hlo_pass_re=fusion`.

    A text that does not start with `-` names a file with flags.

    Raises:
      FlagError: an unknown flag (with the closest name), or a value its type does not take.
      FileNotFoundError: no such file.

    >>> parse_flags("--xla_force_host_platform_device_count=4").xla_force_host_platform_device_count
    4
    """
    options = DebugOptions(**{name: default for name, _, default in FLAGS})
    text = text.strip()
    if text and not text.startswith("-"):
        with open(text, encoding="utf-8") as file:
            text, origin = file.read().strip(), f"{origin} file {text}"
    unknown: list[str] = []
    position = 0
    while position < len(text):
        match = re.compile(_TOKEN).match(text, position)
        if match is None:
            rest = text[position:].split()[0]
            raise FlagError(
                f"cannot parse {rest!r} in {origin}: "
                "write flags as --name=value, separated by blanks"
            )
        position = match.end()
        while position < len(text) and text[position].isspace():
            position += 1
        name = match["name"]
        kind = _TYPES.get(name)
        if kind is None:
            unknown.append(f"--{name}{_suggestion(name)}")
            continue
        value = next((match[g] for g in ("single", "double", "bare") if match[g] is not None), None)
        if value is not None and match["double"] is not None:
            value = re.sub(r"\\(.)", r"\1", value)
        if value is None:
            if kind != "bool":
                raise FlagError(f"--{name} in {origin} needs a value: --{name}=<{kind}>")
            value = "true"
        set_option(options, name, value, origin)
    if unknown:
        plural = "s" if len(unknown) > 1 else ""
        raise FlagError(f"unknown flag{plural} in {origin}: {', '.join(unknown)}")
    return options


def set_option(options: DebugOptions, name: str, value: Any, origin: str) -> None:
    """Set one option from text or from a Python value of its type.

    Raises:
      FlagError: unknown name or bad value.
    """
    kind = _TYPES.get(name)
    if kind is None:
        raise FlagError(f"no such compile option {name!r} ({origin}){_suggestion(name)}")
    try:
        parsed = _PARSERS[kind](_as_text(value), name)
    except ValueError as error:
        article = "an" if kind[0] in "aeiou" else "a"
        raise FlagError(
            f"bad value {value!r} for --{name} ({origin}), {article} {kind}: {error}"
        ) from None
    if name in _APPENDING:
        parsed = getattr(options, name) + parsed
    setattr(options, name, parsed)


def _as_text(value: Any) -> str:
    """A Python value as it would be written in XLA_FLAGS."""
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else str(value)


def changed_flags(options: DebugOptions) -> tuple[tuple[str, Any], ...]:
    """(name, value) of the flags that differ from their defaults, in the order of the table."""
    values = vars(options)
    if values == _DEFAULTS:  # at each compilation: several times faster than going through them
        return ()
    return tuple((name, values[name]) for name, _, default in FLAGS if values[name] != default)


_current: DebugOptions | None = None


def current_debug_options() -> DebugOptions:
    """Options of the environment variable XLA_FLAGS, read once, at the first use; again as long as
    it says `--xla_flags_reset`."""
    global _current
    if _current is None or _current.xla_flags_reset:
        _current = parse_flags(os.environ.get("XLA_FLAGS", ""))
    return _current


def with_overrides(overrides: dict[str, Any]) -> DebugOptions:
    """The environment's options with some replaced, for one compilation."""
    options = DebugOptions(**vars(current_debug_options()))
    for name, value in overrides.items():
        set_option(options, name, value, "compiler_options")
    return options
