"""Sweeps of which every change runs a sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def sampled(names: str, rows: Iterable[Any], every: int, ids: Any = None) -> pytest.MarkDecorator:
    """`pytest.mark.parametrize`, with all rows slow but one of `every` so many."""
    several = "," in names

    def slow(row: Any) -> ParameterSet:
        if isinstance(row, ParameterSet):
            return pytest.param(*row.values, id=row.id, marks=[*row.marks, pytest.mark.slow])
        return pytest.param(*(row if several else (row,)), marks=pytest.mark.slow)

    marked = [slow(row) if number % every else row for number, row in enumerate(rows)]
    return pytest.mark.parametrize(names, marked, ids=ids)
