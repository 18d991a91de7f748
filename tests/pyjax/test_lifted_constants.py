"""Arrays that functions close over are arguments of programs, however deep they are used.

The text of the program, its constants and the time to lower it do not depend on their size, and
they are not copied from call to call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.custom_batching  # has a primitive with a program
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, vmap
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, subjaxprs
from pyjax.interpreters.lift_constants import lift_rules
from pyjax.interpreters.rules import all_primitives
from xla_backend.hlo.opcode import Opcode
from xla_backend.runtime.host_buffer import HostBufferKind

SMALL, LARGE = 1_000, 2_500_000  # 4 kB and 10 MB


def custom_vjp_of(loss: Callable[[Any], Any], data: Any) -> Any:
    f = pyjax.custom_vjp(loss)
    f.defvjp(lambda w: (loss(w), w), lambda w, ct: (ct * (2 * w * data * data).sum(),))
    return f


def custom_jvp_of(loss: Callable[[Any], Any], data: Any) -> Any:
    f = pyjax.custom_jvp(loss)
    f.defjvp(lambda p, t: (loss(p[0]), t[0] * (2 * p[0] * data * data).sum()))
    return f


def solve_with(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    inner = jit(lambda v: v * (1 + jit(loss)(1.0)))

    def solve(w: Any) -> Any:
        return lax.custom_linear_solve(
            inner, w, lambda matvec, b: b / matvec(1.0), lambda vecmat, b: b / vecmat(1.0)
        )

    return solve


def root_with(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    inner = jit(lambda x: x * (1 + jit(loss)(1.0)))
    return lambda w: lax.custom_root(
        lambda x: inner(x) - w, 0.0, lambda f, x: x - f(x), lambda g, y: y / g(1.0)
    )


def in_scan(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    step = jit(lambda c, _: (c + jit(loss)(c), c))
    return lambda w: lax.scan(step, w, None, length=2)[0]


def in_while(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    more, body = jit(lambda c: c < jit(loss)(1.0)), jit(lambda c: c + 1 + jit(loss)(c))
    return lambda w: lax.while_loop(more, body, w)


def in_cond(loss: Callable[[Any], Any], other: Any) -> Callable[[Any], Any]:
    first, second = jit(lambda c: c + jit(loss)(c)), jit(lambda c: (c * other).sum())
    return lambda w: lax.cond(w > 0, first, second, w)


def in_switch(loss: Callable[[Any], Any], other: Any) -> Callable[[Any], Any]:
    branches = [jit(lambda c: c), jit(lambda c: (c * other).sum()), jit(loss)]
    return lambda w: lax.switch(w.astype(int), branches, w)


def programs(size: int, make: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    """Functions of a scalar that close over `size` numbers."""
    data = make(np.linspace(0, 1, size, dtype=np.float32))
    other = make(np.linspace(1, 2, size, dtype=np.float32))

    def loss(w: Any) -> Any:
        return ((w * data) ** 2).sum()

    nested = jit(lambda w: jit(lambda v: jit(loss)(v) + 1)(w) * 2)
    return {
        "jit": loss,
        "nested": nested,
        "grad_of_jit": grad(jit(loss)),
        "grad_of_nested": grad(nested),
        "second_derivative": grad(grad(nested)),
        "forward": lambda w: pyjax.jvp(nested, (w,), (w,)),
        "vmap": lambda w: vmap(nested)(jnp.stack([w, w])),
        "vmap_of_grad": lambda w: vmap(grad(nested))(jnp.stack([w, w])),
        "scan": in_scan(loss),
        "grad_of_scan": grad(in_scan(loss)),
        "vmap_of_scan": lambda w: vmap(in_scan(loss))(jnp.stack([w, w])),
        "while": in_while(loss),
        "vmap_of_while": lambda w: vmap(in_while(loss))(jnp.stack([w, w + 1])),
        "cond": in_cond(loss, other),
        "grad_of_cond": grad(in_cond(loss, other)),
        "vmap_of_cond": lambda w: vmap(in_cond(loss, other))(jnp.stack([w, -w])),
        "switch": in_switch(loss, other),
        "grad_of_switch": grad(in_switch(loss, other)),
        "checkpoint": grad(pyjax.checkpoint(nested)),
        "custom_vjp": custom_vjp_of(jit(loss), data),
        "grad_of_custom_vjp": grad(jit(custom_vjp_of(jit(loss), data))),
        "vmap_of_custom_vjp": lambda w: vmap(grad(jit(custom_vjp_of(loss, data))))(
            jnp.stack([w, w])
        ),
        "custom_jvp": custom_jvp_of(jit(loss), data),
        "grad_of_custom_jvp": grad(jit(custom_jvp_of(jit(loss), data))),
        "linear_solve": solve_with(loss),
        "grad_of_linear_solve": grad(solve_with(loss)),
        "root": root_with(loss),
        "grad_of_root": grad(root_with(loss)),
        "map": lambda w: lax.map(jit(loss), jnp.stack([w, w])),
        "fori": lambda w: lax.fori_loop(0, 3, lambda i, c: c + jit(loss)(c), w),
    }


NAMES = list(programs(1, jnp.asarray))
KINDS = {"pyjax": jnp.asarray, "numpy": np.asarray}


def constant_elements(lowered: Any) -> int:
    module = lowered.compiler_ir("hlo")
    constants = [
        node
        for computation in module.computations
        for node in computation.instructions
        if node.opcode is Opcode.CONSTANT
    ]
    return sum(node.attributes.literal.array.size for node in constants)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_programs_do_not_contain_the_data(name, kind):
    texts = []
    for size in (SMALL, LARGE):
        lowered = jit(programs(size, KINDS[kind])[name]).lower(2.0)
        assert constant_elements(lowered) < 100
        texts.append(lowered.as_text("hlo"))
    assert abs(len(texts[0]) - len(texts[1])) < 0.2 * len(texts[0])
    assert max(map(len, texts)) < 100_000


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_unjitted_functions(name):
    f = programs(100, jnp.asarray)[name]
    for w in (2.0, 0.5):
        got = jit(f)(w)
        with pyjax.disable_jit():
            expected = f(jnp.asarray(w))
        for a, b in zip(pyjax.tree.leaves(got), pyjax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5)


def test_one_value_is_one_argument():
    data = jnp.arange(100.0)

    def loss(w):
        return (w * data).sum() + jit(
            lambda v: (v * data).sum() + jit(lambda u: u * data.sum())(v)
        )(w)

    lowered = jit(grad(jit(loss))).lower(1.0)
    text = lowered.as_text("hlo")
    assert text.count("f32[100] parameter(1)") + text.count("f32[100]{0} parameter(1)") >= 1
    (entry,) = [c for c in lowered.compiler_ir("hlo").computations if c.name.startswith("main")]
    assert len([i for i in entry.instructions if i.opcode is Opcode.PARAMETER]) == 2


def test_small_constants_are_written_into_the_program():
    data = jnp.arange(4.0)
    f = jit(lambda w: jit(lambda v: v * data)(w))
    assert constant_elements(f.lower(1.0)) == 4


def arrays_in(jaxpr: Jaxpr) -> list[Any]:
    """Arrays that are written into a program, at any level."""
    found: list[Any] = []
    for eqn in jaxpr.eqns:
        atoms = [*eqn.invars, *jaxpr.outvars]
        found += [a.val for a in atoms if type(a) is Literal and np.shape(a.val) != ()]
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                found += item.consts if isinstance(item, ClosedJaxpr) else []
                found += [item] if isinstance(item, (np.ndarray, pyjax.Array)) else []
    return found + [x for inner in subjaxprs(jaxpr) for x in arrays_in(inner)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_jaxprs_hold_no_arrays(name, kind):
    closed = pyjax.make_jaxpr(programs(100, KINDS[kind])[name])(2.0)
    assert arrays_in(closed.jaxpr) == []
    large = [c for c in closed.consts if np.size(c) == 100]
    assert 1 <= len(large) == len(set(map(id, large))) <= 2


def test_every_primitive_with_programs_lifts_their_constants():
    """A new primitive whose parameters hold programs needs a rule."""
    with_programs = {
        *("jit", "remat2", "custom_jvp_call", "custom_vjp_call", "cond", "scan", "while"),
        *("custom_linear_solve", "custom_root", "custom_vmap_call", "linear_call", "shard_map"),
        *("composite", "loop_tangent", "loop_gradient", "loop_curvature"),
    }
    assert {p.name for p in lift_rules} == with_programs
    assert with_programs <= set(all_primitives)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["jit", "grad_of_nested", "grad_of_scan", "cond", "while"])
def test_data_is_not_copied_at_each_call(name, kind, monkeypatch):
    """Outside of jit, too, a second call takes no memory of the size of the data for a copy."""
    copied = []
    from_host = HostBufferKind.from_host

    def watch(kind: Any, value: Any) -> Any:
        copied.append(np.size(value))
        return from_host(kind, value)

    f = programs(SMALL, KINDS[kind])[name]
    calls = [jit(f)] if name == "jit" else [jit(f), f]
    for call in calls:
        call(jnp.float32(2.0))
        monkeypatch.setattr(HostBufferKind, "from_host", watch)
        call(jnp.float32(2.0))
        monkeypatch.undo()
    assert max(copied, default=0) < SMALL
