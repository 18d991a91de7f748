"""Exceptions of the user's functions leave the library without its frames, and with a note."""

import traceback

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax


def broken(*_args):
    raise ZeroDivisionError


X = np.float32(1.0)
XS = np.ones(2, np.float32)

in_forward = pyjax.custom_vjp(lambda x: x)
in_forward.defvjp(broken, broken)
in_backward = pyjax.custom_vjp(lambda x: x)
in_backward.defvjp(lambda x: (x, x), broken)
in_rule = pyjax.custom_jvp(lambda x: x)
in_rule.defjvp(broken)
in_batching = pyjax.custom_batching.custom_vmap(lambda x: x)
in_batching.def_vmap(broken)

# What calls a function of the user that raises.
PLACES = {
    "jit": lambda: pyjax.jit(broken)(X),
    "jit in jit": lambda: pyjax.jit(pyjax.jit(broken))(X),
    "lower": lambda: pyjax.jit(broken).lower(X),
    "trace": lambda: pyjax.jit(broken).trace(X),
    "grad": lambda: pyjax.grad(broken)(X),
    "value_and_grad": lambda: pyjax.value_and_grad(broken)(X),
    "jacfwd": lambda: pyjax.jacfwd(broken)(X),
    "jacrev": lambda: pyjax.jacrev(broken)(X),
    "hessian": lambda: pyjax.hessian(broken)(X),
    "jvp": lambda: pyjax.jvp(broken, (X,), (X,)),
    "vjp": lambda: pyjax.vjp(broken, X),
    "linearize": lambda: pyjax.linearize(broken, X),
    "linear_transpose": lambda: pyjax.linear_transpose(broken, X),
    "vmap": lambda: pyjax.vmap(broken)(XS),
    "pmap": lambda: pyjax.pmap(broken)(XS[:1]),
    "make_jaxpr": lambda: pyjax.make_jaxpr(broken)(X),
    "eval_shape": lambda: pyjax.eval_shape(broken, X),
    "checkpoint": lambda: pyjax.checkpoint(broken)(X),
    "scan": lambda: lax.scan(broken, X, XS),
    "while_loop": lambda: lax.while_loop(broken, broken, X),
    "fori_loop": lambda: lax.fori_loop(0, 3, broken, X),
    "cond": lambda: lax.cond(True, broken, broken, X),
    "switch": lambda: lax.switch(1, [broken, broken], X),
    "map": lambda: lax.map(broken, XS),
    "associative_scan": lambda: lax.associative_scan(broken, XS),
    "reduce": lambda: lax.reduce(XS, X, broken, (0,)),
    "custom_root": lambda: lax.custom_root(broken, X, broken, broken),
    "rule of custom_jvp": lambda: pyjax.grad(in_rule)(X),
    "forward of custom_vjp": lambda: pyjax.grad(in_forward)(X),
    "backward of custom_vjp": lambda: pyjax.grad(in_backward)(X),
    "rule of custom_vmap": lambda: pyjax.vmap(in_batching)(XS),
    "jit of grad of a rule": lambda: pyjax.jit(pyjax.grad(in_backward))(X),
    "vectorize": lambda: jnp.vectorize(broken)(XS),
    "apply_along_axis": lambda: jnp.apply_along_axis(broken, 0, XS),
    "piecewise": lambda: jnp.piecewise(XS, [XS > 0], [broken]),
    "debug.callback": lambda: pyjax.debug.callback(broken, X),
    "checkify": lambda: pyjax.experimental.checkify.checkify(broken)(X),
    "minimize": lambda: pyjax.scipy.optimize.minimize(broken, XS, method="BFGS"),
}


def names_of(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("place", PLACES)
def test_frames_are_the_users_and_there_is_a_note(place: str) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        PLACES[place]()
    assert names_of(caught.value)[1:] == ["<lambda>", "broken"]
    (note,) = caught.value.__notes__
    assert "removed its internal frames" in note and note.startswith("-----")


# The library's own exceptions, where no function of the user is called.
MISTAKES = {
    "operator": lambda: jnp.ones(3) + jnp.ones(4),
    "operator of a number's side": lambda: "text" + jnp.ones(4),
    "callback": lambda: pyjax.jit(lambda x: pyjax.pure_callback(broken, x, x))(X),
    "callback, the second time": lambda: called_again(X),
    "device_put": lambda: pyjax.device_put(object()),
}
called_again = pyjax.jit(lambda x: pyjax.pure_callback(broken, x, x))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_frames_of_mistakes_are_the_users(mistake: str) -> None:
    for _ in range(2):
        with pytest.raises((TypeError, pyjax.errors.JaxRuntimeError)) as caught:
            MISTAKES[mistake]()
        assert names_of(caught.value)[1:] == ["<lambda>"]


def test_complete_traceback_is_kept_as_the_cause_once() -> None:
    with (
        pyjax._config.options.traceback_filtering("remove_frames"),
        pytest.raises(ZeroDivisionError) as caught,
    ):
        pyjax.jit(pyjax.grad(broken))(X)
    assert names_of(caught.value)[1:] == ["broken"]
    complete = caught.value.__cause__
    assert "trace_to_jaxpr" in names_of(complete) and complete.__cause__ is None
