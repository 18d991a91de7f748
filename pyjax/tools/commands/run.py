"""pyjax run: a program written for JAX runs on pyjax."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from pyjax.tools.as_jax import run_program


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "run",
        help="run a program written for JAX on pyjax",
        description="Run a program in which `import jax` gives pyjax. Flags of pyjax come before "
        "the script.",
    )
    parser.add_argument(
        "-m", dest="module", action="store_true", help="SCRIPT is the name of a module"
    )
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    parser.set_defaults(run=run)


def own_arguments(words: Sequence[str]) -> int:
    """How many of the words are read by `pyjax`: all, or those up to the script that it runs."""
    if "run" not in words:
        return len(words)
    first = words.index("run") + 1
    for i in range(first, len(words)):
        if not words[i].startswith("-"):
            return i
    return len(words)


def run(chosen: argparse.Namespace) -> int:
    run_program(chosen.script, chosen.arguments, chosen.module)
    return 0
