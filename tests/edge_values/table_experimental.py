"""`experimental`, `example_libraries` and `extend.random`: what computes values."""

# ruff: noqa: E501 - a call stays in one piece

from __future__ import annotations

from tests.edge_values.rows import GRAD, Row, tabulated

ODE = {
    "odeint": [
        "f(lambda y, d: -y, s, unit[:4])",
        "f(lambda y, d: jnp.cos(d) * y, v, jnp.arange(3.0, dtype=v.dtype))",
        "f(lambda y, d, b: -b * y, v, jnp.arange(3.0, dtype=v.dtype), s)",
        "f(lambda y, d: {'a': y['b'], 'b': -y['a']}, {'a': s, 'b': s}, jnp.arange(2.0, dtype=s.dtype))['a']",
        "f(lambda y, d: -y, s, unit[:4], rtol=1e-3, atol=1e-3).shape",
        "f(lambda y, d: -y, s, unit[:4], rtol=1e-3, atol=1e-3, mxstep=2)",
        "f(lambda y, d: -y, s, unit[:4], hmax=0.125)",
        "f(lambda y, d: -y, j, unit[:4])",
        "f(lambda y, d, b: -y, s, unit[:4], 'no')",
    ],
    "abs2": ["f(v)", "f(v * 1j)", "f(w)"],
    "fit_4th_order_polynomial": ["f(v, x, v * x, v + x, v - x, s)"],
    "interp_fit_dopri": ["f(v, x, jnp.outer(jnp.arange(7.0, dtype=v.dtype), x), s)"],
    "initial_step_size": [
        "f(lambda y, d: -y, s, v, 4, 1e-3, 1e-3, -v)",
        "f(lambda y, d: y * 0, s, v, 4, 1e-3, 1e-3, v * 0)",
    ],
    "mean_error_ratio": ["f(v, 1e-3, 1e-2, x, v)", "f(v * 0, 1e-3, 1e-2, x, v)"],
    "optimal_step_size": [
        "f(s, one[0, 0] ** 2)",
        "f(s, 0 * s)",
        "f(s, 0.5 * one[0, 0] ** 2)",
        "f(s, nan)",
        "f(s, inf)",
    ],
    "runge_kutta_step": ["f(lambda y, d: -y * d, v, x, s, unit[1])"],
}
JET = {
    "jet": [
        "f(jnp.sin, (v,), ((x, v),))",
        "f(lambda y, d: y * d + jnp.exp(d / 8), (v, x), ((x, v), (v, x)))",
        "f(jnp.tanh, (unit,), ((unit, unit, unit),))",
        "f(lambda y: jnp.log(y * y + 2) / y ** 3, (x,), ((v, x),))",
        "f(lambda y: m @ y, (v[:4],), ((x[:4], v[:4]),))",
        "f(jnp.sin, (v,), ((x, v),), factorial_scaled=False)",
        "f(lambda y: jnp.sum(jnp.maximum(y, 0) ** 2), (v,), ((x, x),))",
        "f(jnp.sin, (v,), ((m,),))",
        "f(lambda y: y * 2 + 1, (j,), ((j * 1.0,),))",
        "f(lambda y: (y * y, jnp.sin(y)), (j,), ((j, j),))",
        "f(lambda y: lax.cond(y[0] > 0, jnp.sin, jnp.cos, y), (v,), ((x, v),))",
        "f(lambda y: jnp.linalg.inv(y), (q,), ((h, q),))",
        "f(jnp.sin, (v * 1j,), ((x * 1j, v + 0j),))",
    ],
    "fact": ["f(4)", "f(0)", "f(1)", "f(s)"],
}
RNN = {
    "get_num_params_in_lstm": ["f(2, 3, 1, False)", "f(2, 3, 2, True)"],
    "init_lstm_weight": [
        "f(jax.random.key(0), 2, 3, 1, False)",
        "f(jax.random.key(0), 2, 3, 2, True).shape",
    ],
    "unpack_lstm_weights": [
        "[p[0].shape for p in f(jnp.arange(84.0), 2, 3, 1, False)]",
        "f(jnp.arange(84.0), 2, 3, 1, False)[0][0]",
    ],
    "swap_lstm_gates": ["f(jnp.arange(84.0), 2, 3, 1, False)"],
    "sigmoid": ["f(v)", "f(w)"],
}
_SPARSE = "jax.experimental.sparse"
_B = f"{_SPARSE}.BCOO.fromdense(m, nse=12)"
_C = f"{_SPARSE}.BCOO.fromdense(c, nse=12)"
_R = f"{_SPARSE}.BCSR.fromdense(m, nse=12)"
_DOT = "(((1,), (0,)), ((), ()))"
_BATCHED = f"{_SPARSE}.BCOO.fromdense(t, nse=12, n_batch=1)"
_DENSE = f"{_SPARSE}.BCOO.fromdense(t, nse=6, n_dense=1)"
_BOTH = f"{_SPARSE}.BCOO.fromdense(t, nse=3, n_batch=1, n_dense=1)"
# Its last element is the one before the end, and one is out of bounds.
_NEGATIVE = f"{_SPARSE}.BCOO((v[:4], jnp.array([[0], [-1], [2], [5]])), shape=(5,))"
_NEGATIVE_2 = f"{_SPARSE}.BCOO((v[:3], jnp.array([[0, -1], [-2, 1], [1, 7]])), shape=(2, 3))"
_TWICE = f"{_SPARSE}.BCOO((v[:4], jnp.array([[1], [1], [0], [1]])), shape=(3,))"
SPARSE = {
    "bcoo_fromdense": [
        "f(m).todense()",
        "f(m).nse",
        "f(m, nse=3).todense()",
        "f(m, nse=20).data",
        "f(t, n_batch=1).indices",
        "f(t, n_dense=1).data",
        "f(s).data",
        "f(e2).indices",
        "f(m, index_dtype='int8').indices",
    ],
    "bcoo_todense": [
        f"f({_B})",
        f"f({_SPARSE}.BCOO((v, j[:, None].repeat(2, 0)[:7] * 0), shape=(3,)))",
        *(f"f({x})" for x in (_BATCHED, _DENSE, _BOTH, _NEGATIVE, _NEGATIVE_2, _TWICE)),
        f"jax.vmap(lambda y: f({_SPARSE}.BCOO((y, jnp.array([[0], [-1], [2], [5]])), shape=(5,))))(m)",
        f"jax.vmap(f)({_BATCHED})",
    ],
    "bcoo_extract": [
        f"f({_B}, m * m).data",
        f"f({_B}, v)",
        f"f({_NEGATIVE}, x[:5]).data",
        f"f({_BATCHED}, t * t).data",
        f"f({_BOTH}, t * t).data",
        f"f({_TWICE}, x[:3], assume_unique=False).data",
        f"jax.vmap(f)({_BATCHED}, t * t).data",
    ],
    "bcoo_transpose": [
        f"f({_B}, permutation=(1, 0)).todense()",
        f"f({_B}, permutation=(0, 0))",
        f"f({_NEGATIVE_2}, permutation=(1, 0)).todense()",
        f"f({_BATCHED}, permutation=(0, 2, 1)).todense()",
        f"f({_BATCHED}, permutation=(1, 0, 2))",
        f"f({_DENSE}, permutation=(1, 0, 2)).todense()",
        f"jax.vmap(lambda y: f(y, permutation=(1, 0)).todense())({_BATCHED})",
    ],
    "bcoo_dot_general": [
        f"f({_B}, c, dimension_numbers={_DOT})",
        f"f(m, {_C}, dimension_numbers={_DOT})",
        f"f({_B}, {_C}, dimension_numbers={_DOT}).todense()",
        f"f({_B}, m, dimension_numbers={_DOT})",
        f"f({_NEGATIVE}, x[:5], dimension_numbers=(((0,), (0,)), ((), ())))",
        f"f({_NEGATIVE_2}, q, dimension_numbers={_DOT})",
        f"f(q[:, :2], {_NEGATIVE_2}, dimension_numbers={_DOT})",
        f"f({_NEGATIVE_2}, {_SPARSE}.BCOO.fromdense(q, nse=9), dimension_numbers={_DOT}).todense()",
        f"f({_BATCHED}, t, dimension_numbers=(((2,), (2,)), ((0,), (0,))))",
        f"f({_BATCHED}, c, dimension_numbers=(((2,), (0,)), ((), ())))",
        f"f({_BATCHED}, t, dimension_numbers=(((1, 2), (1, 2)), ((0,), (0,))))",
        f"f({_DENSE}, t[:, :, 0], dimension_numbers=(((0, 1), (0, 1)), ((), ())))",
        f"f({_TWICE}, q, dimension_numbers=(((0,), (0,)), ((), ())))",
        f"f({_B}, c, dimension_numbers={_DOT}, preferred_element_type=jnp.float16)",
        f"jax.vmap(lambda y: f(y, c, dimension_numbers={_DOT}))({_BATCHED})",
        f"jax.vmap(lambda y: f({_B}, y, dimension_numbers={_DOT}))(jnp.stack([c, c * 2]))",
    ],
    "bcoo_dot_general_sampled": [
        f"f(m, c, {_SPARSE}.BCOO.fromdense(q, nse=9).indices, dimension_numbers={_DOT})",
        f"f(m, c, jnp.array([[0, -1], [2, 9]]), dimension_numbers={_DOT})",
    ],
    "bcoo_broadcast_in_dim": [
        f"f({_B}, shape=(2, 3, 4), broadcast_dimensions=(1, 2)).todense()",
        f"f({_B}, shape=(3, 4, 2), broadcast_dimensions=(0, 1)).todense()",
        f"f({_NEGATIVE}, shape=(2, 5), broadcast_dimensions=(1,)).todense()",
        f"f({_BATCHED}, shape=(2, 2, 3, 4), broadcast_dimensions=(1, 2, 3)).todense()",
    ],
    "bcoo_concatenate": [
        f"f([{_B}, {_B}], dimension=0).todense()",
        f"f([{_B}, {_B}], dimension=1).todense()",
        f"f([{_B}, {_C}], dimension=0)",
        f"f([{_NEGATIVE}, {_NEGATIVE}], dimension=0).todense()",
        f"f([{_BATCHED}, {_BATCHED}], dimension=0).todense()",
        f"f([{_BATCHED}, {_BATCHED}], dimension=2).todense()",
        f"f([{_DENSE}, {_DENSE}], dimension=2).todense()",
        f"f([{_BATCHED}, {_DENSE}], dimension=0)",
    ],
    "bcoo_reshape": [
        f"f({_B}, new_sizes=(4, 3)).todense()",
        f"f({_B}, new_sizes=(5,))",
        f"f({_B}, new_sizes=(4, 3), dimensions=(1, 0)).todense()",
        f"f({_NEGATIVE_2}, new_sizes=(6,)).todense()",
        f"f({_BATCHED}, new_sizes=(2, 12)).todense()",
        f"f({_BATCHED}, new_sizes=(24,))",
    ],
    "bcoo_rev": [
        f"f({_B}, dimensions=(1,)).todense()",
        f"f({_NEGATIVE}, dimensions=(0,)).todense()",
        f"f({_BATCHED}, dimensions=(0, 2)).todense()",
        f"f({_DENSE}, dimensions=(2,)).todense()",
    ],
    "bcoo_slice": [
        f"f({_B}, start_indices=(0, 1), limit_indices=(2, 3)).todense()",
        f"f({_B}, start_indices=(0,), limit_indices=(2,))",
        f"f({_B}, (0, 1), (3, 4), (2, 2)).todense()",
        f"f({_NEGATIVE}, (1,), (5,)).todense()",
        f"f({_NEGATIVE_2}, (0, 1), (2, 3)).todense()",
        f"f({_BATCHED}, (1, 0, 1), (2, 2, 4)).todense()",
        f"f({_DENSE}, (0, 1, 1), (2, 3, 3)).todense()",
    ],
    "bcoo_dynamic_slice": [
        f"f({_B}, (1, 1), (2, 2)).todense()",
        f"f({_B}, (9, -1), (2, 2)).todense()",
        f"f({_NEGATIVE}, (j[1],), (2,)).todense()",
        f"f({_BATCHED}, (1, 0, j[1]), (1, 2, 2)).todense()",
    ],
    "bcoo_squeeze": [
        f"f({_SPARSE}.BCOO.fromdense(one, nse=1), dimensions=(0,)).todense()",
        f"f({_SPARSE}.BCOO((v[:2], jnp.array([[0, -1], [0, 1]])), shape=(1, 3)), dimensions=(0,)).todense()",
        f"f({_B}, dimensions=(0,))",
    ],
    "bcoo_reduce_sum": [
        f"f({_B}, axes=(0,)).todense()",
        f"f({_B}, axes=(0, 1)).todense()",
        f"f({_B}, axes=()).todense()",
        f"f({_NEGATIVE}, axes=(0,)).todense()",
        f"f({_NEGATIVE_2}, axes=(1,)).todense()",
        f"f({_BATCHED}, axes=(0,)).todense()",
        f"f({_BATCHED}, axes=(0, 2)).todense()",
        f"f({_DENSE}, axes=(2,)).todense()",
        f"f({_BOTH}, axes=(1,)).todense()",
    ],
    "bcoo_multiply_dense": [
        f"f({_B}, m * m)",
        f"f({_B}, s)",
        f"f({_NEGATIVE}, x[:5])",
        f"f({_BATCHED}, t)",
        f"f({_BATCHED}, m)",
        f"f({_DENSE}, t)",
        f"f({_TWICE}, x[:3])",
        f"f({_B}, v)",
    ],
    "bcoo_multiply_sparse": [
        f"f({_B}, {_B}).todense()",
        f"f({_NEGATIVE}, {_NEGATIVE}).todense()",
        f"f({_BATCHED}, {_BATCHED}).todense()",
        f"f({_B}, {_C})",
    ],
    "bcoo_sort_indices": [
        f"f({_B}).data",
        f"f({_TWICE}).indices",
        f"f({_TWICE}).data",
        f"f({_NEGATIVE}).todense()",
        f"f({_BATCHED}).indices",
    ],
    "bcoo_sum_duplicates": [
        f"f({_B}, nse=12).todense()",
        f"f({_SPARSE}.BCOO((v, jnp.zeros((7, 1), int)), shape=(3,)), nse=2).data",
        f"f({_TWICE}, nse=3).data",
        f"f({_TWICE}, nse=3).indices",
        f"f({_TWICE}).nse",
        f"f({_TWICE}, nse=1).todense()",
        f"f({_NEGATIVE}, nse=4).todense()",
        f"f({_BATCHED}, nse=12).todense()",
    ],
    "bcoo_update_layout": [
        f"f({_B}, n_batch=1, on_inefficient=None).todense()",
        f"f({_B}, n_dense=1, on_inefficient=None).todense()",
        f"f({_B}, n_batch=1)",
        f"f({_BATCHED}, n_batch=0).todense()",
        f"f({_DENSE}, n_dense=0).todense()",
        f"f({_NEGATIVE_2}, n_dense=1, on_inefficient=None).todense()",
        f"f({_NEGATIVE_2}, n_batch=1, on_inefficient=None).todense()",
    ],
    "bcoo_gather": [
        f"f({_B}, j[:, None] * 0 + 1, lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4)).todense()"
    ],
    "bcoo_conv_general_dilated": [
        f"f({_SPARSE}.BCOO.fromdense(v[None, None], nse=7, n_batch=2), {_SPARSE}.BCOO.fromdense(x[None, None, :3], nse=3, n_batch=2), window_strides=(1,), padding='VALID').todense()"
    ],
    "bcsr_fromdense": [
        "f(m).todense()",
        "f(m).indptr",
        "f(m, nse=20).indices",
        "f(t, n_batch=1).todense()",
        "f(v)",
    ],
    "bcsr_todense": [f"f({_R})"],
    "bcsr_extract": [f"f({_R}.indices, {_R}.indptr, m * m)"],
    "bcsr_dot_general": [
        f"f({_R}, c, dimension_numbers={_DOT})",
        f"f({_R}, m, dimension_numbers={_DOT})",
        f"f({_SPARSE}.BCSR.fromdense(t, nse=12, n_batch=1), t, dimension_numbers=(((2,), (2,)), ((0,), (0,))))",
        f"jax.vmap(lambda y: f({_R}, y, dimension_numbers={_DOT}))(jnp.stack([c, c * 2]))",
    ],
    "bcsr_broadcast_in_dim": [f"f({_R}, shape=(2, 3, 4), broadcast_dimensions=(1, 2)).todense()"],
    "bcsr_concatenate": [f"f([{_R}, {_R}], dimension=0).todense()"],
    "bcsr_sum_duplicates": [f"f({_R}, nse=12).todense()"],
    "coo_fromdense": ["f(m).todense()", "f(m).row", "f(m, nse=14).col"],
    "coo_todense": [f"f({_SPARSE}.coo_fromdense(m, nse=12))"],
    "coo_matvec": [
        f"f({_SPARSE}.coo_fromdense(m, nse=12), v[:4])",
        f"f({_SPARSE}.coo_fromdense(m, nse=12), v[:3], True)",
        f"f({_SPARSE}.coo_fromdense(m, nse=12), v)",
    ],
    "coo_matmat": [
        f"f({_SPARSE}.coo_fromdense(m, nse=12), c)",
        f"f({_SPARSE}.coo_fromdense(m, nse=12), q, transpose=True)",
    ],
    "csr_fromdense": ["f(m).todense()", "f(m).indptr", "f(m, nse=14).indices"],
    "csr_todense": [f"f({_SPARSE}.csr_fromdense(m, nse=12))"],
    "csr_matvec": [
        f"f({_SPARSE}.csr_fromdense(m, nse=12), v[:4])",
        f"f({_SPARSE}.csr_fromdense(m, nse=12), v[:3], True)",
    ],
    "csr_matmat": [
        f"f({_SPARSE}.csr_fromdense(m, nse=12), c)",
        f"f({_SPARSE}.csr_fromdense(m, nse=12), q, transpose=True)",
    ],
    "empty": [
        "f((2, 3)).todense()",
        "f((2, 3), sparse_format='bcsr').todense()",
        "f((2, 3), dtype='int8').dtype",
        "f((2, 3), sparse_format='no')",
    ],
    "eye": [
        "f(3).todense()",
        "f(3, 4, k=1).todense()",
        "f(2, dtype='int8').todense()",
    ],
    "grad": [
        f"f(lambda y: jnp.sum((y @ c).todense() ** 2) if hasattr(y @ c, 'todense') else jnp.sum((y @ c) ** 2))({_B}).todense()"
    ],
    "value_and_grad": [f"f(lambda y: jnp.sum((y @ c) ** 2))({_B})[0]"],
    "jacfwd": [f"f(lambda y: y @ v[:4])({_B}).todense()"],
    "jacrev": [f"f(lambda y: y @ v[:4])({_B}).todense()"],
    "random_bcoo": [
        "f(jax.random.key(0), (3, 4), nse=2, n_batch=1, dtype='float32').todense()",
        "f(jax.random.key(0), (3, 4), nse=2, n_batch=1, dtype='float32').indices",
        "f(jax.random.key(0), (3, 4, 2), nse=3, n_dense=1, dtype='float32').todense()",
        "f(jax.random.key(0), (2, 3, 4), nse=3, n_batch=1, n_dense=1, dtype='float32').todense()",
        "f(jax.random.key(0), (3, 4), nse=5, unique_indices=False, dtype='float32').indices",
        "f(jax.random.key(0), (3, 4), nse=5, sorted_indices=True, dtype='float32').indices",
        "f(jax.random.key(0), (3, 4), nse=13, dtype='float32').indices",
        "f(jax.random.key(0), (3, 4), nse=5, dtype='int32').todense()",
        "f(jax.random.key(0), (3, 4), nse=5, dtype='float32').todense()",
        "f(jax.random.key(0), (3, 4), nse=0.5, dtype='float32').nse",
    ],
    "sparsify": [
        f"f(lambda y: y @ c)({_B})",
        f"f(lambda y: (y * 2).sum(0))({_B}).todense()",
        f"f(jnp.sin)({_B}).todense()",
        f"f(lambda y: y + m)({_B})",
        f"f(lambda y: y + y)({_B}).todense()",
        f"f(lambda y: y[1])({_B}).todense()",
        f"f(lambda y: y[-1, 1:])({_B}).todense()",
        f"f(lambda y: -y.T)({_B}).todense()",
        f"f(lambda y: jnp.abs(y))({_B}).todense()",
        f"f(lambda y: lax.cond(True, lambda d: d * 2, lambda d: d, y))({_B}).todense()",
        f"f(lambda y: jnp.squeeze(y[None], 0))({_B}).todense()",
        f"f(lambda y: y.sum())({_NEGATIVE}).todense()",
        f"f(lambda y: y * x[:5])({_NEGATIVE}).todense()",
        f"f(jax.jit(lambda y: y @ c))({_B})",
    ],
    "todense": [f"f({_B})", "f(m)", f"f([{_B}, v])"],
    "linalg.spsolve": [
        "f(jnp.array([4.0, 1.0, 3.0], v.dtype), jnp.array([0, 1, 1]), jnp.array([0, 2, 3]), v[:2])"
    ],
    "linalg.lobpcg_standard": [
        "f(jnp.diag(jnp.arange(1.0, 21.0, dtype=s.dtype)), jnp.eye(20, 2, dtype=s.dtype) + 0.1, m=60)[0].round(1)",
        "f(h, q)",
    ],
}
CHECKS = {
    "checkify": [
        "f(lambda y: jnp.log(y), errors=jax.experimental.checkify.float_checks)(v)[1]",
        "f(lambda y: jnp.log(y), errors=jax.experimental.checkify.float_checks)(v)[0].get() is None",
        "f(lambda y: y[9], errors=jax.experimental.checkify.index_checks)(v)[0].get() is None",
        *(
            f"f(lambda y: {call}, errors=jax.experimental.checkify.index_checks)(v)[0].get() is None"
            for call in ("y[-9]", "y[3]", "y[jnp.array([1, 9])]", "y.at[9].set(1)", "y[None, 7]")
        ),
        "f(lambda y: y / 0, errors=jax.experimental.checkify.div_checks)(v)[0].get() is None",
        "f(lambda y: (jax.experimental.checkify.check(y[0] > 9, 'no'), y)[1])(v)[0].get().split()[0]",
        "f(lambda y: (jax.experimental.checkify.check(y[0] > 1, 'no'), y * 2)[1])(v)[1]",
        "f(lambda y: jnp.sin(y))(v)",
    ],
    "check": ["f(True, 'no')", "f(False, 'no')", "f(v[0] > 9, 'no')", "f(1, 'no')"],
    "debug_check": ["f(True, 'no')", "f(v[0] > 9, 'no')"],
    "check_error": [
        "f(jax.experimental.checkify.checkify(jnp.sin)(v)[0])",
        "f(jax.experimental.checkify.checkify(lambda y: jax.experimental.checkify.check(y[0] > 9, 'no'))(v)[0])",
    ],
}
OPTIMIZERS = {
    **{
        name: [
            f"(lambda o: o[2](o[1](1, v, o[1](0, x, o[0](v)))))(f({arguments}))",
            f"(lambda o: o[2](o[1](1, {{'a': v}}, o[1](0, {{'a': x}}, o[0]({{'a': v}})))))(f({arguments}))['a']",
            f"(lambda o: o[2](o[1](2, v, o[1](0, x, o[0](v)))))(f(lambda i: 0.5{rest}))",
            f"(lambda o: o[1](0, x, o[0]([v])))(f({arguments}))",
        ]
        for name, arguments, rest in (
            ("sgd", "0.5", ""),
            ("momentum", "0.5, 0.25", ", 0.25"),
            ("nesterov", "0.5, 0.25", ", 0.25"),
            ("adagrad", "0.5", ""),
            ("rmsprop", "0.5", ""),
            ("rmsprop_momentum", "0.5", ""),
            ("adam", "0.5", ""),
            ("adamax", "0.5", ""),
            ("sm3", "0.5", ""),
        )
    },
    "clip_grads": ["f([v, x], 2.0)", "f(v, 100.0)", "f([], 1.0)"],
    "l2_norm": ["f([v, x])", "f(v)", "f([])"],
    "constant": ["f(0.5)(3)"],
    "exponential_decay": ["f(0.5, 4, 0.25)(s)"],
    "inverse_time_decay": ["f(0.5, 4, 0.25)(s)", "f(0.5, 4, 0.25, staircase=True)(s)"],
    "polynomial_decay": ["f(0.5, 4, 0.25)(s)", "f(0.5, 4, 0.25, power=2.0)(s)"],
    "piecewise_constant": [
        "f([2, 4], [0.5, 0.25, 1.0])(s)",
        "f([2, 4], [0.5])",
        "f([[2]], [0.5, 1.0])",
    ],
    "make_schedule": ["f(0.5)(3)", "f(lambda i: i * 2)(3)", "f('no')", "f(v)"],
    "unpack_optimizer_state": [
        "str(jax.tree.structure(f(jax.example_libraries.optimizers.sgd(0.5)[0]([v, x]))))"
    ],
    "pack_optimizer_state": [
        "jax.example_libraries.optimizers.sgd(0.5)[2](f(jax.example_libraries.optimizers.unpack_optimizer_state(jax.example_libraries.optimizers.sgd(0.5)[0](v))))"
    ],
}
_KEY = "jax.random.key(0)"
_IMAGE = "t[:, :, :, None]"


def _layer(layer: str, shape: str, operand: str, rest: str = "") -> str:
    """The output of an initialised layer."""
    return f"(lambda l: l[1](l[0]({_KEY}, {shape})[1], {operand}{rest}))({layer})"


STAX = {
    "Dense": [_layer("f(2)", "(-1, 4)", "m"), f"f(2)[0]({_KEY}, (-1, 4))[0]"],
    "GeneralConv": [_layer("f(('NHWC', 'HWIO', 'NHWC'), 2, (2, 2))", "(2, 3, 4, 1)", _IMAGE)],
    "GeneralConvTranspose": [
        _layer("f(('NHWC', 'HWIO', 'NHWC'), 2, (2, 2))", "(2, 3, 4, 1)", _IMAGE)
    ],
    "BatchNorm": [_layer("f()", "(2, 3, 4, 1)", _IMAGE), _layer("f(axis=(0,))", "(3, 4)", "m")],
    "MaxPool": [
        _layer("f((2, 2))", "(2, 3, 4, 1)", _IMAGE),
        _layer("f((2, 2), padding='SAME')", "(2, 3, 4, 1)", _IMAGE),
    ],
    "SumPool": [_layer("f((2, 2))", "(2, 3, 4, 1)", _IMAGE)],
    "AvgPool": [
        _layer("f((2, 2), padding='SAME')", "(2, 3, 4, 1)", _IMAGE),
        _layer("f((2, 2), strides=(2, 2))", "(2, 3, 4, 1)", _IMAGE),
    ],
    "Dropout": [
        _layer("f(0.5)", "(3, 4)", "m", f", rng={_KEY}"),
        _layer("f(0.5, mode='test')", "(3, 4)", "m"),
        _layer("f(0.5)", "(3, 4)", "m"),
    ],
    "FanOut": [_layer("f(2)", "(3, 4)", "m")],
    "FanInConcat": [_layer("f()", "[(3, 4), (3, 4)]", "[m, m]")],
    "elementwise": [
        _layer("f(jnp.sin)", "(3, 4)", "m"),
        _layer("f(jnp.clip, min=0)", "(3, 4)", "m"),
    ],
    "serial": [
        _layer(
            "f(jax.example_libraries.stax.Dense(2), jax.example_libraries.stax.Tanh)", "(3, 4)", "m"
        )
    ],
    "parallel": [
        _layer(
            "f(jax.example_libraries.stax.Dense(2), jax.example_libraries.stax.Exp)",
            "[(3, 4), (3, 4)]",
            "[m, m]",
        )
        .replace("l[0](", "tuple(l[0](")
        .replace(")[1], [m", "))[1], [m")
    ],
    "shape_dependent": [
        _layer("f(lambda n: jax.example_libraries.stax.Dense(n[-1]))", "(3, 4)", "m")
    ],
    "glorot": [f"f()({_KEY}, (3, 4))"],
    "randn": [f"f()({_KEY}, (3, 4))"],
}
RANDOM = {
    "threefry_2x32": [
        "f(jnp.array([1, 2], 'uint32'), jnp.arange(6, dtype='uint32'))",
        "f(jnp.array([1, 2], 'uint32'), jnp.arange(5, dtype='uint32'))",
        "f(v, v)",
    ],
    "seed_with_impl": ["jax.random.key_data(f(jax.extend.random.threefry_prng_impl, 3))"],
}

ROWS: tuple[Row, ...] = tuple(
    row
    for module, calls, norm, slow in (
        ("experimental.ode", ODE, 4096, True),
        ("experimental.jet", JET, 256, False),
        ("experimental.rnn", RNN, 32, False),
        ("experimental.sparse", SPARSE, 32, False),
        ("experimental.checkify", CHECKS, 16, False),
        ("example_libraries.optimizers", OPTIMIZERS, 64, False),
        ("example_libraries.stax", STAX, 64, False),
        ("extend.random", RANDOM, 0, False),
    )
    for row in tabulated(
        module, calls, ("float32",), norm=norm, grad=GRAD, grad_norm=4 * norm, slow=slow
    )
)
