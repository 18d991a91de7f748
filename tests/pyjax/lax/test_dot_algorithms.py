"""Algorithms of contractions that are spelled out are the ones with names."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pyjax.numpy as jnp
from pyjax import grad, jit, lax
from pyjax.lax import DotAlgorithm, DotAlgorithmPreset

F32, BF16 = np.float32, ml_dtypes.bfloat16

SPELLED = [
    (DotAlgorithm(F32, F32, F32), DotAlgorithmPreset.F32_F32_F32),
    (DotAlgorithm(np.dtype(F32), F32, "float32"), DotAlgorithmPreset.F32_F32_F32),
    (DotAlgorithm(jnp.bfloat16, jnp.bfloat16, jnp.float32), DotAlgorithmPreset.BF16_BF16_F32),
    (
        DotAlgorithm(BF16, BF16, F32, num_primitive_operations=3),
        DotAlgorithmPreset.BF16_BF16_F32_X3,
    ),
    (DotAlgorithm(np.float16, np.float16, F32), DotAlgorithmPreset.F16_F16_F32),
]


@pytest.mark.parametrize(("algorithm", "preset"), SPELLED)
def test_programs_are_those_of_the_name(algorithm, preset):
    x = jnp.ones((2, 3), preset.accumulation_dtype())

    def lowered(precision):
        return jit(lambda x: lax.dot(x, x.T, precision=precision)).lower(x).as_text()

    assert lowered(algorithm) == lowered(preset)


def test_gradients_are_formed_in_the_same_way():
    x = jnp.arange(6.0).reshape(2, 3)
    f = grad(lambda x: lax.dot(x, x.T, precision=DotAlgorithm(F32, F32, F32)).sum())
    np.testing.assert_array_equal(f(x), 2 * x.sum(0) + 0 * x)


@pytest.mark.parametrize(
    "algorithm",
    [DotAlgorithm(np.float64, F32, F32), DotAlgorithm(F32, F32, F32, num_primitive_operations=2)],
)
def test_others_are_refused(algorithm):
    with pytest.raises(ValueError, match=r"(?s)is not supported.*BF16_BF16_F32_X3, .*F32_F32_F32"):
        lax.dot(jnp.ones((2, 3)), jnp.ones(3), precision=algorithm)
