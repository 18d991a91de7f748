"""Contracts of transposes: what the plans of `transpose_plans` say, done by NumPy."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.targets.cpu.routines.contract_parts import OnDemand
from xla_backend.targets.cpu.routines.transpose_plans import (
    DIGITS,
    FIELDS,
    SHUFFLE_FIELDS,
    SHUFFLED,
    routine_names,
)

_PARAMETERS = (
    Parameter("in", Kind.READ),
    Parameter("out", Kind.WRITE),
    Parameter("plan", Kind.NUMBERS),
)


def _transpose(name: str) -> Routine:
    return Routine(name, _PARAMETERS, partial(_run, name), stops=True, steady=True)


def _run(name: str, source: np.ndarray, target: np.ndarray, plan: tuple[int, ...]) -> None:
    p, table = dict(zip(FIELDS, plan)), plan[len(FIELDS) :]
    places = [np.zeros((), np.int64), np.zeros((), np.int64)]

    def add(size: int, *steps: int) -> None:
        for k, step in enumerate(steps):
            places[k] = places[k][..., None] + np.arange(size) * step

    for k in range(p["others"]):
        add(p[f"size{k}"], p[f"from{k}"], p[f"to{k}"])
    # Units of a group lie side by side in one of the arrays, the first digit fastest.
    for group, beside in (("across", 0), ("along", 1)):
        sizes = [p[f"{group}_size{k}"] for k in range(DIGITS)]
        for k in reversed(range(DIGITS)):
            steps = [p["unit"] * math.prod(sizes[:k]), p[f"{group}_step{k}"]]
            add(sizes[k], *(steps if beside == 0 else steps[::-1]))
    if name == SHUFFLED:
        packed = np.array(table[len(SHUFFLE_FIELDS) :], np.int64).view(np.int16)
        within = packed[: p["unit"]].astype(np.int64)  # of the first of those that are permuted
        places = [places[0][..., None] + within, places[1][..., None] + np.arange(p["unit"])]
    elif name.startswith("swapped"):
        across, along, unit = map(int, name.split("_")[1:])
        add(across, unit, along * unit)
        add(along, across * unit, unit)
        add(unit, 1, 1)
    else:
        add(p["unit"], 1, 1)
    target[places[1]] = source[places[0]]


ROUTINES = OnDemand({name: partial(_transpose, name) for name in routine_names()})
