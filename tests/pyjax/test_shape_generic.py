"""Elementwise programs that are compiled once for vectors of any length."""

import numpy as np
import pytest

import pyjax
from pyjax import lax
from pyjax import numpy as jnp
from pyjax.runtime import shape_generic


def _programs_made_by(run) -> int:
    before = len(shape_generic._makers)
    run()
    return len(shape_generic._makers) - before


@pytest.fixture(autouse=True)
def _no_programs():
    pyjax.clear_caches()


@pytest.mark.parametrize(
    "op, args",
    [
        (lax.exp, (np.linspace(-1, 1, 5, dtype=np.float32),)),
        (lax.add, (np.arange(5), np.arange(5))),
        (lax.convert_element_type, (np.arange(5), np.float32)),
        (lax.select_n, (np.arange(5) > 2, np.arange(5), np.ones(5, int))),
        (lax.clamp, (np.int32(1), np.arange(5, dtype=np.int32), np.int32(3))),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_primitive_shares_its_program_with_jit(op, args):
    """They find each other's programs: one primitive has the structure of its jaxpr."""
    args = tuple([jnp.asarray(a) if isinstance(a, (np.ndarray, np.generic)) else a for a in args])
    arrays = [a for a in args if not isinstance(a, type)]

    def of_arrays(*xs):
        return op(*xs, *args[len(arrays) :])

    assert _programs_made_by(lambda: of_arrays(*arrays)) == 1
    np.testing.assert_array_equal(pyjax.jit(of_arrays)(*arrays), of_arrays(*arrays))
    assert len(shape_generic._makers) == 1


def test_a_new_shape_makes_no_new_program():
    x = np.ones((2, 4), np.float32)
    assert _programs_made_by(lambda: lax.exp(x[0])) == 1
    assert _programs_made_by(lambda: lax.exp(x)) == 0
    assert _programs_made_by(lambda: lax.exp(x.astype(np.float16))) == 1
    assert _programs_made_by(lambda: lax.exp(x[0, 0])) == 0  # no array, no length


@pytest.mark.parametrize("n", [1, 4095, 4096, 65_536, 65_537, 300_000])
def test_lengths_up_to_and_beyond_the_limits(n):
    x = np.linspace(-3, 3, n, dtype=np.float32)
    np.testing.assert_allclose(lax.exp(jnp.asarray(x)), np.exp(x), rtol=3e-7)


def test_arrays_of_different_shapes_are_refused_as_ever():
    with pytest.raises(TypeError, match="shapes"):
        lax.add_p.bind(jnp.ones(3), jnp.ones(4))
