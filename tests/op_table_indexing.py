"""Operator table: slices, gather and the scatter family."""

from __future__ import annotations

import functools

import numpy as np

from pyjax import lax
from tests import indexing_oracles as oracle
from tests.op_table import F32, I32, REAL, Op, distinct, integers, normal, uniform

GD, SD = lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers

_inside = integers(0, 3)
_around = integers(-3, 9)


def _clamp(i, limit):
    i = i + limit[1] if i < 0 else i
    return int(min(max(i, 0), limit[0]))


def _dynamic_slice(x, i, j):
    a, b = _clamp(i, (x.shape[0] - 2, x.shape[0])), _clamp(j, (x.shape[1] - 3, x.shape[1]))
    return x[a : a + 2, b : b + 3]


def _dynamic_update(x, u, i, j):
    a, b = _clamp(i, (x.shape[0] - 2, x.shape[0])), _clamp(j, (x.shape[1] - 3, x.shape[1]))
    out = x.copy()
    out[a : a + 2, b : b + 3] = u
    return out


OPS = [
    Op(
        "slice",
        lambda x: lax.slice(x, (1, 2), (6, 7), (2, 3)),
        lambda x: x[1:6:2, 2:7:3],
        shapes=(((6, 7),),),
        dtypes=REAL,
        grad_order=2,
    ),
    Op(
        "slice",
        lambda x: lax.slice_in_dim(x, -3, None, 2, axis=1),
        lambda x: x[:, -3::2],
        shapes=(((2, 7),),),
        name="slice_in_dim",
    ),
    Op(
        "dynamic_slice",
        lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)),
        _dynamic_slice,
        shapes=(((6, 7), (), ()),),
        operand_dtypes=(None, I32, I32),
        domain=(normal, integers(-9, 9), integers(-9, 9)),
        grad_order=2,
    ),
    Op(
        "dynamic_update_slice",
        lambda x, u, i, j: lax.dynamic_update_slice(x, u, (i, j)),
        _dynamic_update,
        shapes=(((6, 7), (2, 3), (), ()),),
        operand_dtypes=(None, None, I32, I32),
        domain=(normal, normal, integers(-9, 9), integers(-9, 9)),
        grad_order=2,
    ),
]

# name, dimension numbers, slice sizes, shapes
_GATHERS = [
    ("rows", GD((1,), (0,), (0,)), (1, 7), ((6, 7), (5, 1))),
    ("windows", GD((0, 2), (), (1, 0)), (2, 3), ((6, 7), (5, 2))),
    ("batching", GD((2,), (), (1,), (0,), (0,)), (1, 3), ((6, 7), (6, 2, 1))),
]
for _name, _numbers, _sizes, _shapes in _GATHERS:
    for _mode in ("clip", "fill", "promise_in_bounds"):
        OPS.append(
            Op(
                "gather",
                functools.partial(
                    lax.gather,
                    dimension_numbers=_numbers,
                    slice_sizes=_sizes,
                    mode=_mode,
                    fill_value=-2.5 if _mode == "fill" else None,
                ),
                functools.partial(
                    oracle.gather, numbers=_numbers, sizes=_sizes, mode=_mode, fill=-2.5
                ),
                shapes=(_shapes,),
                operand_dtypes=(None, I32),
                domain=(normal, _inside if _mode == "promise_in_bounds" else _around),
                grad_order=2,
                grad_args=(0,),
                name=f"gather_{_name}_{_mode}",
            )
        )

# primitive, function, NumPy combination, gradient order, operands differentiated
_SCATTERS = [
    ("scatter", lax.scatter, lambda a, b: b, 2, (0, 2)),
    ("scatter-add", lax.scatter_add, np.add, 2, (0, 2)),
    ("scatter-sub", lax.scatter_sub, np.subtract, 2, (0, 2)),
    ("scatter-mul", lax.scatter_mul, np.multiply, 1, (0,)),
    ("scatter-min", lax.scatter_min, np.minimum, 1, (0, 2)),
    ("scatter-max", lax.scatter_max, np.maximum, 1, (0, 2)),
]
_SCATTER_CASES = [
    ("rows", SD((1,), (0,), (0,)), ((6, 7), (4, 1), (4, 7))),
    ("batching", SD((1,), (), (1,), (0,), (0,)), ((6, 7), (6, 1), (6, 3))),
]
for _primitive, _fn, _combine, _order, _args in _SCATTERS:
    for _name, _numbers, _shapes in _SCATTER_CASES:
        for _mode in ("clip", "fill"):
            OPS.append(
                Op(
                    _primitive,
                    functools.partial(_fn, dimension_numbers=_numbers, mode=_mode),
                    functools.partial(
                        oracle.scatter, numbers=_numbers, combine=_combine, mode=_mode
                    ),
                    shapes=(_shapes,),
                    dtypes=(F32,),
                    operand_dtypes=(None, I32, None),
                    domain=(distinct(0.31), _around, uniform(-3, 3)),
                    grad_order=_order,
                    grad_args=_args,
                    name=f"{_primitive}_{_name}_{_mode}",
                )
            )
