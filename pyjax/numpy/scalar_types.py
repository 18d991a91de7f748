"""The scalar types `float32`, `bfloat16`, `int_`...: dtypes that are also array constructors.

`jnp.float32` is not NumPy's class: calling it makes a pyjax Array.  It compares and hashes equal
to `np.float32`, and NumPy reads its `dtype` attribute, so either may be given as a `dtype=`.
"""

from __future__ import annotations

import builtins
from typing import Any

import ml_dtypes
import numpy as np

from pyjax.numpy.array_constructors import asarray


class _ScalarMeta(type):
    """Class of the scalar types; `dtype` is the NumPy dtype that each stands for."""

    dtype: np.dtype

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __eq__(self, other: Any) -> builtins.bool:
        return self is other or self.dtype.type == other

    def __ne__(self, other: Any) -> builtins.bool:
        return not self == other

    def __call__(cls, x: Any) -> Any:
        return asarray(x, dtype=cls.dtype)

    def __instancecheck__(self, instance: Any) -> builtins.bool:
        return isinstance(instance, self.dtype.type)


def _scalar_type(np_type: Any) -> Any:
    doc = (
        f"The {np.dtype(np_type).name} dtype; calling it converts its argument to an Array of "
        "that dtype.\n\n    Usable wherever a dtype is; equal to the NumPy type of that name.\n\n"
        f"    >>> np.dtype({np.dtype(np_type).name})\n    {np.dtype(np_type)!r}"
    )
    name = np.dtype(np_type).name
    namespace = {"dtype": np.dtype(np_type), "__doc__": doc, "__module__": "pyjax.numpy"}
    return _ScalarMeta(name, (object,), namespace)


bool_ = _scalar_type(np.bool_)
uint8 = _scalar_type(np.uint8)
uint16 = _scalar_type(np.uint16)
uint32 = _scalar_type(np.uint32)
uint64 = _scalar_type(np.uint64)
int8 = _scalar_type(np.int8)
int16 = _scalar_type(np.int16)
int32 = _scalar_type(np.int32)
int64 = _scalar_type(np.int64)
float16 = _scalar_type(np.float16)
float32 = _scalar_type(np.float32)
float64 = _scalar_type(np.float64)
complex64 = _scalar_type(np.complex64)
complex128 = _scalar_type(np.complex128)

bfloat16 = _scalar_type(ml_dtypes.bfloat16)
float4_e2m1fn = _scalar_type(ml_dtypes.float4_e2m1fn)
float6_e2m3fn = _scalar_type(ml_dtypes.float6_e2m3fn)
float6_e3m2fn = _scalar_type(ml_dtypes.float6_e3m2fn)
float8_e3m4 = _scalar_type(ml_dtypes.float8_e3m4)
float8_e4m3 = _scalar_type(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = _scalar_type(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = _scalar_type(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = _scalar_type(ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = _scalar_type(ml_dtypes.float8_e5m2)
float8_e5m2fnuz = _scalar_type(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = _scalar_type(ml_dtypes.float8_e8m0fnu)
int1 = _scalar_type(ml_dtypes.int1)
int2 = _scalar_type(ml_dtypes.int2)
int4 = _scalar_type(ml_dtypes.int4)
uint1 = _scalar_type(ml_dtypes.uint1)
uint2 = _scalar_type(ml_dtypes.uint2)
uint4 = _scalar_type(ml_dtypes.uint4)

# NumPy's other names.  int_, uint, float_ and complex_ are 64 bits wide here too: with x64 off
# they are canonicalized to 32 bits wherever a dtype is used.
bool = bool_
cdouble = complex128
csingle = complex64
double = float64
single = float32
int_ = int64
uint = uint64
float_ = float64
complex_ = complex128

# Abstract types, for issubdtype.
character = np.character
complexfloating = np.complexfloating
flexible = np.flexible
floating = np.floating
generic = np.generic
inexact = np.inexact
integer = np.integer
number = np.number
object_ = np.object_
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger
