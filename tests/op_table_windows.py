"""Operator table: windows (pooling) and convolutions."""

from __future__ import annotations

import numpy as np

from pyjax import lax
from pyjax.lax.windows.windowed_select import select_and_scatter
from tests import indexing_oracles as oracle
from tests.op_table import C64, F32, I32, Op, distinct, integers, normal, uniform

OPS: list[Op] = []

# name, strides, padding, base dilation, window dilation
_WINDOWS = [
    ("plain", (1, 1), ((0, 0), (0, 0)), None, None),
    ("strided", (2, 3), ((1, 0), (2, 1)), None, None),
    ("dilated", (1, 2), ((1, 1), (0, 2)), (2, 1), (1, 2)),
]


def _pool(fn, init, strides, pads, base, dilation):
    def pool(x):
        start = np.asarray(init, x.dtype)
        return lax.reduce_window(x, start, fn, (2, 3), strides, pads, base, dilation)

    return pool


def _pool_oracle(combine, init, strides, pads, base, dilation):
    return lambda x: oracle.reduce_window(x, init, combine, (2, 3), strides, pads, base, dilation)


_REDUCERS = [
    ("reduce_window_sum", lax.add, np.add, 0.0, 2),
    ("reduce_window_max", lax.max, np.maximum, -np.inf, 2),
    ("reduce_window_min", lax.min, np.minimum, np.inf, 2),
    ("reduce_window", lax.mul, np.multiply, 1.0, 2),
]
for _name, _fn, _combine, _init, _order in _REDUCERS:
    for _case, *_window in _WINDOWS:
        _positions = _case == "dilated" and _name in ("reduce_window_max", "reduce_window_min")
        OPS.append(
            Op(
                _name,
                _pool(_fn, _init, *_window),
                _pool_oracle(_combine, _init, *_window),
                shapes=(((6, 7),),),
                domain=distinct(0.1) if _init in (np.inf, -np.inf) else uniform(0.5, 1.5),
                grad_order=_order,
                name=f"{_name}_{_case}",
                note="positions of the maximum are numbered per operand" if _positions else "",
            )
        )
OPS += [
    Op(
        "reduce_window_sum",
        lambda x: lax.reduce_window(x, 0, lax.add, (2, 2), (1, 2), "SAME"),
        lambda x: oracle.reduce_window(x, 0, np.add, (2, 2), (1, 2), ((0, 1), (0, 1))),
        shapes=(((3, 5),),),
        dtypes=(I32,),
        domain=integers(-9, 9),
        name="reduce_window_sum_same",
    ),
    Op(
        "reduce_window",
        lambda x, y: lax.reduce_window(
            (x, y),
            (np.asarray(0, x.dtype), np.asarray(1, y.dtype)),
            lambda a, b: (lax.add(a[0], b[0]), lax.mul(a[1], b[1])),
            (2, 2),
            (1, 2),
        ),
        lambda x, y: (
            oracle.reduce_window(x, 0, np.add, (2, 2), (1, 2), ((0, 0), (0, 0))),
            oracle.reduce_window(y, 1, np.multiply, (2, 2), (1, 2), ((0, 0), (0, 0))),
        ),
        shapes=(((4, 5), (4, 5)),),
        grad_order=1,
        name="reduce_window_pair",
    ),
]


def _scatter_to_largest(x, source):
    out = np.zeros_like(x)
    for i, j in np.ndindex(source.shape):
        window = x[2 * i : 2 * i + 2, 3 * j : 3 * j + 3]
        a, b = np.unravel_index(np.argmax(window), window.shape)
        out[2 * i + a, 3 * j + b] += source[i, j]
    return out


OPS += [
    Op(
        "select_and_scatter",
        lambda x, s: select_and_scatter(
            x, lax.ge, (2, 3), (2, 3), ((0, 0), (0, 0)), s, np.zeros((), x.dtype), lax.add
        ),
        _scatter_to_largest,
        shapes=(((4, 6), (2, 2)),),
        domain=(distinct(), normal),
    ),
    Op(
        "select_and_scatter_add",
        lambda s, x: lax.select_and_scatter_add_p.bind1(
            s,
            x,
            select_prim=lax.ge_p,
            window_dimensions=(2, 3),
            window_strides=(2, 3),
            padding=((0, 0), (0, 0)),
        ),
        lambda s, x: _scatter_to_largest(x, s),
        shapes=(((2, 2), (4, 6)),),
        domain=(normal, distinct()),
        grad_order=2,
        grad_args=(0,),
    ),
    Op(
        "select_and_gather_add",
        lambda t, x: lax.select_and_gather_add_p.bind1(
            t,
            x,
            select_prim=lax.ge_p,
            window_dimensions=(2, 3),
            window_strides=(2, 3),
            padding=((0, 0), (0, 0)),
            base_dilation=(1, 1),
            window_dilation=(1, 1),
        ),
        lambda t, x: np.array(
            [
                [
                    t[2 * i : 2 * i + 2, 3 * j : 3 * j + 3].ravel()[
                        np.argmax(x[2 * i : 2 * i + 2, 3 * j : 3 * j + 3])
                    ]
                    for j in range(2)
                ]
                for i in range(2)
            ],
            t.dtype,
        ),
        shapes=(((4, 6), (4, 6)),),
        domain=(normal, distinct()),
        grad_order=2,
        grad_args=(0,),
    ),
]

# name, strides, padding, lhs dilation, rhs dilation
_CONVOLUTIONS = [
    ("plain", (1, 1), ((1, 1), (0, 1)), None, None),
    ("strided", (2, 3), ((0, 0), (0, 0)), None, None),
    ("dilated", (2, 1), ((1, 2), (0, 1)), (1, 2), (2, 1)),
    ("cropped", (1, 2), ((2, 2), (-1, 3)), (2, 1), (1, 2)),
]
# feature groups, batch groups, kernel shape
_GROUPS = [(1, 1, (6, 4, 3, 2)), (2, 1, (4, 2, 3, 2)), (1, 2, (8, 4, 3, 2)), (4, 1, (8, 1, 3, 2))]
for _case, *_conv in _CONVOLUTIONS:
    for _fg, _bg, _kernel in _GROUPS:
        OPS.append(
            Op(
                "conv_general_dilated",
                lambda a, b, c=_conv, fg=_fg, bg=_bg: lax.conv_general_dilated(
                    a, b, *c, feature_group_count=fg, batch_group_count=bg
                ),
                lambda a, b, c=_conv, fg=_fg, bg=_bg: oracle.conv(a, b, *c, fg, bg),
                shapes=(((2, 4, 7, 6), _kernel),),
                grad_order=1,
                tol=2e-5,
                name=f"conv_{_case}_{_fg}_{_bg}",
            )
        )


def _channels_last(a, b):
    out = oracle.conv(a.transpose(0, 3, 1, 2), b.transpose(3, 2, 0, 1), (2, 1), ((0, 1), (0, 1)))
    return out.transpose(1, 2, 3, 0)


OPS += [
    Op(
        "conv_general_dilated",
        lambda a, b: lax.conv_general_dilated(
            a, b, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "CHWN")
        ),
        _channels_last,
        shapes=(((2, 4, 5, 3), (2, 2, 3, 4)),),
        dtypes=(F32, C64),
        grad_order=2,
        tol=2e-5,
        name="conv_channels_last",
    ),
    Op(
        "conv_general_dilated",
        lambda a, b: lax.conv(a, b, (2,), "SAME_LOWER"),
        lambda a, b: oracle.conv(a, b, (2,), ((1, 0),)),
        shapes=(((2, 5, 6), (3, 5, 3)),),
        dtypes=(F32, I32),
        tol=2e-5,
        name="conv_1d",
    ),
    Op(
        "conv_general_dilated",
        lambda a, b: lax.conv_general_dilated(a, b, (1, 2, 1), ((0, 1), (0, 1), (0, 1))),
        lambda a, b: oracle.conv(a, b, (1, 2, 1), ((0, 1), (0, 1), (0, 1))),
        shapes=(((1, 2, 4, 5, 3), (3, 2, 2, 3, 2)),),
        grad_order=1,
        tol=2e-5,
        name="conv_3d",
    ),
]
