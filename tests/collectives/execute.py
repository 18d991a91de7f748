"""What a library makes of a row: types inside of the map and outside, and a checksum of values.

All values are small whole numbers, and stay so: sums are the same in any order.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from tests.collectives.rows import Row

Function = Callable[..., Any]
SIZES = {"i": 4, "j": 2}


class Library:
    """`jax`, or what stands for it."""

    def __init__(self, library: Any) -> None:
        self.jax, self.lax, self.np = library, library.lax, library.numpy
        self.P = library.P
        auto = library.sharding.AxisType.Auto
        devices = library.devices()
        mesh = lambda shape, names: library.sharding.Mesh(
            np.array(devices[: int(np.prod(shape))]).reshape(shape), names, (auto,) * len(names)
        )
        self.one, self.two = mesh((4,), ("i",)), mesh((2, 4), ("j", "i"))
        self.names = {
            "lax": library.lax,
            "np": library.numpy,
            "jax": library,
            "RAGGED": self.ragged,
            "WEAK": library.jit(lambda number: number),
            "G": [[0, 1], [2, 3]],
            "TURNED": [[0, 3], [2, 1]],
            "UNEQUAL": [[0], [1, 2, 3]],
            "OF_BOTH": [[0, 5], [1, 4], [2, 3], [6, 7]],
            "ROTATION": [(i, (i + 1) % 4) for i in range(4)],
            "STARTS": np.array([0, 2, 1, 5], np.int32),
            "SIZES": np.array([2, 1, 2, 1], np.int32),
            # Where each slice goes, and how long those are that come, of `n` positions.
            "TO": lambda axis: self.np.full(4, 2 * self.lax.axis_index(axis), np.int32),
            "FROM": lambda axis, n=4: self.np.full(
                n, self.np.take(self.names["SIZES"], self.lax.axis_index(axis) % n), np.int32
            ),
        }

    def ragged(
        self,
        operand: Any,
        out: Any,
        starts: Any,
        sizes: Any,
        places: Any,
        received: Any,
        **how: Any,
    ) -> Any:
        """`ragged_all_to_all` of one slice for each position, made of what all positions have."""
        np_, axis, groups = self.np, how["axis_name"], how.get("axis_index_groups")
        everyone = [self.lax.all_gather(x, axis) for x in (operand, starts, sizes, places)]
        me, rows = self.lax.axis_index(axis), np_.arange(out.shape[0])
        group, place = np_.arange(SIZES[axis]), me
        if groups is not None:
            where = np_.array(groups)
            group = where[np_.argmax((where == me).any(1))]
            place = np_.argmax(group == me)
        for sender in range(len(starts)):
            mine, first, count, to = (each[group[sender]] for each in everyone)
            within = rows - to[place]
            found = mine[np_.clip(first[place] + within, 0, len(mine) - 1)]
            inside = (within >= 0) & (within < count[place])
            out = np_.where(inside.reshape(-1, *[1] * (out.ndim - 1)), found, out)
        return out


def operand(row: Row, batch: tuple[int, ...] = (), seed: int = 0) -> np.ndarray:
    """Of all positions: their axes lead."""
    lead = (2, 4) if two(row) else (4,)
    shape = (*batch, *lead, *row.shape)
    n = np.arange(int(np.prod(shape))).reshape(shape)
    n = (n * 7 + n // 5 + 3 * seed) % 5 - (0 if row.dtype.startswith("uint") else 2)
    if row.dtype.startswith("complex"):
        return (n + 1j * n[..., ::-1]).astype(row.dtype) if row.shape else n.astype(row.dtype)
    return n.astype(getattr(ml_dtypes, row.dtype, row.dtype))


def two(row: Row) -> bool:
    return "," in row.context or " in " in row.context


def mapped(lib: Library, row: Row, body: Function, same: bool = False) -> Function:
    """`body` of a block, over the leading axes."""
    jax, P = lib.jax, lib.P
    tree = jax.tree.map
    context, checked = row.context.rstrip("-").replace("-,", ","), "-" not in row.context

    def cut(spec: Any, lead: int, mesh: Any, inner: Function, **how: Any) -> Function:
        def block(x: Any) -> Any:
            out = inner(x[(0,) * lead])
            return tree(lambda y: lib.np.asarray(y)[(None,) * lead], out)

        return jax.shard_map(
            block,
            mesh=mesh,
            in_specs=spec,
            out_specs=P() if same else spec,
            check_vma=checked,
            **how,
        )

    if context == "vmap":
        return jax.vmap(body, axis_name="i")
    if context == "vmap 1":
        far = jax.vmap(body, in_axes=min(1, len(row.shape)), out_axes=-1, axis_name="i")
        return lambda x: far(lib.np.moveaxis(x, 0, min(1, len(row.shape))))
    if context == "vmap of others":
        others = jax.vmap(lambda _, x: body(x), in_axes=(0, None), axis_name="i")
        return lambda x: others(lib.np.arange(4), x[0])
    if context == "shard_map":
        return cut(P("i"), 1, lib.one, body)
    if context == "some axes":
        return cut(P("i"), 1, lib.two, body, axis_names={"i"})
    if context == "pmap":
        return jax.pmap(body, axis_name="i", devices=jax.devices()[:4])
    if context == "vmap, vmap":
        return jax.vmap(jax.vmap(body, axis_name="i"), axis_name="j")
    if context == "shard_map, both":
        return cut(P("j", "i"), 2, lib.two, body)
    if context == "vmap in shard_map":
        inner = jax.vmap(body, axis_name="j")
        f = cut(P("i"), 1, lib.one, inner)
        return lambda x: f(lib.np.swapaxes(x, 0, 1))
    if context == "shard_map in vmap":
        return jax.vmap(cut(P("i"), 1, lib.one, body), axis_name="j")
    assert context == "vmap in pmap", context
    f = jax.pmap(jax.vmap(body, axis_name="j"), axis_name="i", devices=jax.devices()[:4])
    return lambda x: f(lib.np.swapaxes(x, 0, 1))


def loss(lib: Library, f: Function) -> Function:
    """A number, of squares: cotangents depend on the results."""

    def of(x: Any) -> Any:
        total = 0.0
        for leaf in lib.jax.tree.leaves(f(x)):
            if lib.np.issubdtype(leaf.dtype, lib.np.inexact):
                total = total + lib.np.sum(lib.np.real(leaf * lib.np.conj(leaf)))
        return total

    return of


def inside(lib: Library, how: str, f: Function) -> Function:
    """A transformation of the body."""
    jax, np_ = lib.jax, lib.np
    if how in ("", "eager", "P()") or how.startswith("of "):
        return f
    if how == "jvp":
        return lambda x: jax.jvp(f, (x,), (2 * x,))
    if how == "vjp":

        def pulled(x: Any) -> Any:
            out, back = jax.vjp(f, x)
            return back(jax.tree.map(lambda y: 2 * y, out))

        return pulled
    if how == "grad":
        return jax.grad(loss(lib, f))
    batch = lambda x, axis: np_.stack([x, 2 * x, x - 1], axis)
    if how == "vmap":
        return lambda x: jax.vmap(f)(batch(x, 0))
    if how == "vmap 1":
        return lambda x: jax.vmap(f, in_axes=x.ndim, out_axes=-1)(batch(x, x.ndim))
    if how == "unmapped in vmap":
        return lambda x: jax.vmap(lambda y: jax.tree.map(lambda z: z + y, f(x)))(np_.arange(3.0))
    if how == "grad of vmap":
        return jax.grad(loss(lib, lambda x: jax.vmap(f)(batch(x, 0))))
    if how == "jit":
        return jax.jit(f)
    scanned = lambda x: lib.lax.scan(lambda c, y: (c + 1, f(y + c)), 0.0, batch(x, 0))[1]
    if how == "scan":
        return scanned
    if how == "grad of scan":
        return jax.grad(loss(lib, scanned))
    traced = lambda p: lambda x: lib.lax.cond(p, f, lambda y: f(2 * y), x)
    if how == "cond":
        return lambda x: traced(np_.ones(()) > 0)(x)
    if how == "grad of cond":
        return jax.grad(loss(lib, lambda x: jax.jit(lambda p: traced(p > 0)(x))(np_.zeros(()))))
    if how == "while":
        return lambda x: lib.lax.while_loop(
            lambda s: s[0] < 2, lambda s: (s[0] + 1, f(x + s[0])), (0, f(x))
        )[1]
    if how == "checkpoint":
        return jax.grad(loss(lib, jax.checkpoint(lambda x: f(x * x))))
    assert how == "custom_vjp", how
    ruled = jax.custom_vjp(f)
    ruled.defvjp(
        lambda x: (f(x), x), lambda x, ct: jax.vjp(f, x)[1](jax.tree.map(lambda y: 3 * y, ct))
    )
    return jax.grad(loss(lib, ruled))


def around(lib: Library, row: Row, f: Function) -> Function:
    """A transformation of the mapped function, and its operand."""
    jax, how = lib.jax, row.transformation
    tangent = operand(row, seed=1)
    if tangent.dtype.kind in "iub":
        tangent = np.zeros(tangent.shape, jax.dtypes.float0)
    else:
        tangent = lib.np.asarray(tangent)
    if how == "of jvp":
        return lambda x: jax.jvp(f, (x,), (tangent,))
    if how == "of vjp":
        return jax.grad(loss(lib, f))
    if how == "of linearize":
        return lambda x: jax.linearize(f, x)[1](tangent)
    if how == "of vmap":
        return lambda x: jax.vmap(f)(lib.np.stack([x, 2 * x]))
    if how == "of grad of grad":
        return lambda x: jax.grad(lambda y: lib.np.vdot(jax.grad(loss(lib, f))(y), tangent))(x)
    if how == "of vmap of grad":
        return lambda x: jax.vmap(jax.grad(loss(lib, f)))(lib.np.stack([x, 2 * x]))
    if how == "of jacfwd":
        turn = lambda t: f(x_of(t))
        x_of = lambda t: tangent * t[0] + operand(row) * t[1]
        return lambda x: jax.jacfwd(turn)(lib.np.array([1.0, 2.0], np.float32))
    return f


def outcome(lib: Library, row: Row, call: str = "", values: bool = False) -> dict[str, Any]:
    """{"inside": types, "outside": types, "sum": checksum}, or {"error": class, "text": message}.
    `call`: what stands for that of the row."""
    seen: list[str] = []

    def body(x: Any) -> Any:
        out = eval(call or row.call, {**lib.names, "x": x})
        leaves = [leaf for leaf in lib.jax.tree.leaves(out) if hasattr(leaf, "dtype")]
        if not seen:
            seen.append(" ".join(map(partial(type_of, lib), leaves)))
        return out

    try:
        f = mapped(lib, row, inside(lib, row.transformation, body), row.transformation == "P()")
        f = around(lib, row, f)
        if row.transformation != "eager":
            f = lib.jax.jit(f)
        leaves = [np.asarray(leaf) for leaf in lib.jax.tree.leaves(f(operand(row)))]
    except Exception as error:
        return {"error": type(error).__name__, "text": " ".join(str(error).split())[:120]}
    total = 0
    for leaf in leaves:
        exact = leaf if leaf.dtype.kind in "iub" or leaf.dtype.itemsize == 0 else leaf + 0
        total = zlib.crc32(np.ascontiguousarray(exact).tobytes(), total)
    found = {
        "inside": seen[0] if seen else "",
        "outside": " ".join(f"{x.dtype.name}[{','.join(map(str, x.shape))}]" for x in leaves),
        "sum": total,
    }
    return {**found, "values": leaves} if values else found


def type_of(lib: Library, x: Any) -> str:
    """Its type; axes are in the order of the alphabet, since the reference has them in any."""
    aval = lib.jax.typeof(x)
    axes = lambda found: ",".join(sorted(found[0].split(",")))
    text = re.sub(r"(?<=\()\w+(,\w+)+(?=\))", axes, aval.str_short(True))
    return text + ("*" if getattr(aval, "weak_type", False) else "")
