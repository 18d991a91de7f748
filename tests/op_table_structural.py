"""Operator table: shapes, reductions, cumulative operations, contractions, sorting, FFT, random
bits, collectives.
"""

from __future__ import annotations

import numpy as np

import pyjax
from pyjax import lax
from pyjax.lax import random_hashes
from tests.op_table import (
    BF16,
    BOOL,
    C64,
    F32,
    I32,
    INEXACT,
    NUMBER,
    REAL,
    U8,
    U32,
    Op,
    distinct,
    integers,
    normal,
    uniform,
)


def _wide(x):
    return x.astype(
        np.complex128 if x.dtype.kind == "c" else np.float64 if x.dtype.kind == "f" else x.dtype
    )


def _interior_pad(x, value):
    wide = np.full((3, 2 * x.shape[1] - 1), value, x.dtype)
    wide[: x.shape[0], ::2] = x
    return wide[:, 1:]


SHAPE = [
    Op(
        "broadcast_in_dim",
        lambda x: lax.broadcast_in_dim(x, (4, 2, 5, 3), (1, 3)),
        lambda x: np.broadcast_to(x.reshape(1, *x.shape[:1], 1, x.shape[1]), (4, 2, 5, 3)),
        shapes=(((2, 3),), ((2, 1),), ((1, 3),)),
        dtypes=(F32, I32, BOOL),
        grad_order=1,
    ),
    Op("reshape", lambda x: lax.reshape(x, (3, 2)), lambda x: x.reshape(3, 2), grad_order=1),
    Op(
        "reshape",
        lambda x: lax.reshape(x, (3, 2), (1, 0)),
        lambda x: x.T.reshape(3, 2),
        grad_order=1,
        name="reshape-permuted",
    ),
    Op(
        "transpose",
        lambda x: lax.transpose(x, (2, 0, 1)),
        lambda x: np.transpose(x, (2, 0, 1)),
        shapes=(((2, 3, 4),),),
        dtypes=NUMBER,
        grad_order=1,
    ),
    Op("rev", lambda x: lax.rev(x, (1,)), lambda x: x[:, ::-1], grad_order=1),
    Op(
        "squeeze",
        lambda x: lax.squeeze(x, (1,)),
        lambda x: x[:, 0],
        shapes=(((2, 1, 3),),),
        grad_order=1,
    ),
    Op(
        "concatenate",
        lambda x, y: lax.concatenate([x, y, x], 1),
        lambda x, y: np.concatenate([x, y, x], 1),
        shapes=(((2, 3), (2, 2)),),
        dtypes=(F32, I32),
        grad_order=1,
    ),
    Op(
        "pad",
        lambda x, v: lax.pad(x, v, ((0, 1, 0), (-1, 0, 1))),
        _interior_pad,
        shapes=(((2, 3), ()),),
        dtypes=(F32, I32),
        grad_order=1,
    ),
    Op(
        "pad",
        lambda x, v: lax.pad(x, v, ((2, 1, 2), (0, 0, 0))),
        lambda x, v: np.stack(
            [np.full(3, v)] * 2 + [x[0]] + [np.full(3, v)] * 2 + [x[1], np.full(3, v)]
        ),
        shapes=(((2, 3), ()),),
        grad_order=1,
        name="pad-interior",
    ),
    Op(
        "split",
        lambda x: lax.split(x, (1, 2), 1),
        lambda x: (x[:, :1], x[:, 1:]),
        grad_order=1,
    ),
    Op("tile", lambda x: lax.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)), grad_order=1),
    Op(
        "stack",
        lambda x, y: lax.stack([x, y], 1),
        lambda x, y: np.stack([x, y], 1),
        shapes=(((2, 3), (2, 3)),),
        grad_order=1,
    ),
    Op("unstack", lambda x: lax.unstack(x, 1), lambda x: tuple(x.T), grad_order=1),
    Op(
        "iota",
        lambda x: lax.add(x, lax.iota(np.float32, 3)),
        lambda x: x + np.arange(3, dtype=x.dtype),
        shapes=(((3,),),),
    ),
    Op(
        "empty",
        lambda x: lax.reshape(lax.empty((0, 2), np.float32), (0,)),
        lambda x: np.zeros((0,), np.float32),
        shapes=(((2,),),),
        vmap=False,
        note="the values of an empty array are unspecified, so only one without elements is "
        "compared",
    ),
    Op(
        "collapse",
        lambda x: lax.collapse(x, 0, 2),
        lambda x: x.reshape(6, 2),
        shapes=(((2, 3, 2),),),
    ),
]

REDUCE = [
    *[
        Op(
            f"reduce_{name}",
            lambda x, f=getattr(lax, f"reduce_{name}"): f(x, (0, 2)),
            lambda x, f=oracle: f(_wide(x), axis=(0, 2)).astype(x.dtype),
            shapes=(((3, 4, 2),), ((1, 4, 5),)),
            dtypes=dtypes,
            domain=domain,
            grad_order=order,
        )
        for name, oracle, dtypes, domain, order in [
            ("sum", np.sum, NUMBER, normal, 2),
            ("prod", np.prod, NUMBER, uniform(0.5, 2), 2),
            ("max", np.max, (*REAL, BOOL), distinct(), 1),
            ("min", np.min, (*REAL, BOOL), distinct(), 1),
        ]
    ],
    Op(
        "reduce_max",
        lambda x: lax.reduce_max(x, (0,)),
        lambda x: np.max(x, 0),
        dtypes=(C64,),
        name="reduce_max-complex",
    ),
    *[
        Op(
            f"reduce_{name}",
            lambda x, f=getattr(lax, f"reduce_{name}"): f(x, (1,)),
            lambda x, f=oracle: f.reduce(x, axis=1),
            dtypes=(I32, U8, BOOL),
            domain=integers(0, 99),
        )
        for name, oracle in [
            ("and", np.bitwise_and),
            ("or", np.bitwise_or),
            ("xor", np.bitwise_xor),
        ]
    ],
    *[
        Op(
            name,
            lambda x, f=getattr(lax, name): f(x, 1, np.int32),
            lambda x, f=oracle: f(x, axis=1).astype(np.int32),
            shapes=(((3, 7, 2),), ((2, 40),)),
            dtypes=REAL,
            domain=integers(0, 5),
        )
        for name, oracle in [("argmax", np.argmax), ("argmin", np.argmin)]
    ],
    Op(
        "reduce",
        lambda x, y: lax.reduce(
            (x, y), (0.0, 1.0), lambda a, b: (lax.add(a[0], b[0]), lax.mul(a[1], b[1])), (1,)
        ),
        lambda x, y: (x.sum(1), y.prod(1)),
        shapes=(((3, 5), (3, 5)),),
        grad_order=1,
        note="two operands at once",
    ),
    Op(
        "reduce",
        lambda x: lax.reduce(x, 2.0, lax.add, (0,)),
        lambda x: x.sum(0) + 2,
        name="reduce-init",
    ),
    *[
        Op(
            name,
            lambda x, f=getattr(lax, name), r=reverse: f(x, 1, r),
            lambda x, f=oracle, r=reverse: (
                f(_wide(x)[:, ::-1], axis=1)[:, ::-1] if r else f(_wide(x), axis=1)
            ).astype(x.dtype),
            shapes=(((2, 5, 2),),),
            dtypes=dtypes,
            domain=domain,
            grad_order=order,
            name=f"{name}-reverse" if reverse else name,
        )
        for reverse in (False, True)
        for name, oracle, dtypes, domain, order in [
            ("cumsum", np.cumsum, NUMBER, normal, 2),
            ("cumprod", np.cumprod, NUMBER, uniform(0.5, 2), 2),
            ("cummax", np.maximum.accumulate, REAL, distinct(), 1),
            ("cummin", np.minimum.accumulate, REAL, distinct(), 1),
            ("cumlogsumexp", np.logaddexp.accumulate, (F32,), normal, 2),
        ]
    ],
]

DOT = [
    Op(
        "dot_general",
        lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))),
        lambda x, y: np.einsum("bij,bjk->bik", _wide(x), _wide(y)).astype(x.dtype),
        shapes=(((2, 3, 4), (2, 4, 5)),),
        dtypes=NUMBER,
        grad_order=2,
    ),
    Op(
        "dot_general",
        lambda x, y: lax.dot_general(x, y, (((1, 0), (2, 0)), ((2,), (1,)))),
        lambda x, y: np.einsum("ijbk,ibjm->bkm", _wide(x), _wide(y)).astype(x.dtype),
        shapes=(((2, 3, 4, 5), (2, 4, 3, 6)),),
        dtypes=INEXACT,
        grad_order=2,
        name="dot_general-permuted",
    ),
    Op(
        "dot_general",
        lambda x, y: lax.dot(x, y, preferred_element_type=np.float32),
        lambda x, y: (x.astype(np.float64) @ y.astype(np.float64)).astype(np.float32),
        shapes=(((3, 4), (4, 2)),),
        dtypes=(BF16,),
        tol=1e-5,
        name="dot-preferred",
    ),
    Op(
        "dot_general",
        lax.dot,
        lambda x, y: x @ y,
        shapes=(((4,), (4,)), ((3, 4), (4,))),
        grad_order=1,
        name="dot",
    ),
]

SORT = [
    Op(
        "sort",
        lambda x: lax.sort(x, 0),
        lambda x: np.sort(x, 0),
        shapes=(((7, 3),),),
        dtypes=NUMBER,
        domain=distinct(),
        grad_order=1,
    ),
    Op(
        "sort",
        lambda k, v: lax.sort((k, v), 1, num_keys=2),
        lambda k, v: _lexsorted(k, v),
        shapes=(((3, 9), (3, 9)),),
        operand_dtypes=(I32, None),
        domain=(integers(0, 3), distinct()),
        name="sort-two-keys",
    ),
    Op(
        "top_k",
        lambda x: lax.top_k(x, 3),
        lambda x: (
            -np.sort(-x, 1)[:, :3],
            np.argsort(-x, 1, kind="stable")[:, :3].astype(np.int32),
        ),
        shapes=(((2, 9),),),
        dtypes=REAL,
        domain=distinct(),
        grad_order=1,
    ),
    Op(
        "approx_top_k",
        lambda x: lax.approx_min_k(x, 3),
        lambda x: (np.sort(x, 1)[:, :3], np.argsort(x, 1)[:, :3].astype(np.int32)),
        shapes=(((2, 9),),),
        domain=distinct(),
        grad_order=1,
    ),
]


def _lexsorted(k, v):
    order = np.lexsort((v, k), axis=1)
    return np.take_along_axis(k, order, 1), np.take_along_axis(v, order, 1)


def _fft_row(kind, oracle, shape, lengths, dtype, suffix=""):
    return Op(
        "fft",
        lambda x: lax.fft(x, kind, lengths),
        lambda x: oracle(_wide(x)).astype(np.float32 if kind == "irfft" else np.complex64),
        shapes=((shape,),),
        dtypes=(dtype,),
        grad_order=1,
        tol=1e-5,
        name=kind + suffix,
    )


FFT = [
    _fft_row("fft", np.fft.fft, (2, 8), (8,), C64),
    _fft_row("ifft", np.fft.ifft, (2, 7), (7,), C64),
    _fft_row("rfft", np.fft.rfft, (2, 8), (8,), F32),
    _fft_row("rfft", np.fft.rfft, (2, 7), (7,), F32, "-odd"),
    _fft_row("irfft", lambda x: np.fft.irfft(x, 8), (2, 5), (8,), C64),
    _fft_row("irfft", lambda x: np.fft.irfft(x, 7), (2, 4), (7,), C64, "-odd"),
    _fft_row("fft", np.fft.fft2, (3, 4), (3, 4), C64, "-2d"),
    _fft_row("rfft", np.fft.rfft2, (3, 4), (3, 4), F32, "-2d"),
    _fft_row("irfft", lambda x: np.fft.irfft2(x, (3, 4)), (3, 3), (3, 4), C64, "-2d"),
]


_MASK = 2**32 - 1


def _rotated(x, distance):
    return (x << distance | x >> (32 - distance)) & _MASK


def _threefry2x32(k1, k2, x0, x1):
    keys = (k1, k2, k1 ^ k2 ^ 0x1BD11BDA)
    x0, x1 = (x0 + k1) & _MASK, (x1 + k2) & _MASK
    for i in range(20):
        x0 = (x0 + x1) & _MASK
        x1 = _rotated(x1, ((13, 15, 26, 6), (17, 29, 16, 24))[i // 4 % 2][i % 4]) ^ x0
        if i % 4 == 3:
            j = i // 4 + 1
            x0, x1 = (x0 + keys[j % 3]) & _MASK, (x1 + keys[(j + 1) % 3] + j) & _MASK
    return x0, x1


def _threefry4x32(*words):
    keys = [*words[:4], words[0] ^ words[1] ^ words[2] ^ words[3] ^ 0x1BD11BDA]
    x = [(a + b) & _MASK for a, b in zip(keys, words[4:])]
    distances = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
    for i in range(20):
        for target, source, distance in zip(
            (0, 2), (1, 3) if i % 2 == 0 else (3, 1), distances[i % 8]
        ):
            x[target] = (x[target] + x[source]) & _MASK
            x[source] = _rotated(x[source], distance) ^ x[target]
        if i % 4 == 3:
            j = i // 4 + 1
            x = [(v + keys[(j + n) % 5] + (j if n == 3 else 0)) & _MASK for n, v in enumerate(x)]
    return tuple(x)


def _philox2x32(key, x0, x1):
    for _ in range(10):
        product = 0xD256D193 * x0
        x0, x1, key = (product >> 32) ^ x1 ^ key, product & _MASK, (key + 0x9E3779B9) & _MASK
    return x0, x1


def _philox4x32(k0, k1, *x):
    for _ in range(10):
        first, second = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = ((second >> 32) ^ x[1] ^ k0, second & _MASK, (first >> 32) ^ x[3] ^ k1, first & _MASK)
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return x


def _of_each(hashed):
    """A hash of plain integers, of arrays."""

    def of_arrays(*operands):
        arrays = np.broadcast_arrays(*operands)
        flat = [hashed(*map(int, v)) for v in zip(*[a.ravel() for a in arrays])]
        return tuple(np.asarray(w, np.uint32).reshape(arrays[0].shape) for w in zip(*flat))

    return of_arrays


def _hash_row(hashed, words, count):
    """`words` of a key and `count` of a counter."""
    name = hashed.__name__[1:]
    return Op(
        name,
        getattr(random_hashes, f"{name}_p").bind,
        _of_each(hashed),
        shapes=(((),) * words + ((5,),) * count, ((2, 3),) * (words + count)),
        dtypes=(U32,),
        domain=integers(0, 2**31),
    )


RANDOM = [
    _hash_row(_threefry2x32, 2, 2),
    _hash_row(_threefry4x32, 4, 4),
    _hash_row(_philox2x32, 1, 2),
    _hash_row(_philox4x32, 2, 4),
]


def _over_axis(body, *, out=0):
    """Run a collective under a map over the leading axis."""
    return lambda *xs: pyjax.vmap(body, axis_name="i", out_axes=out)(*xs)


COLLECTIVES = [
    Op(
        "psum",
        _over_axis(lambda x: lax.psum(x, "i")),
        lambda x: np.broadcast_to(x.sum(0), x.shape),
        grad_order=1,
    ),
    Op(
        "pmax", _over_axis(lambda x: lax.pmax(x, "i")), lambda x: np.broadcast_to(x.max(0), x.shape)
    ),
    Op(
        "pmin", _over_axis(lambda x: lax.pmin(x, "i")), lambda x: np.broadcast_to(x.min(0), x.shape)
    ),
    Op(
        "psum",
        _over_axis(lambda x: lax.pmean(x, "i")),
        lambda x: np.broadcast_to(x.mean(0), x.shape),
        name="pmean",
    ),
    Op(
        "axis_index",
        _over_axis(lambda x: lax.add(x, lax.convert_element_type(lax.axis_index("i"), np.float32))),
        lambda x: x + np.arange(len(x), dtype=x.dtype)[:, None],
    ),
    Op(
        "ppermute",
        _over_axis(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)])),
        lambda x: np.stack([np.zeros_like(x[0]), x[0], x[1]]),
        shapes=(((3, 2),),),
        grad_order=1,
    ),
    Op(
        "all_gather",
        _over_axis(lambda x: lax.all_gather(x, "i", axis=1)),
        lambda x: np.broadcast_to(x.T, (len(x), *x.T.shape)),
        shapes=(((3, 2),),),
        grad_order=1,
    ),
    Op(
        "all_to_all",
        _over_axis(lambda x: lax.all_to_all(x, "i", 0, 1)),
        lambda x: np.transpose(x, (1, 2, 0)),
        shapes=(((3, 3, 2),),),
        grad_order=1,
    ),
    Op(
        "reduce_scatter",
        _over_axis(lambda x: lax.psum_scatter(x, "i")),
        lambda x: x.sum(0),
        shapes=(((3, 3, 2),),),
        grad_order=1,
    ),
    Op(
        "reduce_scatter",
        _over_axis(
            lambda x: lax.psum_scatter(
                x, "i", scatter_dimension=1, axis_index_groups=[[2, 0], [1, 3]], tiled=True
            )
        ),
        lambda x: np.stack(
            [
                (x[a] + x[b])[:, half * 2 : half * 2 + 2]
                for a, b, half in ((0, 2, 1), (1, 3, 0), (0, 2, 0), (1, 3, 1))
            ]
        ),
        shapes=(((4, 3, 4),),),
        name="psum_scatter in groups",
        grad_order=1,
    ),
]

OPS = SHAPE + REDUCE + DOT + SORT + FFT + RANDOM + COLLECTIVES
