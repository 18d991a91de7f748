"""Rows of complex numbers: their last vectors are read in pieces, running sums go along them."""

import numpy as np
import pytest
from native_checks import check_native

from xla_backend.hlo.parser import parse_module
from xla_backend.llvm.types import first_lanes, vector_const

SUM = """HloModule m
add {{
  x = {t}[] parameter(0)
  y = {t}[] parameter(1)
  ROOT z = {t}[] add(x, y)
}}
ENTRY main {{
  p = {t}[{rows},{n}] parameter(0)
  zero = {t}[] constant((0, 0))
  ROOT s = {result} {reduction}, to_apply=add
}}"""


def numbers(type: str, rows: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    x = rng.normal(size=(rows, n)) + 1j * rng.normal(size=(rows, n))
    return x.astype({"c64": np.complex64, "c128": np.complex128}[type])


@pytest.mark.parametrize("type", ["c64", "c128"])
@pytest.mark.parametrize("n", [33, 37, 48, 65, 101, 127])
def test_no_lane_of_a_row_that_ends_early_goes_to_memory_alone(type: str, n: int) -> None:
    """An array that ends with the last row: nothing behind it is read."""
    reduction = "reduce(p, zero), dimensions={1}"
    text = SUM.format(t=type, rows=50, n=n, result=f"{type}[50]", reduction=reduction)
    executable = check_native(parse_module(text), [numbers(type, 50, n)])
    assert "lanes" in "".join(executable.loop_ir.values())
    assert "masked.gather" not in executable.llvm_ir


@pytest.mark.parametrize("type", ["c64", "c128"])
def test_running_sums_go_along_rows(type: str) -> None:
    """Lanes of different rows would be stored one by one."""
    window = "window={size=1x40 pad=0_0x39_0}"
    text = SUM.format(
        t=type,
        rows=70,
        n=40,
        result=f"{type}[70,40]",
        reduction=f"reduce-window(p, zero), {window}",
    )
    executable = check_native(parse_module(text), [numbers(type, 70, 40)])
    assert "lanes" not in "".join(executable.loop_ir.values())


def test_first_lanes_of_masks() -> None:
    for count in range(9):
        assert first_lanes(vector_const("i1", [lane < count for lane in range(8)])) == count
    assert first_lanes(vector_const("i1", [False, True])) is None
    assert first_lanes("%v1") is None and first_lanes("true") is None
