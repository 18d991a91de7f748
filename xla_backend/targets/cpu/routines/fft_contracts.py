"""Contracts of Fourier transforms; `fft` says what their operands mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.targets.cpu.routines.fft_plan import (
    CHIRP_FFT,
    CHIRP_IRFFT,
    CHIRP_NUMBERS,
    CHIRP_REAL,
    CHIRPS,
    KINDS,
    NUMBERS,
    PAIRS_IRFFT,
    PAIRS_NUMBERS,
    PAIRS_RFFT,
    TYPES,
)
from xla_backend.targets.cpu.routines.matrix_facts import REALS

Array = np.ndarray


def _run(kind: str, *operands: Any) -> None:
    count = len(NUMBERS)
    d = dict(zip(NUMBERS, operands[:count]))
    _, _, rotations, _, x, y = operands[count:]
    n, inner = d["n"], d["inner"]
    packed = kind.startswith("packed")
    if packed:  # what is real lies as pairs
        if kind == "packed_rfft":
            x = x[: x.size // 2 * 2].view(np.result_type(x, np.complex64))
        else:
            y = y[: y.size // 2 * 2].view(np.result_type(y, np.complex64))
    given = {"irfft": n // 2 + 1, "packed_irfft": n + 1}.get(kind, n)
    rows = np.arange(d["outer"])[:, None, None]
    columns = np.arange(inner)[:, None]
    places = rows * d["in_outer"] + columns * d["in_inner"] + np.arange(given) * d["in_step"]
    values = x[places]
    wide = np.complex128 if values.dtype.kind == "c" else np.float64
    values = values.astype(wide)
    result: Array
    if kind == "packed_rfft":
        result = np.fft.rfft(values.view(np.float64))
    elif kind == "packed_irfft":
        result = np.fft.irfft(values, 2 * n).view(np.complex128)
    elif kind == "irfft":
        result = np.fft.irfft(values, n) if d["inverse"] else np.fft.hfft(values, n)
    else:
        result = np.fft.ifft(values) if d["inverse"] else np.fft.fft(values)
    if rotations is not None and not packed:
        # The first of them is one part of a turn of the whole length.
        turn = 2j * np.pi * np.arange(n) * columns / (n * inner)
        result = result * np.exp(turn if d["inverse"] else -turn)
    targets = rows * d["out_outer"] + columns * d["out_inner"]
    for k in range(d["kept"] + (d["tail"] > 0)):
        most = inner if k < d["kept"] else d["tail"]
        y[targets[:, :most, 0] + k * d["out_step"]] = result[:, :most, k].astype(y.dtype)


def _routines() -> list[Routine]:
    found = []
    for kind in KINDS:
        for t in TYPES:
            real = REALS[t]
            parameters = (
                *(Parameter(number, Kind.NUMBER) for number in NUMBERS),
                Parameter("passes", Kind.NUMBERS),
                Parameter("roots", Kind.READ, real),
                Parameter("rotations", Kind.READ, real, optional=True),
                Parameter("places", Kind.READ, P.S32, optional=True),
                Parameter("x", Kind.READ, real if kind in ("rfft", "packed_rfft") else t),
                Parameter("y", Kind.UPDATE, real if kind.endswith("irfft") else t),
            )
            found.append(
                Routine(
                    f"{kind}_{t}",
                    parameters,
                    partial(_run, kind),
                    stops=True,
                    steady=True,
                    in_place=(("y", "x"),) if kind == "fft" else (),
                )
            )
    return found


def _run_chirp(kind: str, *operands: Any) -> None:
    d = dict(zip(CHIRP_NUMBERS, operands))
    table, x, y = operands[len(CHIRP_NUMBERS) :]
    given, made = d["given"], d["made"]
    rows = np.arange(d["rows"])[:, None]
    numbers = np.arange(min(given, made))
    mirrored = (kind == CHIRP_IRFFT) & (2 * numbers > given)
    read = np.where(mirrored, given - numbers, numbers)
    values = x[rows * d["in_row"] + read]
    if kind == CHIRP_IRFFT:
        values = np.where(mirrored, values.conj(), values)
        values = np.where(numbers == 0, values.real, values)
    result = np.zeros((d["rows"], made), np.result_type(values, np.complex64))
    result[:, : numbers.size] = values if table is None else values * table[: numbers.size]
    y[rows * d["out_row"] + np.arange(made)] = result.real if kind == CHIRP_REAL else result


def _run_pairs(kind: str, outer: int, n: int, half_turn: Array, x: Array, y: Array) -> None:
    given, made = (n + 1, n) if kind == PAIRS_IRFFT else (n, n + 1)
    values = x[: outer * given].reshape(outer, given).astype(np.complex128)
    if kind == PAIRS_IRFFT:
        pairs = np.fft.irfft(values, 2 * n).view(np.complex128)
        result = np.fft.fft(pairs)
    else:
        result = np.fft.rfft(np.fft.ifft(values).view(np.float64))
    y[: outer * made] = result.reshape(-1)


def _row_routines() -> list[Routine]:
    found = []
    for t in TYPES:
        real = REALS[t]
        for kind, types in CHIRPS.items():
            source, target = types(t, real)
            arrays = (
                Parameter("table", Kind.READ, t, optional=True),
                Parameter("x", Kind.READ, source),
                Parameter("y", Kind.UPDATE, target),
            )
            in_place = (("y", "x"),) if kind == CHIRP_FFT else ()
            found.append(_of_rows(kind, t, CHIRP_NUMBERS, arrays, _run_chirp, in_place))
        for kind in (PAIRS_RFFT, PAIRS_IRFFT):
            arrays = (
                Parameter("half_turn", Kind.READ, real),
                Parameter("x", Kind.READ, t),
                Parameter("y", Kind.UPDATE, t),
            )
            found.append(_of_rows(kind, t, PAIRS_NUMBERS, arrays, _run_pairs, ()))
    return found


def _of_rows(
    kind: str,
    t: P,
    numbers: tuple[str, ...],
    arrays: tuple[Parameter, ...],
    run: Callable[..., None],
    in_place: tuple[tuple[str, str], ...],
) -> Routine:
    parameters = (*(Parameter(number, Kind.NUMBER) for number in numbers), *arrays)
    reference = partial(run, kind)
    return Routine(f"{kind}_{t}", parameters, reference, stops=True, steady=True, in_place=in_place)


ROUTINES = {routine.name: routine for routine in (*_routines(), *_row_routines())}
