"""pyjax config: every option, its value, who set it, and what it does."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pyjax._config import listing
from pyjax._config.registry import find


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "config",
        help="all options: value, who set it, type, default, what it does",
        description="All options, their values in force and who set them.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these options")
    parser.add_argument(
        "--search", metavar="WORDS", default="", help="those that all these words occur in"
    )
    parser.add_argument("--changed", action="store_true", help="those that are not at default")
    parser.add_argument("--ours", action="store_true", help="those that JAX does not have")
    parser.add_argument(
        "--markdown", action="store_true", help="as the reference page, without values"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    try:
        named = [find(name) for name in chosen.names]
    except AttributeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    areas = {
        title: [
            option
            for option in options
            if (not named or option in named)
            and (not chosen.changed or option.value != option.default)
            and (not chosen.ours or option.ours)
        ]
        for title, options in listing.matching(listing.AREAS, chosen.search).items()
    }
    areas = {title: options for title, options in areas.items() if options}
    if chosen.markdown:
        print(listing.markdown(areas), end="")
        return 0
    if not areas:
        print("no option is like that", file=sys.stderr)
        return 1
    for line in listing.text(areas):
        print(line)
    return 0
