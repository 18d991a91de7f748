"""Reads and writes the recorded types, `recorded.json.xz`.

Under "32" and "64" (whether 64 bits are enabled), for each call, the outcomes of all combinations
of kinds in the order of `Call.kinds`, separated by spaces.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path

FILE = Path(__file__).parent / "recorded.json.xz"


@cache
def load() -> dict[str, dict[str, str]]:
    return json.loads(lzma.decompress(FILE.read_bytes()))


def save(found: dict[str, dict[str, str]]) -> None:
    text = json.dumps(found, sort_keys=True, indent=0)
    FILE.write_bytes(lzma.compress(text.encode(), preset=9))
