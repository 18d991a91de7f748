"""What types say after functions of arrays that are split along axes of type Explicit:
`python tests/pyjax/parallel/explicit_rows.py` where JAX is installed writes explicit_rows.json,
with which test_explicit_rows.py compares.

A row of explicit_rows.txt is an expression of `a`, `b` and `c`, below the shapes of these. It is
traced for operands that are split in many ways; so are its gradient, and itself under vmap of a
dimension that is split. Nothing runs, the mesh has no devices.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROWS = Path(__file__).with_name("explicit_rows.txt")
PATH = Path(__file__).with_name("explicit_rows.json")
Spec = tuple[Any, ...]

X, Y, XY, N = "x", "y", ("x", "y"), None
# How an operand of so many dimensions is split if it is the only one, if there are others, and
# under vmap of another dimension.
ALONE: Sequence[Sequence[Spec]] = [
    [()],
    [(), (X,), (XY,)],
    [(), (X,), (N, Y), (X, Y), (XY,), (N, XY)],
    [(), (X,), (N, X), (N, N, Y), (X, N, Y), (X, Y), (N, XY)],
    [(), (X,), (N, X), (N, N, Y), (X, Y), (X, N, Y), (XY,)],
]
BESIDE: Sequence[Sequence[Spec]] = [
    [()],
    [(), (X,), (Y,)],
    [(), (X,), (N, Y), (X, Y)],
    [(), (X,), (N, X), (N, N, Y)],
    [(), (X,), (N, X), (N, N, Y)],
]
INSIDE: Sequence[Sequence[Spec]] = [
    [()],
    [(), (Y,)],
    [(), (Y,), (N, Y)],
    [(), (Y,), (N, N, Y)],
    [(), (Y,)],
]


# Classes of errors that are told apart. That one mesh axis would split two dimensions JAX says as
# either of these, after who notices first.
ERRORS = "ShardingTypeError DuplicateSpecError NotImplementedError TypeError ValueError".split()
OF_ONE_KIND = {"DuplicateSpecError": "ShardingTypeError"}


def rows() -> Iterator[tuple[str, str]]:
    """Shapes, and an expression of such operands."""
    shapes = ""
    for line in ROWS.read_text().splitlines():
        if line.startswith("#"):
            shapes = line.removeprefix("#").strip()
        else:
            yield shapes, line


def ways(shapes: str, known: Sequence[Sequence[Spec]]) -> list[tuple[Spec, ...]]:
    """How the operands are split together."""
    return [*itertools.product(*[_possible(text, known) for text in shapes.split()])]


def _possible(shape: str, known: Sequence[Sequence[Spec]]) -> list[Spec]:
    sizes = [*map(int, shape.split(","))]
    parts = {N: 1, X: 2, Y: 4, XY: 8}
    return [s for s in known[len(sizes)] if not any(n % parts[e] for n, e in zip(sizes, s))]


class Tracing:
    """Programs of a library, traced for arrays over a mesh without devices."""

    def __init__(self, library: Any) -> None:
        self.library = library
        sharding = library.sharding
        kinds = (sharding.AxisType.Explicit,) * 2
        self.mesh = sharding.AbstractMesh((2, 4), ("x", "y"), kinds)
        self.names = {
            "jax": library, "jnp": library.numpy, "lax": library.lax, "np": np, "P": library.P,
            "nn": library.nn, "random": library.random,
            "G": library.lax.GatherDimensionNumbers, "S": library.lax.ScatterDimensionNumbers,
        }  # fmt: skip

    def function(self, expression: str, count: int) -> Callable[..., Any]:
        names = ", ".join("abc"[:count])
        return eval(f"lambda {names}: {expression}", dict(self.names))

    def operands(self, shapes: str, specs: Sequence[Spec], mapped: bool = False) -> list[Any]:
        more = (8,) if mapped else ()
        return [
            self.library.ShapeDtypeStruct(
                more + tuple(map(int, text.split(","))),
                "float32",
                sharding=self.library.NamedSharding(
                    self.mesh, self.library.P(*(("x",) if mapped else ()), *spec)
                ),
            )
            for text, spec in zip(shapes.split(), specs)
        ]

    def outcome(self, f: Callable[..., Any], operands: Sequence[Any]) -> str:
        """How results are split, or the class of an error."""
        with self.library.sharding.use_abstract_mesh(self.mesh):
            try:
                out = self.library.make_jaxpr(f)(*operands).out_avals
            except Exception as error:
                names = [kind.__name__ for kind in type(error).__mro__]
                return next((OF_ONE_KIND.get(n, n) for n in names if n in ERRORS), names[0])
        return ";".join(text_of(aval) for aval in out)

    def gradient(self, f: Callable[..., Any], count: int) -> Callable[..., Any]:
        jnp = self.library.numpy

        def total(*operands: Any) -> Any:
            leaves = self.library.tree.leaves(f(*operands))
            return sum(jnp.cos(x).sum() for x in leaves if jnp.issubdtype(x.dtype, jnp.floating))

        return self.library.grad(total, tuple(range(count)))

    def record(
        self, shapes: str, expression: str, kinds: Sequence[str] = ("f", "grad", "vmap")
    ) -> dict[str, str]:
        """What becomes of a row: `f` itself, `grad` where that is not an error, `vmap`."""
        record = {}
        count = len(shapes.split())
        f = self.function(expression, count)
        known = ALONE if count == 1 else BESIDE
        given = [self.operands(shapes, specs) for specs in ways(shapes, known)]
        found = [self.outcome(f, operands) for operands in given]
        if "f" in kinds:
            record["f"] = shorter(found)
        if count and "grad" in kinds:
            grad = self.gradient(f, count)
            slopes = [
                "" if is_error(text) else self.outcome(grad, operands)
                for text, operands in zip(found, given)
            ]
            record["grad"] = shorter(slopes)
        if count and "vmap" in kinds:
            mapped = [self.operands(shapes, specs, True) for specs in ways(shapes, INSIDE)]
            record["vmap"] = shorter([self.outcome(self.library.vmap(f), o) for o in mapped])
        return record


def is_error(text: str) -> bool:
    return text.endswith("Error")


def shorter(texts: Sequence[str]) -> str:
    """Repeated outcomes as one with its count."""
    return " ".join(
        key + (f"*{n}" if (n := len([*group])) > 1 else "")
        for key, group in itertools.groupby(text or "." for text in texts)
    )


def text_of(aval: Any) -> str:
    """`x,-` of an array whose first dimension is split along x; () of a number."""
    spec = getattr(getattr(aval, "sharding", None), "spec", None)
    if spec is None:
        return "?"
    entries = [*spec.partitions, *[None] * (len(aval.shape) - len(spec.partitions))]
    text = ",".join("-" if e is None else "".join(e) for e in entries)
    sums = "".join(sorted(spec.unreduced)), "".join(sorted(spec.reduced))
    return (text or "()") + "".join(f"{k}{s}" for k, s in zip("UR", sums) if s)


def main() -> None:
    import jax

    tracing = Tracing(jax)
    found = {f"{shapes}: {row}": tracing.record(shapes, row) for shapes, row in rows()}
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in found]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
