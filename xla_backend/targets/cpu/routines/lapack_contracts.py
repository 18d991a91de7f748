"""Contracts of the routines of LAPACK: `lapack_table` as parameters, and SciPy as the reference."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.runtime.host_libraries.lapack_calls import lapack_routine
from xla_backend.targets.cpu.routines.lapack_table import LAPACK, LapackRoutine


def _routines() -> list[Routine]:
    return [
        Routine(
            f"lapack_{name}_{t}",
            (
                *(Parameter(number, Kind.NUMBER) for number in routine.numbers),
                *(Parameter(a.name, Kind.READ, a.type_for(t)) for a in routine.reads),
                *(
                    Parameter(a.name, Kind.WRITE, a.type_for(t), optional=a.optional)
                    for a in routine.writes
                ),
                Parameter("memory", Kind.WORK),
            ),
            partial(_run, routine),
            stops=True,
            steady=True,
        )
        for (name, t), routine in LAPACK.items()
    ]


def _run(routine: LapackRoutine, *operands: Any) -> None:
    numbers = dict(zip(routine.numbers, operands))
    given = dict(zip((a.name for a in routine.arrays), operands[len(numbers) :]))
    options = {name: numbers[name] for name in routine.options}

    def problems(arrays: Any) -> list[np.ndarray]:
        found = []
        for array in arrays:
            if given[array.name] is not None:
                shape = (numbers["batches"], *(numbers[size] for size in array.sizes))
                count = int(np.prod(shape))
                found.append(given[array.name][:count].reshape(shape))
        return found

    run = lapack_routine(routine.name)
    reads, writes = problems(routine.reads), problems(routine.writes)
    for b in range(numbers["batches"]):
        run(options, [x[b] for x in reads], [x[b, ...] for x in writes])


ROUTINES = {routine.name: routine for routine in _routines()}
