"""Reads and writes recorded results: one file of sorted keys per table, in a folder.

An entry, under the key of its case:

    {"operands": checksum, "value": outcome, "trace": {} or error, "jvp": outcome, "vjp": outcome}

The last two stand only where the case is differentiated (jvp: only for elementwise functions), the
last three only where the value is no error.
"""

from __future__ import annotations

import json
import lzma
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from tests.edge_values.operands import operand
from tests.edge_values.rows import Case

FOLDER = Path(__file__).parent / "recorded"


def checksum(case: Case) -> int:
    """Changes when the operands of the case change: its record is stale then."""
    total = 0
    for name in case.operands:
        total = zlib.crc32(operand(name, case.dtype).tobytes(), total)
    return total


@cache
def load(table: str, folder: Path = FOLDER) -> dict[str, Any]:
    path = folder / f"{table}.json.xz"
    return json.loads(lzma.decompress(path.read_bytes())) if path.exists() else {}


def save(table: str, entries: dict[str, Any], folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(entries, sort_keys=True, separators=(",", ":"))
    (folder / f"{table}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
