"""`python -m pyjax` and `pyjax`: one entry to what can be done from a shell."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pyjax._config import config
from pyjax.tools.commands import cache, doctor, explain, options, precompile, run
from pyjax.version import __version__

COMMANDS = (options, doctor, run, explain, cache, precompile)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pyjax",
        description="Every option is a flag, too: --jax_enable_x64, --jax_platforms=cpu ...",
    )
    parser.add_argument("--version", action="version", version=f"pyjax {__version__}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status; 2 for one that is wrong."""
    parser = make_parser()
    words = list(sys.argv[1:] if arguments is None else arguments)
    # What comes after the script belongs to the script, flags that look like ours as well.
    end = run.own_arguments(words)
    try:
        rest = config.parse_known(words[:end])
    except ValueError as error:
        parser.error(str(error))
    chosen = parser.parse_args([*rest, *words[end:]])
    try:
        return chosen.run(chosen)
    except BrokenPipeError:  # `pyjax config | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def console() -> None:
    """Entry point of the command."""
    sys.exit(main())
