"""Programs over eight devices whose text, in Shardy's words or HLO's, is the program again.

`test_shardy_text.py` runs this as a program, which writes down what went wrong with each (JSON).
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
import xla_backend
from pyjax import lax
from pyjax.export import deserialize, export
from pyjax.sharding import AxisType, Mesh, NamedSharding
from pyjax.sharding import PartitionSpec as P
from xla_backend.compile_options import CompileOptions
from xla_backend.spmd.annotations import Annotations
from xla_backend.spmd.pipeline import prepare_and_partition
from xla_backend.targets.cpu.client import CpuClient
from xla_backend.tools.fuzz.partitioned_checks import place_of

DEVICES = np.array(pyjax.devices())
GRID = Mesh(DEVICES.reshape(4, 2), ("x", "y"), (AxisType.Auto,) * 2)
TYPED = Mesh(DEVICES.reshape(4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
LINE = Mesh(DEVICES, ("z",), (AxisType.Auto,))
BACK = Mesh(DEVICES[::-1].reshape(2, 4), ("x", "y"), (AxisType.Auto,) * 2)
A = np.arange(64, dtype=np.float32).reshape(8, 8) % 7
B = np.arange(64, dtype=np.float32).reshape(8, 8) % 5


def on(*spec: Any, mesh: Mesh = GRID) -> NamedSharding:
    return NamedSharding(mesh, P(*spec))


def mapped(f: Callable[..., Any], ins: Any, outs: Any, **options: Any) -> Callable[..., Any]:
    return pyjax.jit(
        pyjax.shard_map(f, **{"mesh": GRID, "in_specs": ins, "out_specs": outs, **options})
    )


def constrained(x: Any, *spec: Any, mesh: Mesh = GRID) -> Any:
    return lax.with_sharding_constraint(x, on(*spec, mesh=mesh))


def nested(a: Any) -> Any:
    inner = pyjax.shard_map(
        lambda b: lax.psum(b, "y") + lax.axis_index("x"),
        in_specs=P(None, "y"),
        out_specs=P(),
        axis_names={"y"},
    )
    return inner(a) * 2


def partial_sums(a: Any) -> Any:
    return lax.psum(constrained_inside(a * 2), "x")


def constrained_inside(a: Any) -> Any:
    return lax.with_sharding_constraint(a, P(None, "y"))


def loop(a: Any) -> Any:
    return lax.scan(lambda c, _: (constrained(c * 2, "x"), c.sum()), a, None, length=3)


def loop_of_parts(a: Any) -> Any:
    step = pyjax.shard_map(
        lambda c: c + lax.ppermute(c, "x", [(i, (i + 1) % 4) for i in range(4)]),
        mesh=GRID,
        in_specs=P("x"),
        out_specs=P("x"),
    )
    return lax.fori_loop(0, 3, lambda _, c: step(c), a)


def branch(a: Any) -> Any:
    return lax.cond(a[0, 0] > 0, lambda a: constrained(a, "x"), lambda a: constrained(-a, "y"), a)


def loss(a: Any, b: Any) -> Any:
    body = pyjax.shard_map(
        lambda a, b: lax.psum((a * b).sum(), ("x", "y")),
        mesh=GRID,
        in_specs=(P("x", "y"), P("x", "y")),
        out_specs=P(),
    )
    return body(a, b * b)


def summed(a: Any, b: Any) -> Any:
    product = jnp.einsum(
        "ij,jk->ik", a, b, out_sharding=NamedSharding(TYPED, P(None, None, unreduced={"x"}))
    )
    return pyjax.reshard(product, NamedSharding(TYPED, P("y")))


def laid_out(x: np.ndarray, *spec: Any) -> pyjax.Array:
    return pyjax.device_put(x, NamedSharding(TYPED, P(*spec)))


twice = pyjax.jit(lambda b: lax.psum(b, "x") * 2)
gather = lambda a, b: (a + b, lax.all_gather(a, "y"))
into_x, over_both = {"in_shardings": on("x")}, {"in_shardings": on("x", "y")}

# Of each the function and its arguments.
PROGRAMS: dict[str, tuple[Any, Sequence[Any]]] = {
    "in": (pyjax.jit(lambda a: a + 1, **over_both), [A]),
    "out": (pyjax.jit(lambda a: a + 1, out_shardings=on("y", "x")), [A]),
    "in and out": (
        pyjax.jit(
            lambda a, b: constrained(a @ b, "x"),
            in_shardings=(on("x", "y"), on("y")),
            out_shardings=on(("x", "y")),
        ),
        [A, B],
    ),
    "some of the results": (
        pyjax.jit(lambda a: (a + 1, a * 2), in_shardings=on(), out_shardings=(on("x"), None)),
        [A],
    ),
    "one result twice": (
        pyjax.jit(lambda a: (a, a), in_shardings=on("y"), out_shardings=(on("x"), on("x"))),
        [A],
    ),
    "an argument comes out": (
        pyjax.jit(lambda a: a, in_shardings=on("y"), out_shardings=on("x")), [A],
    ),
    "a constraint": (pyjax.jit(lambda a: constrained(a * 2, "x")), [A]),
    "an open dimension": (pyjax.jit(lambda a: constrained(a, "x", P.UNCONSTRAINED) * 2), [A]),
    "a scalar": (pyjax.jit(lambda a: constrained(a.sum()) + 1, **into_x), [A]),
    "two meshes": (pyjax.jit(lambda a: constrained(a, "z", mesh=LINE) + 1, **into_x), [A]),
    "devices in another order": (
        pyjax.jit(lambda a: constrained(a * 2, "y", mesh=BACK) + 1), [A],
    ),
    "matrices that are cut": (
        pyjax.jit(lambda a, b: (a @ b).sum(0), in_shardings=(on(None, "x"), on("x"))), [A, B],
    ),
    "a donated argument": (
        pyjax.jit(lambda a: a + 1, **into_x, out_shardings=on("x"), donate_argnums=0), [A],
    ),
    "explicit types": (pyjax.jit(lambda a: (a * 2).sum(0)), [laid_out(A, "x", "y")]),
    "explicit reshards": (
        pyjax.jit(lambda a: pyjax.reshard(a, NamedSharding(TYPED, P("y", "x"))) + 1),
        [laid_out(A, "x")],
    ),
    "sums that are still to be made": (
        pyjax.jit(summed), [laid_out(A, None, "x"), laid_out(B, "x")],
    ),
    "bodies": (mapped(lambda a: lax.psum(a, "x"), P("x", "y"), P(None, "y")), [A]),
    "bodies of several values": (
        mapped(gather, (P("x", "y"), P("x", "y")), (P("x", "y"), P(None, "x")), check_vma=False),
        [A, B],
    ),
    "a body that takes a value twice": (
        pyjax.jit(lambda a: mapped(jnp.add, (P("x"), P("x")), P("x"))(a, a)), [A],
    ),
    "a body of which one result is used": (
        pyjax.jit(lambda a: mapped(lambda a: (a, -a), P("x"), (P("x"), P("x")))(a)[1]), [A],
    ),
    "a body without operands": (mapped(lambda: lax.axis_index("x")[None], (), P("x")), []),
    "a body that calls": (mapped(lambda a: twice(a), P("x", "y"), P(None, "y")), [A]),
    "bodies that share a function": (
        pyjax.jit(lambda a: mapped(twice, P("x"), P())(a) + mapped(twice, P("x"), P())(a + 1)),
        [A],
    ),
    "a body of a body's result": (
        pyjax.jit(lambda a: mapped(jnp.negative, P("y"), P("y"))(
            mapped(lambda a: a + lax.axis_index("x"), P("x"), P("x"))(a))),
        [A],
    ),
    "along some axes": (
        mapped(lambda a: lax.psum(a, "x") + lax.axis_index("x"), P("x"), P("x"), axis_names={"x"}),
        [A],
    ),
    "a constraint along the others": (
        mapped(partial_sums, P("x"), P(), axis_names={"x"}), [A],
    ),
    "nested bodies": (mapped(nested, P("x"), P("x"), axis_names={"x"}), [A]),
    "a loop": (pyjax.jit(loop, **into_x), [A]),
    "a loop of parts": (pyjax.jit(loop_of_parts), [A]),
    "a branch": (pyjax.jit(branch, **into_x), [A]),
    "a gradient": (
        pyjax.jit(pyjax.grad(lambda a: (constrained(a, "x") ** 2).sum()), **into_x), [A],
    ),
    "a gradient of bodies": (pyjax.jit(pyjax.grad(loss, (0, 1))), [A, B]),
    "a gradient of a loop": (
        pyjax.jit(pyjax.grad(lambda a: loop(a)[0].sum()), **into_x), [A],
    ),
    "pmap": (pyjax.jit(pyjax.pmap(lambda a: lax.psum(a, "i") + a, "i")), [A]),
}  # fmt: skip


def run_text(text: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results, put together, of a program that is read from its text."""
    module = xla_backend.parse_stablehlo(text)
    assert module.entry is not None and module.entry.root is not None
    partition = prepare_and_partition(module.clone())
    assert partition is not None
    read = Annotations([*partition.parameters, *partition.results], 8)
    compiled, *_ = CpuClient().compile_partitioned(module.clone(), CompileOptions())

    def places(shardings: Any, shapes: Any, device: int) -> list[tuple[slice, ...]]:
        return [
            place_of(read.spec(own, shape), read.mesh, device, shape.dimensions)
            for own, shape in zip(shardings, shapes, strict=True)
        ]

    taken, given = [p.shape for p in module.entry.parameters], module.entry.root.shape.flatten()
    cut = [
        [np.asarray(x)[at] for x, at in zip(arguments, places(partition.parameters, taken, d))]
        for d in range(8)
    ]
    whole = [np.full(shape.dimensions, np.nan, np.float32) for shape in given]
    for device, parts in enumerate(compiled.run_arrays_together(cut)):
        for array, part, at in zip(whole, parts, places(partition.results, given, device)):
            array[at] = part
    return whole


def check(f: Any, arguments: Sequence[Any]) -> None:
    copies = [np.asarray(x) for x in arguments]
    again = lambda: [
        pyjax.device_put(x, y.sharding) if isinstance(y, pyjax.Array) else x
        for x, y in zip(copies, arguments)
    ]
    lowered = f.lower(*arguments)
    compiled = lowered.as_text("hlo")
    want = [np.asarray(x) for x in pyjax.tree.leaves(f(*again()))]
    shardy = lowered.as_text()
    assert "sdy.mesh @mesh" in shardy and "mhlo.sharding" not in shardy, shardy
    assert "custom_call" not in shardy, shardy
    assert str(lowered.compiler_ir()) == shardy
    pyjax.config.update("jax_use_shardy_partitioner", False)
    try:
        hlo = lowered.as_text()
        assert "sdy." not in hlo and "mhlo.sharding" in hlo, hlo
        assert str(lowered.compiler_ir()) == hlo
        assert f.lower(*arguments).as_text("hlo") == compiled
    finally:
        pyjax.config.update("jax_use_shardy_partitioner", True)
    for text in (shardy, hlo):
        for x, y in zip(run_text(text, copies), want, strict=True):
            np.testing.assert_array_equal(x, y)


def check_exported(f: Any, arguments: Sequence[Any]) -> None:
    """Exported in both forms, and called."""
    want = [np.asarray(x) for x in pyjax.tree.leaves(f(*arguments))]
    for is_shardy in (True, False):
        pyjax.config.update("jax_use_shardy_partitioner", is_shardy)
        try:
            exported = export(f)(*arguments)
        finally:
            pyjax.config.update("jax_use_shardy_partitioner", True)
        text = exported.mlir_module()
        assert ("sdy.mesh" in text, "mhlo.sharding" in text) == (is_shardy, not is_shardy), text
        blob = exported.serialize()
        inputs = exported.in_shardings_jax(GRID)
        placed = [
            x if isinstance(x, pyjax.Array) else pyjax.device_put(x, s or on())
            for x, s in zip(arguments, inputs)
        ]
        if not placed:
            continue
        for x, y in zip(pyjax.tree.leaves(deserialize(blob).call(*placed)), want, strict=True):
            np.testing.assert_array_equal(np.asarray(x), y)


EXPORTED = (
    "in and out", "two meshes", "explicit reshards", "sums that are still to be made",
    "bodies of several values", "along some axes", "nested bodies", "a loop of parts",
    "a gradient of bodies",
)  # fmt: skip


def main() -> None:
    found = {}
    runs = [(name, check, name) for name in PROGRAMS]
    runs += [(f"{name}, exported", check_exported, name) for name in EXPORTED]
    for title, run, name in runs:
        try:
            run(*PROGRAMS[name])
            found[title] = ""
        except Exception:
            found[title] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
