"""XLA_FLAGS: parsing, and the options that results from it.

Every flag of XLA is known with its type and default, so that a flag meant for XLA is never an
error; which of
them act in this compiler is the set ACTING. An unknown flag or a bad value raises with a
suggestion, where XLA
ends the process.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from xla_backend.hlo.errors import HloError
from xla_backend.xla_flag_table import FLAGS

ACTING = frozenset(
    {
        "xla_disable_hlo_passes",
        "xla_dump_disable_metadata",
        "xla_dump_hlo_as_text",
        "xla_dump_hlo_module_re",
        "xla_dump_hlo_pass_re",
        "xla_dump_large_constants",
        "xla_dump_to",
        "xla_force_host_platform_device_count",
    }
)


class FlagError(HloError, ValueError):
    """A flag that does not exist or a value it does not take."""


class DebugOptions(SimpleNamespace):
    """All flags as attributes; see `xla_flag_table` for names, types and defaults."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"XLA_FLAGS has no flag {name!r}{_suggestion(name)}")


_TYPES = {name: kind for name, kind, _ in FLAGS}
# Flags whose repetition appends instead of replacing.
_APPENDING = frozenset({"xla_disable_hlo_passes", "xla_enable_hlo_passes_only", "xla_gpu_ptx_file"})


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, _TYPES, n=1, cutoff=0.6)
    return f"; did you mean --{close[0]}?" if close else ""


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


_PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": _parse_bool,
    "int": int,
    "float": float,
    "string": str,
    "enum": str,
    "list": lambda text: tuple(text.split(",")) if text else (),
    "map": _parse_map,
}

# --name=value with the value bare, 'literal' or "with \" escapes"
_TOKEN = re.compile(
    r"""--(?P<name>[\w-]+)(?:=(?:'(?P<single>[^']*)'?|"(?P<double>(?:\\.|[^"\\])*)"?|(?P<bare>\S*)))?"""
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
        match = _TOKEN.match(text, position)
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
        parsed = _PARSERS[kind](value if isinstance(value, str) else str(value))
    except ValueError as error:
        raise FlagError(f"bad value {value!r} for --{name} ({origin}), a {kind}: {error}") from None
    if name in _APPENDING:
        parsed = getattr(options, name) + parsed
    setattr(options, name, parsed)


@functools.cache
def current_debug_options() -> DebugOptions:
    """Options of the environment variable XLA_FLAGS, read once, at the first use."""
    return parse_flags(os.environ.get("XLA_FLAGS", ""))


def with_overrides(overrides: dict[str, Any]) -> DebugOptions:
    """The environment's options with some replaced, for one compilation."""
    options = DebugOptions(**vars(current_debug_options()))
    for name, value in overrides.items():
        set_option(options, name, value, "compiler_options")
    return options
