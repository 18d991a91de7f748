"""The XLA flags as a list: `python -m xla_backend.flags [--all|--acting|--inert] [NAME ...]`.

Each flag with its type, default, current value (from XLA_FLAGS), whether it acts in this compiler,
and one line of meaning.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from xla_backend.debug_options import FlagError, current_debug_options, unknown_flag
from xla_backend.flag_effects import ACTING
from xla_backend.inert_distribution_flags import INERT_DISTRIBUTION_FLAGS
from xla_backend.xla_flag_meanings import MEANINGS
from xla_backend.xla_flag_table import ENUM_VALUES, FLAGS


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the flags; exit status 1 for a bad name or bad XLA_FLAGS, with the reason on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m xla_backend.flags", description="List the flags of XLA_FLAGS."
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="every flag (the default)")
    which.add_argument("--acting", action="store_true", help="those that act in this compiler")
    which.add_argument(
        "--inert", action="store_true", help="those that are accepted and do nothing"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these flags")
    chosen, dashed = parser.parse_known_args(arguments)
    try:
        names = [*chosen.names, *dashed]  # flags may be named with their dashes
        for line in listing(names, acting=chosen.acting, inert=chosen.inert):
            print(line)
    except FlagError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def listing(names: Sequence[str] = (), *, acting: bool = False, inert: bool = False) -> list[str]:
    """Lines about the flags: all, the acting or the inert ones, or those named.

    Raises:
      FlagError: no flag has one of the names; or XLA_FLAGS does not parse.
    """
    wanted = [name.lstrip("-") for name in names]
    known = {name for name, _, _ in FLAGS}
    for name in wanted:
        if name not in known:
            raise unknown_flag(name)
    current = vars(current_debug_options())
    lines = []
    for name, kind, default in FLAGS:
        skipped = (acting and name not in ACTING) or (inert and name in ACTING)
        if skipped or (wanted and name not in wanted):
            continue
        lines += _entry(name, kind, default, current[name])
    return lines


def _entry(name: str, kind: str, default: Any, value: Any) -> list[str]:
    state = "acting" if name in ACTING else "inert"
    changed = "" if value == default else f", now {_shown(value)}"
    lines = [
        f"--{name}  {kind}, default {_shown(default)}{changed}  [{state}]",
        f"    {MEANINGS[name]}",
    ]
    if name in INERT_DISTRIBUTION_FLAGS:
        lines.append(f"    No effect: {INERT_DISTRIBUTION_FLAGS[name]}.")
    if kind == "enum":
        lines.append(f"    Values: {', '.join(ENUM_VALUES[name])}")
    return lines


def _shown(value: Any) -> str:
    """A value as it is written in XLA_FLAGS."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        pairs = ["=".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in value]
        return ",".join(pairs) or '""'
    return str(value) if value != "" else '""'


if __name__ == "__main__":
    sys.exit(main())
