"""Inside of shard_map: sums over mesh axes that are still to be made (unreduced), and values whose
cotangents are such sums (reduced). Types are those that JAX 0.10.2 gives; programs run on one
device, those over several are in device_programs_sums.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax, shard_map
from pyjax.errors import ShardingTypeError
from pyjax.sharding import AbstractMesh, AxisType, NamedSharding, reshard, use_abstract_mesh

MESH = AbstractMesh((2, 4), ("x", "y"), (AxisType.Explicit,) * 2)
AUTO = AbstractMesh((2, 4), ("x", "y"), (AxisType.Auto,) * 2)
D = np.arange(64, dtype=np.float32).reshape(8, 8) / 64
SUMS, MARKED = P(unreduced={"y"}), P(reduced={"y"})
SPECS = (SUMS, MARKED, P(None, "y"), P())
pcast = lax.pcast


def array(spec: P) -> Any:
    return pyjax.ShapeDtypeStruct((8, 8), "float32", sharding=NamedSharding(MESH, spec))


def types_of(f: Callable[..., Any], **how: Any) -> str:
    """Of what `f` makes of a sum, a reduced value, one that varies, and one that does not."""
    seen: list[str] = []

    def body(*args: Any) -> Any:
        leaves = pyjax.tree.leaves(f(*args))
        seen.append(" ".join(pyjax.typeof(v).str_short(True) for v in leaves))
        return jnp.zeros(())

    arguments = map(array, SPECS)
    with use_abstract_mesh(MESH):
        pyjax.eval_shape(shard_map(body, in_specs=SPECS, out_specs=P(), **how), *arguments)
    return seen[-1]


def gathered(v: Any) -> Any:
    return lax.all_gather(v, "y", to="reduced", tiled=True, axis=1)


TYPES: dict[str, tuple[Callable[..., Any], str]] = {
    "arguments": (
        lambda u, r, v, w: (u, r, v, w), "f32[8,8]{U:y} f32[8,8]{R:y} f32[8,2]{V:y} f32[8,8]"
    ),
    "varying to unreduced": (lambda u, r, v, w: pcast(v, "y", to="unreduced"), "f32[8,2]{U:y}"),
    "invarying to reduced": (lambda u, r, v, w: pcast(w, "y", to="reduced"), "f32[8,8]{R:y}"),
    "to reduced, two axes": (
        lambda u, r, v, w: pcast(w, ("y", "x"), to="reduced"), "f32[8,8]{R:(x,y)}"
    ),
    "reduced to varying": (lambda u, r, v, w: pcast(r, "y", to="varying"), "f32[8,8]{V:y}"),
    "psum": (lambda u, r, v, w: lax.psum(u, "y"), "f32[8,8]"),
    "psum over another axis": (
        lambda u, r, v, w: (lax.psum(u, "x"), lax.psum(r, "x")), "f32[8,8]{U:y} f32[8,8]{R:y}"
    ),
    "pmean": (lambda u, r, v, w: lax.pmean(u, "y"), "f32[8,8]"),
    "psum_scatter": (
        lambda u, r, v, w: lax.psum_scatter(u, "y", tiled=True), "f32[2,8]{V:y}"
    ),
    "psum_scatter, a dimension": (
        lambda u, r, v, w: lax.psum_scatter(u[:4], "y"), "f32[8]{V:y}"
    ),
    "all_gather": (
        lambda u, r, v, w: (lax.all_gather(v, "y", to="reduced"), gathered(v)),
        "f32[4,8,2]{R:y} f32[8,8]{R:y}",
    ),
    "all_gather over another axis": (
        lambda u, r, v, w: (lax.all_gather(u, "x"), lax.psum_scatter(u[:2], "x")),
        "f32[2,8,8]{V:x, U:y} f32[8]{V:x, U:y}",
    ),
    "add": (lambda u, r, v, w: u + u, "f32[8,8]{U:y}"),
    "times": (lambda u, r, v, w: (u * r, r * u), "f32[8,8]{U:y} f32[8,8]{U:y}"),
    "of reduced ones": (
        lambda u, r, v, w: (r * r, jnp.sin(r), r * 2 + 1),
        "f32[8,8]{R:y} f32[8,8]{R:y} f32[8,8]{R:y}",
    ),
    "reduced and varying": (
        lambda u, r, v, w: (r[:, :2] * v, r @ v), "f32[8,2]{V:y} f32[8,2]{V:y}"
    ),
    "products": (lambda u, r, v, w: (r @ w, r @ r, r.max()), "f32[8,8] f32[8,8] f32[]"),
    "shapes": (
        lambda u, r, v, w: [(t.T, t.reshape(64), t[:2], t[2], t.sum()) for t in (u, r)],
        "f32[8,8]{U:y} f32[64]{U:y} f32[2,8]{U:y} f32[8]{U:y} f32[]{U:y} "
        "f32[8,8]{R:y} f32[64]{R:y} f32[2,8]{R:y} f32[8]{R:y} f32[]{R:y}",
    ),
    "joined": (
        lambda u, r, v, w: (jnp.concatenate([u, u]), jnp.concatenate([r, r])),
        "f32[16,8]{U:y} f32[16,8]{R:y}",
    ),
    "where": (lambda u, r, v, w: jnp.where(w > 0, u, u), "f32[8,8]{U:y}"),
    "converted": (lambda u, r, v, w: u.astype("bfloat16"), "bf16[8,8]{U:y}"),
    "like": (
        lambda u, r, v, w: (jnp.zeros_like(u), lax.full_like(u, 0), jnp.ones_like(r)),
        "f32[8,8] f32[8,8] f32[8,8]",
    ),
    "scan": (
        lambda u, r, v, w: lax.scan(lambda c, t: (c + t, t), u, jnp.broadcast_to(u, (3, 8, 8))),
        "f32[8,8]{U:y} f32[3,8,8]{U:y}",
    ),
    "cond": (lambda u, r, v, w: lax.cond(w[0, 0] > 0, lambda: u, lambda: u + u), "f32[8,8]{U:y}"),
    "jit": (
        lambda u, r, v, w: pyjax.jit(lambda a, b: (a + a, b * b))(u, r),
        "f32[8,8]{U:y} f32[8,8]{R:y}",
    ),
    "vmap": (lambda u, r, v, w: pyjax.vmap(lambda a: a + a)(u), "f32[8,8]{U:y}"),
    "checkpoint": (lambda u, r, v, w: pyjax.checkpoint(jnp.sin)(r), "f32[8,8]{R:y}"),
    "gradient of a reduced one": (
        lambda u, r, v, w: pyjax.grad(lambda a: (a[:, :2] * v).sum())(r), "f32[8,8]{U:y}"
    ),
    "and cast": (
        lambda u, r, v, w: pyjax.grad(
            lambda a: lax.psum((pcast(a, "y", to="varying")[:, :2] * v).sum(), "y")
        )(r),
        "f32[8,8]{U:y}",
    ),
    "gradient of a sum": (
        lambda u, r, v, w: pyjax.grad(lambda a: lax.psum(a, "y").sum())(u), "f32[8,8]{R:y}"
    ),
    "gradient of a summand": (
        lambda u, r, v, w: pyjax.grad(
            lambda a: lax.psum(pcast(a, "y", to="unreduced"), "y").sum()
        )(v),
        "f32[8,2]{V:y}",
    ),
    "gradient of what is gathered": (
        lambda u, r, v, w: pyjax.grad(lambda a: (gathered(a)[:, :2] * v).sum())(v),
        "f32[8,2]{V:y}",
    ),
    "gradient of parts of a sum": (
        lambda u, r, v, w: pyjax.grad(
            lambda a: lax.psum(lax.psum_scatter(a, "y", tiled=True).sum(), "y")
        )(u),
        "f32[8,8]{R:y}",
    ),
    "pullback": (
        lambda u, r, v, w: pyjax.vjp(jnp.sin, r)[1](u), "f32[8,8]{U:y}"
    ),
    "tangents": (lambda u, r, v, w: pyjax.jvp(jnp.sin, (r,), (r,)), "f32[8,8]{R:y} f32[8,8]{R:y}"),
    "zero cotangents": (
        lambda u, r, v, w: pyjax.grad(lambda a: lax.stop_gradient(a).sum() * v[0, 0])(r),
        "f32[8,8]{U:y}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    f, expected = TYPES[name]
    assert types_of(f) == expected
    if not name.startswith(("varying to", "pullback")):  # of values of other types
        assert not set("{}") & set(types_of(f, check_vma=False))


def test_what_types_say() -> None:
    seen = []
    types_of(lambda *args: seen.extend(map(pyjax.typeof, args)))
    assert [(a.mat.varying, a.mat.unreduced, a.mat.reduced) for a in seen] == [
        (frozenset(v), frozenset(u), frozenset(r))
        for v, u, r in [("", "y", ""), ("", "", "y"), ("y", "", ""), ("", "", "")]
    ]
    assert all(a.sharding.spec == P(None, None) for a in seen)


def mapped(
    f: Callable[..., Any], *specs: P, in_specs: Any = SPECS, out_specs: Any = P(), **how: Any
) -> Callable[[], Any]:
    """Calls a mapped function with arrays that lie as its specs say, or else as these do."""

    def call() -> None:
        how.setdefault("mesh", MESH)
        lie = specs or (in_specs if isinstance(in_specs, tuple) else (in_specs,))
        with use_abstract_mesh(how["mesh"]):
            pyjax.eval_shape(
                shard_map(f, in_specs=in_specs, out_specs=out_specs, **how), *map(array, lie)
            )

    return call


REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "a sum of what is the same": (
        ValueError,
        r"(?s)from=invarying, to='unreduced'.*in <lambda>.*varying along.*cast it to varying first",
        mapped(lambda u, r, v, w: pcast(w, "y", to="unreduced")),
    ),
    "a sum that is to be made as a value": (
        ValueError,
        r"(?s)from=unreduced, to='varying'.*sum it first: lax.psum",
        mapped(lambda u, r, v, w: pcast(u, "y", to="varying")),
    ),
    "axes of two kinds": (
        ValueError,
        r"(?s)pcast can only accept axis_name .*'x': invarying, 'y': varying.*once for the axes",
        mapped(lambda u, r, v, w: pcast(v, ("x", "y"), to="varying")),
    ),
    "a sum over axes of two kinds": (
        ValueError,
        r"psum can only accept axis_name which corresponds to one of varying, unreduced",
        mapped(lambda u, r, v, w: lax.psum(u, ("x", "y"))),
    ),
    "psum of a reduced one": (
        ValueError,
        r"(?s)psum cannot accept args which are reduced. Got f32\[8,8\]\{R:y\} and "
        r"axes=\{'y'\}.*cast it before: lax.pcast\(x, \('y',\), to='varying'\)",
        mapped(lambda u, r, v, w: lax.psum(r, "y")),
    ),
    **{
        f"{name} of a sum": (
            ValueError,
            f"(?s){name} cannot accept args which are unreduced.*make the sum before: lax.psum",
            mapped(lambda u, r, v, w, collective=collective: collective(u)),
        )
        for name, collective in {
            "pmax": lambda u: lax.pmax(u, "y"),
            "all_gather": lambda u: lax.all_gather(u, "y"),
            "all_to_all": lambda u: lax.all_to_all(u, "y", 0, 0, tiled=True),
            "ppermute": lambda u: lax.ppermute(u, "y", [(0, 1)]),
        }.items()
    },
    "psum_scatter of a reduced one": (
        ValueError,
        "reduce_scatter cannot accept args which are reduced",
        mapped(lambda u, r, v, w: lax.psum_scatter(r, "y", tiled=True)),
    ),
    "psum_scatter in groups": (
        NotImplementedError,
        "(?s)psum_scatter with axis_index_groups of .*whole axis",
        mapped(lambda u, r, v, w: lax.psum_scatter(u[:2], "y", axis_index_groups=[[0, 1], [2, 3]])),
    ),
    "all_gather in groups": (
        NotImplementedError,
        r"(?s)all_gather\(..., to='reduced'\) with axis_index_groups.*leave out `to`",
        mapped(
            lambda u, r, v, w: lax.all_gather(
                v, "y", to="reduced", axis_index_groups=[[0, 1], [2, 3]]
            )
        ),
    ),
    "all_gather of what is the same": (
        ValueError,
        "(?s)all_gather_reduced only accepts inputs that are varying.*cast it before",
        mapped(lambda u, r, v, w: lax.all_gather(w, "y", to="reduced")),
    ),
    "a sum and a value that varies": (
        ValueError,
        "(?s)pvary cannot accept args which are unreduced.*make the sum before",
        mapped(lambda u, r, v, w: u[:, :2] + v),
    ),
    "a sum and another value": (
        ShardingTypeError,
        "(?s)lhs is unreduced while rhs is not.*make it before: lax.psum",
        mapped(lambda u, r, v, w: u + w),
    ),
    "a sum times another value": (
        ShardingTypeError,
        "RHS should be reduced along the same axes LHS is unreduced on",
        mapped(lambda u, r, v, w: u * w),
    ),
    "a reduced one and another": (
        ShardingTypeError,
        "(?s)should be reduced across the same mesh axes.*lax.pcast",
        mapped(lambda u, r, v, w: r * w),
    ),
    "a function of a sum": (
        NotImplementedError,
        "(?s)unreduced rule for sin is not implemented.*lax.psum",
        mapped(lambda u, r, v, w: jnp.sin(u)),
    ),
    "the largest of a sum": (
        NotImplementedError,
        "unreduced rule for reduce_max",
        mapped(lambda u, r, v, w: u.max()),
    ),
    "a product of a sum": (
        ShardingTypeError,
        "(?s)lhs or rhs passed to dot_general cannot be unreduced.*lax.psum",
        mapped(lambda u, r, v, w: u @ w),
    ),
    "a cotangent that is no sum": (
        ValueError,
        r"(?s)Expected cotangent type float32\[8,8\]\{U:y\} but got float32\[8,8\].*lax.pcast",
        mapped(lambda u, r, v, w: pyjax.grad(lambda a: (a @ w).sum())(r)),
    ),
    "some axes only": (
        NotImplementedError,
        "(?s)function sees the mesh axes .'y',. of .*leave out axis_names",
        mapped(lambda u: lax.psum(u, "y"), in_specs=SUMS, axis_names={"y"}),
    ),
    "axes of another kind": (
        ValueError,
        "(?s)unreduced can only be used when the mesh passed .*all of type `Explicit`.*axis_types",
        mapped(lambda v: v.sum(), P(), in_specs=P("x"), out_specs=P(unreduced={"x"}), mesh=AUTO),
    ),
    "an argument that is no sum": (
        ValueError,
        r"(?s)in_specs has P\(unreduced=\{'y'\}\) for .*lies as P\(\).*leave out in_specs",
        mapped(lambda u: lax.psum(u, "y"), P(), in_specs=SUMS),
    ),
    "an argument that is one": (
        ValueError,
        r"in_specs has P\(\) for .*lies as P\(None, None, unreduced=\{'y'\}\)",
        mapped(lambda u: u, SUMS, in_specs=P()),
    ),
    "an argument that is not marked": (
        ValueError,
        r"in_specs has P\(reduced=\{'y'\}\) for",
        mapped(lambda r: r, P(), in_specs=MARKED),
    ),
    "a result that is no sum": (
        ValueError,
        r"(?s)out_specs should be equal to the unreduced present .*leave them out of the spec",
        mapped(lambda v: v.sum(1), in_specs=P("x"), out_specs=P("x", unreduced={"y"})),
    ),
    "a result that is not marked": (
        ValueError,
        r"(?s)equal to the reduced present .*float32\[4,8\]\{V:x\}.*cast the result: lax.pcast",
        mapped(lambda v: v, in_specs=P("x"), out_specs=P("x", reduced={"y"})),
    ),
    "a result that is one": (
        ValueError,
        r"(?s)equal to the unreduced present .*or make the sum: lax.psum",
        mapped(lambda u: u, in_specs=SUMS),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors(name: str) -> None:
    kind, pattern, call = REFUSED[name]
    with pytest.raises(kind, match=pattern):
        call()


def test_text() -> None:
    f = lambda u, r, v: lax.psum((r * v.sum()).sum(), "y") + lax.psum(u, "y").sum()
    with use_abstract_mesh(MESH):
        mapped_f = shard_map(f, in_specs=SPECS[:3], out_specs=P())
        text = str(pyjax.make_jaxpr(mapped_f)(*map(array, SPECS[:3])))
    assert " ".join(text.split()).partition("jaxpr=")[2].partition("mesh=")[0] == (
        "{ lambda ; e:f32[8,8]{U:y} f:f32[8,8]{R:y} g:f32[8,2]{V:y}. let "
        "h:f32[]{V:y} = reduce_sum[axes=(0, 1) out_sharding=None] g "
        "i:f32[8,8]{V:y} = reduced_vary_cast[axes=('y',)] f "
        "j:f32[8,8]{V:y} = mul i h "
        "k:f32[]{V:y} = reduce_sum[axes=(0, 1) out_sharding=None] j "
        "l:f32[] = psum_invariant[axes=('y',)] k "
        "m:f32[8,8] = unreduced_psum[axes=('y',)] e "
        "n:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] m "
        "o:f32[] = add l n in (o,) } "
    )


def there_and_back(d: Any) -> Any:
    """Sums of blocks as one that is to be made, made inside of another shard_map, and outside."""
    d = reshard(d, P("x", "y"))
    u = shard_map(lambda a: a.sum(0), in_specs=P("x", "y"), out_specs=P("y", unreduced={"x"}))(d)
    scatter = lambda a: lax.psum_scatter(a, "x", tiled=True)
    parts = shard_map(
        scatter, in_specs=P("y", unreduced={"x"}), out_specs=P(("y", "x"))
    )(u)  # fmt: skip
    return parts, reshard(u, P("y"))


def weighted(d: Any) -> Any:
    gather = lambda a: lax.psum((gathered(a) * lax.axis_index("y")).sum(), ("x", "y"))
    f = shard_map(gather, in_specs=P("x", "y"), out_specs=P())
    return pyjax.grad(f)(reshard(d, P("x", "y")))


def test_on_one_device() -> None:
    with use_abstract_mesh(MESH):
        parts, summed = pyjax.jit(there_and_back)(D)
        np.testing.assert_allclose(parts, D.sum(0), rtol=1e-6)
        np.testing.assert_allclose(summed, D.sum(0), rtol=1e-6)
        np.testing.assert_array_equal(pyjax.jit(weighted)(D), np.full_like(D, 6))
