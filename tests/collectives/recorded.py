"""Reads and writes what was recorded of the rows: by key, the outcome (see `execute.outcome`)."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("recorded.json.xz")


@cache
def load() -> dict[str, dict[str, Any]]:
    return json.loads(lzma.decompress(PATH.read_bytes())) if PATH.exists() else {}


def save(entries: Mapping[str, Mapping[str, Any]]) -> None:
    text = json.dumps(entries, sort_keys=True, separators=(",", ":"))
    PATH.write_bytes(lzma.compress(text.encode(), preset=9))
