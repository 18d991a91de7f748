"""The promotion lattice against a table of JAX's results: all pairs, both modes, x64 on and off."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from pyjax._config import options

from pyjax import dtypes as public_dtypes
from pyjax.core import dtypes

TABLE = json.loads((Path(__file__).parent / "promotion_table.json").read_text())
WEAK = {"i*": 1, "f*": 1.0, "c*": 1j}


def operand(name: str):
    if name in WEAK:
        return WEAK[name]
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@pytest.mark.parametrize("case", TABLE["tables"])
def test_result_type(case):
    mode, x64 = case.split("-x64=")
    names = TABLE["names"]
    with options.enable_x64(x64 == "True"), options.numpy_dtype_promotion(mode):
        for a, row in zip(names, TABLE["tables"][case]):
            for b, expected in zip(names, row.split(" ")):
                if expected == "!":
                    with pytest.raises(dtypes.TypePromotionError):
                        dtypes.result_type(operand(a), operand(b))
                    continue
                dtype, weak = dtypes.result_type(operand(a), operand(b), return_weak_type_flag=True)
                assert f"{dtype}{'*' if weak else ''}" == expected, (a, b)


def test_error_names_dtypes_and_fix():
    with pytest.raises(dtypes.TypePromotionError, match=r"(?s)float8_e5m2.*astype") as info:
        dtypes.promote_types(dtypes.float8_e5m2, np.float16)
    assert "8-bit" in str(info.value)
    with options.numpy_dtype_promotion("strict"):
        with pytest.raises(dtypes.TypePromotionError, match="strict"):
            dtypes.promote_types(np.int32, np.float32)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        (dtypes.bfloat16, np.floating, True),
        (dtypes.bfloat16, np.complexfloating, False),
        (dtypes.int4, np.signedinteger, True),
        (dtypes.uint4, np.signedinteger, False),
        (np.float32, np.inexact, True),
        (np.bool_, np.integer, False),
        (np.dtype("int32"), np.integer, True),
        (np.int32, int, True),
        (np.complex64, np.inexact, True),
    ],
)
def test_issubdtype(a, b, expected):
    assert dtypes.issubdtype(a, b) is expected


def test_canonicalize_dtype():
    assert dtypes.canonicalize_dtype(np.int64) == np.int32
    assert dtypes.canonicalize_dtype(complex) == np.complex64
    assert public_dtypes.canonicalize_dtype(None) == np.float32
    with options.enable_x64(True):
        assert dtypes.canonicalize_dtype(np.int64) == np.int64
    with pytest.raises(TypeError, match="not a valid"):
        dtypes.canonicalize_dtype("U3")


def test_user_dtype_warns_when_truncated():
    with pytest.warns(UserWarning, match="float64.*truncated to dtype float32"):
        assert dtypes.check_and_canonicalize_user_dtype(np.float64) == np.float32


def test_keys_are_extended_and_do_not_promote():
    class Impl:
        tag = "fry"
        key_shape = (2,)

    impl = Impl()
    key = dtypes.KeyDType(impl)
    assert key == dtypes.KeyDType(impl) and str(key) == "key<fry>"
    assert dtypes.issubdtype(key, dtypes.prng_key) and dtypes.issubdtype(key, dtypes.extended)
    assert not dtypes.issubdtype(key, np.number)
    with pytest.raises(dtypes.TypePromotionError, match="key<fry>"):
        dtypes.promote_types(key, np.float32)
