"""The hottest paths take no more instructions than they took; times are for benchmarks."""

from __future__ import annotations

import pytest
from pyjax._config import options

from tests.instruction_counts import CannotStep, count_instructions

SETUP = """
import numpy as np, pyjax, pyjax.numpy as jnp
x, y, n = jnp.arange(4.0), jnp.ones(4), np.ones(4, np.float32)
plain = pyjax.jit(lambda a, b: a * b + 1)
static = pyjax.jit(lambda a, times: a * times, static_argnums=1)
tree = pyjax.jit(lambda t: t["3"] + t["7"])
leaves = {str(i): x for i in range(20)}
"""

# Instructions as counted (Python 3.11, x86-64), the whole call with a Python lambda around it. One
# that falls back to Python takes ten times as many. NumPy's own sum of such arrays takes 3,900.
COUNTED = {
    "x + y": 4_350,
    "x * 2.0": 4_160,
    "plain(x, y)": 5_200,
    "plain(x, n)": 4_900,
    "static(x, 3)": 4_650,
    "tree(leaves)": 8_930,
    "x[0]": 9_530,
    "x.reshape(2, 2)": 4_330,
    "x.sum()": 3_960,
    "jnp.sin(x)": 5_700,
}
SLACK = 1.25


@pytest.mark.skipif(not options.native_dispatch.value, reason="these are of native calls")
def test_hot_paths_take_no_more_instructions() -> None:
    try:
        counts = count_instructions(SETUP, {path: path for path in COUNTED}, calls=3)
    except CannotStep as why:
        pytest.skip(str(why))
    more = {path: n for path, n in counts.items() if n > SLACK * COUNTED[path]}
    assert not more, f"instructions of a call, more than {SLACK} of {COUNTED}: {more}"


def test_each_instruction_is_counted() -> None:
    """A path that does a thing twice takes twice as many."""
    try:
        counts = count_instructions("n = 5 ** 99", {"one": "n * n", "two": "(n * n, n * n)"}, 5)
    except CannotStep as why:
        pytest.skip(str(why))
    assert 50 < counts["one"] < 5_000
    assert 1.7 < counts["two"] / counts["one"] < 2.6
