"""Runs rows, in a process of its own, which has eight devices: keys come in line by line, outcomes
go out (JSON)."""

from __future__ import annotations

import json
import sys

import pyjax
from tests.collectives.execute import Library, outcome
from tests.collectives.rows import row_of

if __name__ == "__main__":
    library = Library(pyjax)
    for line in sys.stdin:
        # One that never ends is the last that was announced.
        print(line, end="", file=sys.stderr, flush=True)
        print(json.dumps(outcome(library, row_of(line.rstrip("\n")))), flush=True)
