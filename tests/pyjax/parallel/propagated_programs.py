"""Small programs of which nothing but the arguments says how arrays are cut, and how JAX cuts their
results: `python tests/pyjax/parallel/propagated_programs.py` where JAX is installed writes
propagated.json, with which test_propagated.py compares.

The functions are called with the library, here JAX, and arrays on a mesh with axes x (2) and y (4).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PATH = Path(__file__).with_name("propagated.json")
Spec = tuple[Any, ...]


class Program(NamedTuple):
    """A function of the library and arrays; their shapes, and how each is cut."""

    f: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    specs: Sequence[Spec]


X, Y, XY, N = "x", "y", ("x", "y"), None


def _image(l: Any, stride: int = 1) -> Callable[..., Any]:
    return lambda x, k: l.lax.conv_general_dilated(
        x, k, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _attention(l: Any, q: Any, k: Any, v: Any) -> Any:
    weights = l.nn.softmax(l.numpy.einsum("bthd,bshd->bhts", q, k))
    return l.numpy.einsum("bhts,bshd->bthd", weights, v)


def _constrained(l: Any, x: Any, *spec: Any) -> Any:
    mesh = l.sharding.get_abstract_mesh()
    return l.lax.with_sharding_constraint(x, l.sharding.NamedSharding(mesh, l.P(*spec)))


def _layers(l: Any, x: Any, w: Any) -> Any:
    return l.lax.scan(lambda h, v: (l.numpy.tanh(h @ v), h.sum()), x, w)[0]


PROGRAMS: dict[str, Program] = {
    # -- elementwise -------------------------------------------------------------------------------
    "of one array": Program(lambda l, x: l.numpy.sin(x), [(8, 16)], [(X, Y)]),
    "of two that agree in part": Program(
        lambda l, x, y: x + y, [(8, 16), (8, 16)], [(X, N), (N, Y)]
    ),
    "of two that want one axis": Program(
        lambda l, x, y: x + y, [(8, 16), (8, 16)], [(X, N), (N, X)]
    ),
    "of two cut along the same dimension": Program(
        lambda l, x, y: x * y, [(8, 16), (8, 16)], [(X, N), (Y, N)]
    ),
    "of one cut further than the other": Program(
        lambda l, x, y: x * y, [(8, 16), (8, 16)], [(XY, N), (X, N)]
    ),
    "of a row and an array": Program(lambda l, x, y: x + y, [(16,), (8, 16)], [(Y,), (X, N)]),
    "of three, of which two agree": Program(
        lambda l, x, y, z: l.numpy.where(x > 0, y, z),
        [(8, 16), (8, 16), (8, 16)],
        [(N, X), (X, N), (X, N)],
    ),
    # -- products ----------------------------------------------------------------------------------
    "rows of a product": Program(lambda l, x, y: x @ y, [(8, 16), (16, 32)], [(X, N), (N, Y)]),
    "a sum in parts": Program(lambda l, x, y: x @ y, [(8, 16), (16, 32)], [(X, Y), (Y, N)]),
    "one factor cut for the sum": Program(
        lambda l, x, y: x @ y, [(8, 16), (16, 32)], [(X, N), (X, Y)]
    ),
    "rows and columns want one axis": Program(
        lambda l, x, y: x @ y, [(8, 16), (16, 32)], [(X, N), (N, X)]
    ),
    "fully sharded layers": Program(
        lambda l, x, v, w: l.numpy.tanh(x @ v) @ w,
        [(16, 8), (8, 32), (32, 8)],
        [(X, N), (X, N), (X, N)],
    ),
    "tensor-parallel layers": Program(
        lambda l, x, v, w: l.numpy.tanh(x @ v) @ w,
        [(16, 8), (8, 32), (32, 8)],
        [(X, N), (N, Y), (Y, N)],
    ),
    "batches of products": Program(
        lambda l, x, y: l.numpy.einsum("bij,bjk->bik", x, y),
        [(8, 4, 16), (8, 16, 4)],
        [(X, N, N), (N, N, Y)],
    ),
    "attention, heads cut": Program(_attention, [(4, 8, 4, 16)] * 3, [(X, N, Y, N)] * 3),
    "attention, sequence cut": Program(_attention, [(4, 8, 4, 16)] * 3, [(X, Y, N, N)] * 3),
    "gradients of a weight": Program(
        lambda l, w, x: l.grad(lambda w: l.numpy.tanh(x @ w).sum())(w),
        [(16, 32), (8, 16)],
        [(N, Y), (X, N)],
    ),
    # -- sums --------------------------------------------------------------------------------------
    "a sum over rows": Program(lambda l, x: x.sum(0), [(8, 16)], [(X, Y)]),
    "a sum that keeps dimensions": Program(
        lambda l, x: x - x.mean(1, keepdims=True), [(8, 16)], [(X, Y)]
    ),
    "the largest place": Program(lambda l, x: l.numpy.argmax(x, 1), [(8, 16)], [(X, N)]),
    "running sums": Program(lambda l, x: l.numpy.cumsum(x, 0), [(8, 16)], [(X, Y)]),
    "softmax": Program(lambda l, x: l.nn.softmax(x), [(8, 16)], [(X, Y)]),
    # -- shapes ------------------------------------------------------------------------------------
    "dimensions merged": Program(lambda l, x: x.reshape(64, 16), [(8, 8, 16)], [(X, N, Y)]),
    "dimensions merged, both cut": Program(
        lambda l, x: x.reshape(64, 16), [(8, 8, 16)], [(X, Y, N)]
    ),
    "a dimension split": Program(lambda l, x: x.reshape(8, 8, 16), [(64, 16)], [(XY, N)]),
    "a dimension split within an axis": Program(
        lambda l, x: x.reshape(2, 32, 16), [(64, 16)], [(Y, N)]
    ),
    "heads taken apart": Program(lambda l, x: x.reshape(8, 4, 16), [(8, 64)], [(X, Y)]),
    "transposed": Program(lambda l, x: x.transpose(2, 0, 1), [(8, 4, 16)], [(X, N, Y)]),
    "a new dimension": Program(
        lambda l, x: l.numpy.broadcast_to(x[:, None], (8, 4, 16)), [(8, 16)], [(X, Y)]
    ),
    "stacked": Program(lambda l, x, y: l.numpy.stack([x, y]), [(8, 16)] * 2, [(X, N)] * 2),
    # -- what moves --------------------------------------------------------------------------------
    "joined": Program(
        lambda l, x, y: l.numpy.concatenate([x, y]), [(8, 16), (8, 16)], [(X, Y), (X, Y)]
    ),
    "joined along the other dimension": Program(
        lambda l, x, y: l.numpy.concatenate([x, y], 1), [(8, 16), (8, 16)], [(X, N), (X, N)]
    ),
    "a half": Program(lambda l, x: x[:4], [(8, 16)], [(X, Y)]),
    "shifted": Program(lambda l, x: l.numpy.roll(x, 1, 0), [(8, 16)], [(X, Y)]),
    "padded": Program(lambda l, x: l.numpy.pad(x, ((0, 8), (0, 0))), [(8, 16)], [(X, Y)]),
    "reversed": Program(lambda l, x: x[::-1], [(8, 16)], [(X, Y)]),
    "a row that an index says": Program(
        lambda l, x: l.lax.dynamic_slice(x, (3, 0), (1, 16)), [(8, 16)], [(X, Y)]
    ),
    "rows written": Program(
        lambda l, x, y: l.lax.dynamic_update_slice(x, y, (3, 0)), [(8, 16), (1, 16)], [(X, Y), ()]
    ),
    "rows looked up": Program(lambda l, x: x[l.numpy.arange(4) % 3], [(8, 16)], [(X, Y)]),
    "rows looked up by rows that are cut": Program(
        lambda l, x, i: x[i.astype(int)], [(8, 16), (32,)], [(N, Y), (X,)]
    ),
    "rows added to": Program(
        lambda l, x, y: x.at[l.numpy.arange(4)].add(y), [(8, 16), (4, 16)], [(X, Y), (N, Y)]
    ),
    "sorted along what is cut": Program(lambda l, x: l.numpy.sort(x, 0), [(8, 16)], [(X, N)]),
    "sorted along another": Program(lambda l, x: l.numpy.sort(x, 1), [(8, 16)], [(X, N)]),
    "a convolution of cut images": Program(
        lambda l, x, k: _image(l)(x, k), [(4, 16, 16, 3), (3, 3, 3, 8)], [(X, Y, N, N), ()]
    ),
    "a convolution with cut features": Program(
        lambda l, x, k: _image(l)(x, k), [(4, 8, 8, 4), (3, 3, 4, 8)], [(X, N, N, N), (N, N, N, Y)]
    ),
    "pooling": Program(
        lambda l, x: l.lax.reduce_window(
            x, -float("inf"), l.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        ),
        [(4, 16, 16, 3)],
        [(X, Y, N, N)],
    ),
    # -- linear algebra ----------------------------------------------------------------------------
    "batches of factors": Program(
        lambda l, x: l.numpy.linalg.cholesky(x @ x.mT + 5 * l.numpy.eye(4)),
        [(8, 4, 4)],
        [(X, N, N)],
    ),
    "transforms": Program(lambda l, x: l.numpy.fft.fft(x).real, [(8, 16)], [(X, N)]),
    # -- control flow and constraints --------------------------------------------------------------
    "layers of a scan": Program(_layers, [(16, 8), (4, 8, 8)], [(X, N), (N, N, Y)]),
    "a branch": Program(
        lambda l, x, y: l.lax.cond(x[0, 0] > 0, lambda: x, lambda: y),
        [(8, 16), (8, 16)],
        [(X, N), (N, Y)],
    ),
    "constrained in between": Program(
        lambda l, x: _constrained(l, l.numpy.sin(x), Y, N) * 2, [(8, 16)], [(X, N)]
    ),
    "left open in between": Program(
        lambda l, x: _constrained(l, l.numpy.sin(x), l.P.UNCONSTRAINED, Y) * 2, [(8, 16)], [(X, N)]
    ),
}


class Different(NamedTuple):
    """How pyjax cuts results that JAX cuts otherwise, and why it does."""

    ours: list[str]
    why: str


DIFFERENT = {
    "of two cut along the same dimension": Different(
        ["x"], "JAX leaves a dimension whole that two want along other axes: everybody computes all"
    ),
    "of three, of which two agree": Different(
        ["x"], "JAX follows the condition, the smaller one, and exchanges the two that agree"
    ),
}


def shardings_of(library: Any, name: str) -> list[str]:
    """How the results of a program are cut: each as the text of its spec."""
    program, P = PROGRAMS[name], library.P
    kinds = (library.sharding.AxisType.Auto,) * 2
    mesh = library.make_mesh((2, 4), ("x", "y"), axis_types=kinds)
    given = [
        library.ShapeDtypeStruct(
            shape, library.numpy.float32, sharding=library.sharding.NamedSharding(mesh, P(*spec))
        )
        for shape, spec in zip(program.shapes, program.specs, strict=True)
    ]
    with library.set_mesh(mesh):
        lowered = library.jit(lambda *arrays: program.f(library, *arrays)).lower(*given)
    results = library.tree.leaves(lowered.compile().output_shardings)
    return [_text(result) for result in results]


def _text(sharding: Any) -> str:
    dims = [*getattr(sharding, "spec", ())]
    while dims and dims[-1] is None:
        dims.pop()
    each = [() if d is None else (d,) if isinstance(d, str) else tuple(d) for d in dims]
    return ", ".join(" ".join(axes) or "-" for axes in each)


if __name__ == "__main__":
    os.environ["JAX_NUM_CPU_DEVICES"] = "8"
    import jax

    found = {}
    for program_name in PROGRAMS:
        try:
            found[program_name] = shardings_of(jax, program_name)
        except Exception as error:
            print(program_name, type(error).__name__, str(error)[:300], flush=True)
    PATH.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
