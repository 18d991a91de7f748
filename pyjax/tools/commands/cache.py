"""pyjax cache: what is kept on disk."""

from __future__ import annotations

import argparse
from typing import Any

from xla_backend.persistent import store


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "cache",
        help="what is kept on disk: status, clear",
        description="The persistent compilation cache.",
    )
    parser.add_argument("action", choices=("status", "clear"), nargs="?", default="status")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    if chosen.action == "clear":
        print(f"removed {store.clear()} entries")
        return 0
    for name, value in store.status()._asdict().items():
        print(f"{name}: {value}")
    return 0
