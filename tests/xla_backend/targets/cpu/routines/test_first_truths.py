"""The first truth value of rows, by the routine itself: rows of any length, and where it is."""

import ctypes

import numpy as np
import pytest

from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.routines.library import kernel_library

I64, PTR = ctypes.c_int64, ctypes.c_void_p


def first(extreme: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    outer, n = rows.shape
    values, places = np.empty(outer, bool), np.empty(outer, np.int32)
    work = np.empty(outer * (n // 65536 + 1), np.int64)
    call = ctypes.CFUNCTYPE(None, *[PTR] * 4, I64, I64)(
        kernel_library()[f"pyjax_first_{extreme}_pred"]
    )
    call(*(a.ctypes.data for a in (rows, values, places, work)), outer, n)
    return values, places


@pytest.mark.parametrize("extreme", ["max", "min"])
@pytest.mark.parametrize("n", [1, 15, 16, 63, 64, 65, 100, 127, 128, 191, 257, 1000, 140_001])
def test_the_first_of_each_row(extreme: str, n: int) -> None:
    rows = np.zeros((40, n), bool)
    for row, place in enumerate(np.linspace(0, n - 1, 38).astype(int)):
        rows[row, place] = True
        rows[row, place + 1 :] = np.random.default_rng(row).random(n - place - 1) < 0.5
    if extreme == "min":
        rows = ~rows
    before = num_threads()
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            values, places = first(extreme, rows)
            reduce, find = (np.max, np.argmax) if extreme == "max" else (np.min, np.argmin)
            np.testing.assert_array_equal(values, reduce(rows, axis=1))
            np.testing.assert_array_equal(places, find(rows, axis=1))
    finally:
        set_num_threads(before)
