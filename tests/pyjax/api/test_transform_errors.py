"""Errors of the transformations: exception type and the words users search for."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax.numpy as jnp
from pyjax import grad, jit, jvp, lax, linear_transpose, linearize, value_and_grad, vjp, vmap
from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.custom_vjp import custom_vjp
from pyjax.api.jacobian import jacfwd, jacrev
from pyjax.api.make_jaxpr import make_jaxpr

X = np.arange(3, dtype=np.float32) + 0.5


def bad_vjp(fwd, bwd):
    f = custom_vjp(lambda x, y: x * y)
    f.defvjp(fwd, bwd)
    return lambda: grad(f)(1.0, 2.0)


def bad_jvp(rule):
    f = custom_jvp(lambda x: lax.sin(x))
    f.defjvp(rule)
    return lambda: jvp(f, (X,), (X,))


CASES = [
    ("grad_vector", lambda: grad(lambda x: x)(X), TypeError, r"scalar-output.*shape: \(3,\)"),
    ("grad_pytree", lambda: grad(lambda x: (x, x))(1.0), TypeError, "(?s)scalar-output.*has_aux"),
    (
        "grad_int",
        lambda: grad(lambda x: x * 2.0)(3),
        TypeError,
        "(?s)real- or complex-valued.*int32.*allow_int",
    ),
    (
        "grad_complex",
        lambda: grad(lambda z: z)(1j),
        TypeError,
        r"real-valued outputs.*complex64\.(?s:.*)holomorphic",
    ),
    (
        "grad_holomorphic",
        lambda: grad(lambda z: z, holomorphic=True)(1.0),
        TypeError,
        "complex dtype.*float32",
    ),
    (
        "grad_string",
        lambda: grad(lambda x: x)("a"),
        TypeError,
        "(?s)Argument 'a'.*not a valid JAX type",
    ),
    (
        "grad_in_dict",
        lambda: grad(lambda d: d["a"])({"a": 1.0, "b": "no"}),
        TypeError,
        r"at path \[0\]\['b'\]",
    ),
    (
        "grad_argnums",
        lambda: grad(lambda x: x, argnums=2)(1.0),
        TypeError,
        "at least 3 positional arguments",
    ),
    (
        "grad_aux",
        lambda: value_and_grad(lambda x: x, has_aux=True)(1.0),
        TypeError,
        "two-element tuple",
    ),
    ("grad_callable", lambda: grad(3), TypeError, "Expected a callable"),
    (
        "vjp_tree",
        lambda: vjp(lambda x: (x, x), X)[1](X),
        ValueError,
        "(?s)Tree structure of cotangent",
    ),
    (
        "vjp_shape",
        lambda: vjp(lambda x: x, X)[1](X[:2]),
        ValueError,
        r"got float32\[2\], but expected float32\[3\]",
    ),
    ("vjp_two_arguments", lambda: vjp(lambda x: (x, x), X)[1](X, X), TypeError, "single argument"),
    (
        "jvp_dtype",
        lambda: jvp(lambda x: x, (X,), (np.arange(3),)),
        TypeError,
        "tangent dtype int32",
    ),
    ("jvp_shape", lambda: jvp(lambda x: x, (X,), (X[:2],)), ValueError, r"\(3,\).*\(2,\)"),
    ("jvp_tree", lambda: jvp(lambda x: x, (X,), ({"a": X},)), TypeError, "same tree structure"),
    ("jvp_not_tuple", lambda: jvp(lambda x: x, X, X), TypeError, "must be tuples or lists"),
    ("linearize_shape", lambda: linearize(lambda x: x, X)[1](X[:2]), ValueError, "inconsistent"),
    ("linear_transpose", lambda: linear_transpose(lax.sin, X)(X), NotImplementedError, "sin"),
    (
        "vmap_rank",
        lambda: vmap(lambda x: x)(1.0),
        ValueError,
        "rank should be at least 1, but is only 0",
    ),
    (
        "vmap_nothing_mapped",
        lambda: vmap(lambda x: x, in_axes=None)(X),
        ValueError,
        "at least one non-None",
    ),
    ("vmap_no_arguments", lambda: vmap(lambda: 1)(), ValueError, "at least one argument"),
    (
        "vmap_in_axes_type",
        lambda: vmap(lambda x: x, in_axes="a"),
        TypeError,
        "in_axes must be an int",
    ),
    (
        "vmap_in_axes_length",
        lambda: vmap(lambda x: x, in_axes=(0, 0))(X),
        ValueError,
        r"len\(in_axes\)=2, len\(args\)=1",
    ),
    (
        "vmap_in_axes_tree",
        lambda: vmap(lambda x: x, in_axes=({"a": 0},))({"b": X}),
        ValueError,
        "(?s)tree prefix.*'b'",
    ),
    (
        "vmap_out_axes",
        lambda: vmap(lambda x: {"u": x}, out_axes=None)(X),
        ValueError,
        r"out_axes\['u'\]",
    ),
    ("vmap_output", lambda: vmap(lambda x: "a")(X), TypeError, "not a valid JAX type"),
    ("jit_output", lambda: jit(lambda x: "a")(X), TypeError, "not a valid JAX type"),
    ("axis_name", lambda: vmap(lambda x: lax.psum(x, "j"), axis_name="i")(X), NameError, "j"),
    ("jacfwd_int", lambda: jacfwd(lambda x: x)(3), TypeError, "jacfwd requires real-valued"),
    ("jacrev_int", lambda: jacrev(lambda x: x)(3), TypeError, "jacrev requires real- or complex"),
    ("no_rule_jvp", lambda: custom_jvp(lambda x: x)(1.0), AttributeError, "No JVP defined"),
    ("no_rule_vjp", lambda: custom_vjp(lambda x: x)(1.0), AttributeError, "No VJP defined"),
    ("jvp_rule_pair", bad_jvp(lambda p, t: p[0]), TypeError, "must produce a pair"),
    (
        "jvp_rule_shape",
        bad_jvp(lambda p, t: (p[0], t[0][:2])),
        TypeError,
        r"tangent float32\[2\], expecting",
    ),
    ("jvp_rule_tree", bad_jvp(lambda p, t: (p[0], (t[0],))), TypeError, "equal container"),
    (
        "vjp_fwd_pair",
        bad_vjp(lambda x, y: x, lambda r, g: (g, g)),
        TypeError,
        "must produce a pair",
    ),
    ("vjp_bwd_length", bad_vjp(lambda x, y: (x, None), lambda r, g: (g,)), TypeError, "length 1"),
    (
        "vjp_bwd_shape",
        bad_vjp(lambda x, y: (x, None), lambda r, g: (jnp.ones(2), g)),
        ValueError,
        r"output\[0\].*float32\[2\].*float32\[\]",
    ),
    (
        "vjp_forward_mode",
        lambda: jvp(_identity, (1.0,), (1.0,)),
        TypeError,
        "can't apply forward-mode",
    ),
    ("make_jaxpr_string", lambda: make_jaxpr(lambda x: x)("a"), TypeError, "not a valid JAX type"),
]


@custom_vjp
def _identity(x):
    return x


_identity.defvjp(lambda x: (x, None), lambda r, g: (g,))


@pytest.mark.parametrize("name, call, error, match", CASES, ids=[c[0] for c in CASES])
def test_error(name, call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_inconsistent_sizes_lists_all_of_them():
    def f(params, y, *, z):
        return y

    args = ({"w": np.ones((4, 2)), "b": np.ones(3)}, np.ones(3))
    with pytest.raises(ValueError) as info:
        vmap(f)(*args, z=np.ones(5))
    text = str(info.value)
    assert "2 axes had size 3: axis 0 of argument params['b'] of type float32[3]" in text
    assert "axis 0 of argument y of type float32[3]" in text
    assert "one axis had size 4: axis 0 of argument params['w'] of type float32[4,2]" in text
    assert "one axis had size 5: axis 0 of kwargs['z'] of type float32[5]" in text
