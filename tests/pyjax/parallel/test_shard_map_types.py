"""shard_map: types that say along which mesh axes values vary, how it composes, and its errors."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import P, lax, shard_map
from pyjax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    get_abstract_mesh,
    set_mesh,
    use_abstract_mesh,
)

TWO = AbstractMesh((2,), ("i",))
GRID = AbstractMesh((2, 3), ("i", "j"))
X = jnp.arange(4.0)


def over(f: Callable[..., Any], in_specs: Any = P("i"), out_specs: Any = P("i"), **how: Any) -> Any:
    return shard_map(f, in_specs=in_specs, out_specs=out_specs, **{"mesh": TWO, **how})


# -- types -----------------------------------------------------------------------------------------

# What the value of an expression of x (varies along i), y (along i and j) and w (nowhere) varies
# along.
TYPES = [
    (lambda x, y, w: x, "float32[2]{V:i}"),
    (lambda x, y, w: y, "float32[2,2]{V:(i,j)}"),
    (lambda x, y, w: w + 1, "float32[3]"),
    (lambda x, y, w: x.sum() * w, "float32[3]{V:i}"),
    (lambda x, y, w: x + y, "float32[2,2]{V:(i,j)}"),
    (lambda x, y, w: lax.psum(y, "i"), "float32[2,2]{V:j}"),
    (lambda x, y, w: lax.psum(y, ("i", "j")), "float32[2,2]"),
    (lambda x, y, w: lax.pmean(x, ("i", "j")), "float32[2]"),
    (lambda x, y, w: lax.pmax(y, "j"), "float32[2,2]{V:i}"),
    (lambda x, y, w: lax.all_gather(x, "i"), "float32[2,2]{V:i}"),
    (lambda x, y, w: lax.all_gather(x, "i", to="invarying"), "float32[2,2]"),
    (lambda x, y, w: lax.all_gather(w, "j", tiled=True), "float32[9]{V:j}"),
    (lambda x, y, w: lax.psum_scatter(x, "i"), "float32[]{V:i}"),
    (lambda x, y, w: lax.ppermute(w, "j", [(0, 1)]), "float32[3]{V:j}"),
    (lambda x, y, w: lax.all_to_all(x, "i", 0, 0), "float32[2]{V:i}"),
    (lambda x, y, w: lax.axis_index("j"), "int32[]{V:j}"),
    (lambda x, y, w: lax.axis_index(("i", "j")), "int32[]{V:(i,j)}"),
    (lambda x, y, w: lax.pcast(w, ("j",), to="varying"), "float32[3]{V:j}"),
    (lambda x, y, w: lax.cond(x[0] > 0, lambda: w, lambda: 2 * w), "float32[3]{V:i}"),
    (lambda x, y, w: lax.fori_loop(0, 2, lambda k, c: c * 2, w), "float32[3]"),
    (lambda x, y, w: lax.while_loop(lambda c: x[0] < 0, lambda c: c + 1, w), "float32[3]{V:i}"),
    (lambda x, y, w: pyjax.jit(lambda v: v * y)(x), "float32[2,2]{V:(i,j)}"),
    (lambda x, y, w: pyjax.vmap(lambda v: v * w)(x), "float32[2,3]{V:i}"),
    (lambda x, y, w: pyjax.vmap(lambda v: lax.psum(v, "k"), axis_name="k")(x), "float32[2]{V:i}"),
    (lambda x, y, w: pyjax.grad(lambda v: (v * x[0]).sum())(w), "float32[3]"),
    (lambda x, y, w: pyjax.grad(lambda v: (v * w[0]).sum())(x), "float32[2]{V:i}"),
    (lambda x, y, w: pyjax.checkpoint(jnp.sin)(x), "float32[2]{V:i}"),
    (lambda x, y, w: jnp.zeros_like(x), "float32[2]{V:i}"),
    (lambda x, y, w: lax.full_like(y, 3), "float32[2,2]{V:(i,j)}"),
    (lambda x, y, w: jnp.full_like(y, 3), "float32[2,2]{V:(i,j)}"),
    (lambda x, y, w: jnp.empty_like(x, int), "int32[2]{V:i}"),
    (lambda x, y, w: jnp.ones_like(w), "float32[3]"),
]


@pytest.mark.parametrize("number", range(len(TYPES)))
def test_types_say_along_which_axes_values_vary(number: int) -> None:
    expression, expected = TYPES[number]
    seen = []

    def body(x: Any, y: Any, w: Any) -> Any:
        seen.append(pyjax.typeof(expression(x, y, w)))
        return w

    arguments = jnp.arange(4.0), jnp.ones((4, 6)), jnp.ones(3)
    specs = (P("i"), P("i", "j"), P())
    over(body, specs, P(), mesh=GRID)(*arguments)
    assert str(seen[0]) == expected
    assert repr(seen[0]) == f"ShapedArray({expected})"
    named = re.findall("[ij]", expected.partition("{V:")[2])
    assert seen[0].vma == frozenset(named)
    over(body, specs, P(), mesh=GRID, check_vma=False)(*arguments)
    assert seen[1].vma == frozenset()


def test_types_elsewhere_are_as_they_were() -> None:
    aval = pyjax.typeof(X)
    assert type(aval).__slots__ == pyjax.core.ShapedArray.__slots__ and aval.vma == frozenset()
    assert not hasattr(aval, "__dict__") and str(aval) == "float32[4]"


def test_text() -> None:
    f = over(lambda x, w: lax.psum(x * w, "i"), (P("i"), P()), P())
    text = str(pyjax.make_jaxpr(f)(X, jnp.ones(())))
    assert " ".join(text.split()) == (
        "{ lambda ; a:f32[4] b:f32[]. let c:f32[2] = shard_map[ check_vma=True "
        "in_specs=(P('i',), P()) jaxpr={ lambda ; d:f32[2]{V:i} e:f32[]. let "
        "f:f32[]{V:i} = pvary[axes=('i',)] e g:f32[2]{V:i} = mul d f "
        "h:f32[2] = psum_invariant[axes=('i',)] g in (h,) } "
        "mesh=AbstractMesh('i': 2, axis_types=(Auto,)) newly_manual_axes=frozenset({'i'}) "
        "out_specs=(P(),) ] a b in (c,) }"
    )


# -- composing -------------------------------------------------------------------------------------


def test_nested_over_other_axes() -> None:
    x = jnp.arange(24.0).reshape(4, 6)

    def inner(y: Any) -> Any:
        assert get_abstract_mesh().manual_axes == ("i", "j")
        return lax.psum(y.sum(), ("i", "j")) + y

    def outer(y: Any) -> Any:
        assert get_abstract_mesh().manual_axes == ("i",)
        return shard_map(inner, in_specs=P(None, "j"), out_specs=P(None, "j"))(y)

    f = over(outer, P("i"), P("i"), mesh=GRID, axis_names={"i"})
    for run in (f, pyjax.jit(f)):
        np.testing.assert_allclose(run(x), x + x.sum(), rtol=1e-6)
    slopes = pyjax.grad(lambda v: (f(v) ** 2).sum())(x)
    expected = pyjax.grad(lambda v: ((v + v.sum()) ** 2).sum())(x)
    np.testing.assert_allclose(slopes, expected, rtol=1e-5)


def test_some_axes_only() -> None:
    x = jnp.arange(24.0).reshape(4, 6)
    f = over(lambda v: lax.psum(v, "i"), P("i"), P(), mesh=GRID, axis_names={"i"})
    assert f(x).tolist() == (x[:2] + x[2:]).tolist()
    with pytest.raises(NameError, match="unbound axis name: j"):
        over(lambda v: lax.psum(v, "j"), P("i"), P(), mesh=GRID, axis_names={"i"})(x)


def test_what_it_closes_over_has_a_derivative() -> None:
    def loss(w: Any, x: Any) -> Any:
        return over(lambda v: lax.psum((v * w).sum(), "i"), P("i"), P())(x)

    assert pyjax.grad(loss)(3.0, X).tolist() == 6.0
    assert pyjax.jit(pyjax.grad(loss, 1))(3.0, X).tolist() == [3.0] * 4


def test_mesh_in_context_inferred_specs_and_static_arguments() -> None:
    explicit = AbstractMesh((2,), ("i",), (AxisType.Explicit,))
    with use_abstract_mesh(explicit):
        assert shard_map(lambda x: lax.psum(x, "i"), out_specs=P())(X).tolist() == [0, 2, 4, 6]
    with set_mesh(pyjax.make_mesh((1,), ("i",))):
        same = shard_map(lambda x: x, in_specs=P("i"), out_specs=P("i"))
        assert same(pyjax.reshard(X, P("i"))).tolist() == X.tolist()
        for run in (same, pyjax.jit(same)):
            with pytest.raises(ValueError, match=r"has P\('i',\) for x of .*lies as P\(\)"):
                run(X)
    some = pyjax.make_mesh((1, 1), ("i", "j"))  # whoever sees some axes gets arrays moved
    mixed = pyjax.make_mesh((1, 1), ("i", "j"), (AxisType.Explicit, AxisType.Auto))
    for moved in (
        over(lambda x: lax.psum(x, "i"), out_specs=P(), mesh=some, axis_names={"i"}),
        over(lambda x: lax.psum(x, "i"), out_specs=P(), mesh=mixed),
    ):
        for run in (moved, pyjax.jit(moved)):
            assert run(X).tolist() == X.tolist()
            assert run(pyjax.reshard(X, NamedSharding(some, P("j")))).tolist() == X.tolist()
    with set_mesh(some):
        index = pyjax.smap(lambda x: x + 1, in_axes=0, out_axes=0, axis_name="i")
        assert str(pyjax.typeof(index(X))) == "float32[4@i]"

    @shard_map(mesh=TWO, in_specs=(P("i"), None), out_specs=P("i"))
    def scaled(x: Any, how: str) -> Any:
        return {"twice": 2 * x, "same": x}[how]

    assert scaled(X, "twice").tolist() == [0, 2, 4, 6] and scaled(X, "same").tolist() == X.tolist()


def test_pytrees_of_specs() -> None:
    f = over(
        lambda tree, y: {"a": tree["a"] + y, "b": (lax.psum(tree["b"], "i"), y)},
        ({"a": P("i"), "b": P("i")}, P()),
        {"a": P("i"), "b": P()},
    )
    result = f({"a": X, "b": X}, jnp.ones(()))
    assert result["a"].tolist() == [1, 2, 3, 4] and result["b"][0].tolist() == [2, 4]


def test_rules_of_custom_functions() -> None:
    @pyjax.custom_jvp
    def doubled(x: Any) -> Any:
        return 2 * x

    doubled.defjvp(lambda p, t: (doubled(*p), 10 * t[0]))

    @pyjax.custom_vjp
    def product(x: Any, w: Any) -> Any:
        return x * w

    product.defvjp(
        lambda x, w: (x * w, (x, w)),
        lambda r, g: (g * r[1], lax.psum((g * r[0]).sum(), "i")),
    )
    wrong = pyjax.custom_vjp(lambda x, w: x * w)
    wrong.defvjp(lambda x, w: (x * w, (x, w)), lambda r, g: (g * r[1], (g * r[0]).sum()))

    def slopes(f: Any) -> Any:
        mapped = over(f, (P("i"), P()), P("i"))
        return [s.tolist() for s in pyjax.grad(lambda *a: mapped(*a).sum(), (0, 1))(X, 3.0)]

    assert slopes(lambda x, w: doubled(x) * w) == [[30.0] * 4, 12.0]
    assert slopes(product) == [[3.0] * 4, 6.0]
    with pytest.raises(
        ValueError, match=r"(?s)type float32\[\]\{V:i\} for an argument of type.*psum"
    ):
        slopes(wrong)


def test_is_compiled_once() -> None:
    f = lambda x: lax.psum(jnp.cos(x) * 1.25, "i")
    over(f, P("i"), P())(X)
    with pyjax.assert_compiles(0):
        for _ in range(3):
            over(f, P("i"), P())(X)


def test_dead_results_and_effects(capsys: pytest.CaptureFixture[str]) -> None:
    def body(x: Any) -> Any:
        pyjax.debug.print("place {}", lax.axis_index("i"))
        return x, jnp.sin(x)

    f = pyjax.jit(lambda x: over(body)(x)[0])
    assert f(X).tolist() == X.tolist()
    pyjax.effects_barrier()
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "place 0", "place 1"]
    used = pyjax.jit(lambda x: over(lambda v: (v + 1, jnp.sin(v)))(x)[0])
    assert "sine" not in used.lower(X).compile().as_text()


def test_gradients_of_linear_programs_that_are_recorded_at_once() -> None:
    """The option jax_use_direct_linearize takes the same rules."""
    f = over(lambda x, w: lax.psum(jnp.sin(x) * w, "i") * x, (P("i"), P()), P("i"))
    loss = lambda x, w: (f(x, w) ** 2).sum()
    expected = pyjax.grad(loss, (0, 1))(X, jnp.ones(2))
    with pyjax._config.options.use_direct_linearize(True):
        found = pyjax.grad(loss, (0, 1))(X, jnp.ones(2))
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_programs_are_well_typed() -> None:
    """The option jax_enable_checks looks at bodies, under their axes."""
    f = over(lambda x: lax.scan(lambda c, y: (c, c * lax.psum(y, "i")), x[0], x)[1], P("i"), P("i"))
    with pyjax._config.options.enable_checks(True):
        assert f(X + 0.25).tolist() == pyjax.jit(f)(X + 0.25).tolist()
        pyjax.jit(pyjax.grad(lambda x: pyjax.vmap(f)(x).sum()))(jnp.ones((2, 4)))


def test_mesh_of_devices() -> None:
    """In a process with four devices: on those of the mesh."""
    code = """
import numpy as np, pyjax, pyjax.numpy as jnp
from pyjax import P, lax, shard_map
pyjax.config.update("jax_num_cpu_devices", 4)
Auto = pyjax.sharding.AxisType.Auto
mesh = pyjax.make_mesh((2, 2), ("i", "j"), (Auto, Auto))
f = shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i", "j"), out_specs=P(None, "j"))
x = jnp.arange(16.0).reshape(4, 4)
for run in (f, pyjax.jit(f)):
    assert (np.asarray(run(x)) == x[:2] + x[2:]).all() and run(x).devices() == {*pyjax.devices()}
others = pyjax.sharding.Mesh(pyjax.devices()[2:], ("i",))
g = shard_map(lambda x: lax.psum(x, "i"), mesh=others, in_specs=P("i"), out_specs=P())
assert g(x).devices() == {*pyjax.devices()[2:]}
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr


# -- errors ----------------------------------------------------------------------------------------

RAISES = {
    "a dimension that cannot be cut": (
        ValueError,
        r"argument x of type float32\[3\] is not evenly divisible.*dimension 0 along mesh axis 'i' "
        r"\(of size 2\), and 2 does not divide 3.*\n.*in .*\n.*one shape.*\n.*pad",
        lambda: over(lambda x: x)(jnp.ones(3)),
    ),
    "a spec that is too long": (
        ValueError,
        r"P\(None, 'i'\) for x of type float32\[4\]: 2 entries, but the array has rank 1",
        lambda: over(lambda x: x, P(None, "i"))(X),
    ),
    "a spec of a result that is too long": (
        ValueError,
        r"out_specs has P\('i',\) for the result\['a'\] of type float32\[\]\{V:i\}.*rank 0(.|\n)*"
        r"x\[None\]",
        lambda: over(lambda x: {"a": x.sum()})(X),
    ),
    "an unknown axis": (
        ValueError,
        r"in_specs is P\('z',\), which names 'z', but the function sees the mesh axes \('i',\)",
        lambda: over(lambda x: x, P("z"))(X),
    ),
    "an axis that is not manual": (
        ValueError,
        r"out_specs\[0\] is P\('j',\), which names 'j', but the function sees .* axes \('i',\)",
        lambda: over(lambda x: (x,), P("i"), (P("j"),), mesh=GRID, axis_names={"i"})(X),
    ),
    "an axis that cuts twice": (
        ValueError,
        "duplicate entries for `i`",
        lambda: over(lambda x: x, P("i", "i"))(jnp.ones((4, 4))),
    ),
    "no specs": (TypeError, "needs in_specs", lambda: shard_map(len, mesh=TWO, out_specs=P())(X)),
    "None for specs": (TypeError, "must be a PartitionSpec, got None", lambda: over(len, None)(X)),
    "no PartitionSpec": (TypeError, "must be a PartitionSpec, got 'i'", lambda: over(len, "i")(X)),
    "unreduced": (
        ValueError,
        "(?s)unreduced can only be used when the mesh .* all of type `Explicit`.*lax.psum",
        lambda: over(len, P(unreduced={"i"}))(X),
    ),
    "specs of another structure": (
        ValueError,
        "in_specs is no prefix of the arguments",
        lambda: over(lambda x, y: x, (P("i"),))(X, X),
    ),
    "results of another structure": (
        ValueError,
        "out_specs is no prefix of the result",
        lambda: over(lambda x: (x, x), P("i"), (P(), P(), P()))(X),
    ),
    "no mesh": (ValueError, "needs a mesh", lambda: over(len, mesh=None)(X)),
    "no mesh at all": (TypeError, "must be a Mesh", lambda: over(len, mesh=3)(X)),
    "axes that the mesh has not": (
        ValueError,
        r"axis_names \{'q'\} are not axes of the mesh",
        lambda: over(len, axis_names={"q"})(X),
    ),
    "axes that are no set": (TypeError, "must be a set", lambda: over(len, axis_names="i")(X)),
    "what differs": (
        ValueError,
        r"(?s)out_specs has P\(\) for the result\[1\].*same along mesh axis 'i'.*"
        r"its type is float32\[2\]\{V:i\}.*the function is .*check_vma=False",
        lambda: over(lambda x: (x, x), P("i"), (P("i"), P()))(X),
    ),
    "a carry that begins the same": (
        TypeError,
        r"(?s)input carry c has type float32\[2\] but .* type float32\[2\]\{V:i\}, so the manual "
        r"axis types do not match.*Cast the initial value.*pcast\(..., \('i',\), to='varying'\)",
        lambda: over(lambda x: lax.scan(lambda c, k: (c + x, k), jnp.zeros(2), None, 3)[0])(X),
    ),
    "a carry of while_loop": (
        TypeError,
        r"(?s)while_loop body.*\{V:i\}.*lax.pcast",
        lambda: over(lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: c + x, jnp.zeros(2)))(
            X
        ),
    ),
    "branches that vary differently": (
        TypeError,
        r"(?s)cond branches.*so the manual axis types do not match.*lax.pcast",
        lambda: over(lambda x: lax.cond(True, lambda: x, lambda: jnp.zeros(2)))(X),
    ),
    "a cast of what varies": (
        ValueError,
        r"(?s)pcast from=varying, to='varying': the value is .*float32\[2\]\{V:i\}.*leave it out",
        lambda: over(lambda x: lax.pcast(x, "i", to="varying"))(X),
    ),
    "a cast to another type": (
        ValueError,
        "unexpected `to` value 'invariant'",
        lambda: over(lambda x: lax.pcast(x, "i", to="invariant"))(X),
    ),
    "a cast to sums": (
        ValueError,
        "(?s)from=varying, to='reduced'.*invarying along an axis can become reduced",
        lambda: over(lambda x: lax.pcast(x, "i", to="reduced"))(X),
    ),
    "a cast over an axis of vmap": (
        ValueError,
        "should be called under shard_map",
        lambda: pyjax.vmap(lambda x: lax.pcast(x, "i", to="varying"), axis_name="i")(X),
    ),
    "a cast outside": (NameError, "unbound axis", lambda: lax.pcast(X, "i", to="varying")),
    "all_gather to something else": (
        ValueError,
        "unexpected `to` value 'here'",
        lambda: over(lambda x: lax.all_gather(x, "i", to="here"))(X),
    ),
    "vmap along an axis of a spec": (
        ValueError,
        r"(?s)cannot appear in shard_map in_specs: \['i'\].*jax_disable_vmap_shmap_error",
        lambda: pyjax.vmap(over(lambda x: x), spmd_axis_name="i")(jnp.ones((2, 4))),
    ),
    "vmap along an axis of a spec of a result": (
        ValueError,
        "cannot appear in shard_map out_specs",
        lambda: pyjax.vmap(over(lambda x: x, P()), spmd_axis_name="i")(jnp.ones((2, 4))),
    ),
    "a mapped axis that cannot be cut": (
        ValueError,
        r"(?s)mapped axis of size 3 cannot be cut into 2 equal parts.*multiple",
        lambda: pyjax.vmap(over(lambda x: x, P(), P()), spmd_axis_name="i")(jnp.ones((3, 4))),
    ),
    "a collective over a mapped axis that is cut": (
        NotImplementedError,
        r"(?s)collective over 'b'.*leave out spmd_axis_name",
        lambda: pyjax.vmap(
            over(lambda x: lax.psum(x, "b"), P(), P()), spmd_axis_name="i", axis_name="b"
        )(jnp.ones((2, 4))),
    ),
}


@pytest.mark.parametrize("name", RAISES)
def test_errors(name: str) -> None:
    kind, pattern, call = RAISES[name]
    with pytest.raises(kind, match=pattern):
        call()


def test_another_mesh_in_context() -> None:
    with (
        use_abstract_mesh(GRID),
        pytest.raises(ValueError, match=r"(?s)in context.*leave out mesh"),
    ):
        over(lambda x: x)(X)
