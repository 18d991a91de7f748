"""All operator tables, joined: the `OPS` of every op_table_*.py beside this file."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.op_table import Op

TABLES = sorted(path.stem for path in Path(__file__).parent.glob("op_table_*.py"))
OPS: list[Op] = [op for name in TABLES for op in importlib.import_module(f"tests.{name}").OPS]
