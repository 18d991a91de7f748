"""The public functions that have no gradient case in the tables, and why.

test_coverage.py fails on a function that has neither, and on one that has both.
"""

from __future__ import annotations

_REASONS: dict[str, dict[str, str]] = {
    "its result is a boolean, a number of elements, an index or an integer": {
        "numpy": (
            "all allclose any argmax argmin array_equal array_equiv bitwise_and bitwise_count "
            "bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
            "bitwise_xor count_nonzero digitize equal gcd greater greater_equal invert isclose "
            "iscomplex isfinite isinf isnan isneginf isposinf isreal lcm left_shift less "
            "less_equal logical_and logical_not logical_xor not_equal packbits ravel_multi_index "
            "right_shift searchsorted signbit unpackbits unravel_index"
        ),
        "lax": (
            "bitwise_and bitwise_not bitwise_or bitwise_xor clz eq ge gt is_finite le lt mulhi ne "
            "population_count reduce_and reduce_or reduce_xor shift_left "
            "shift_right_arithmetic shift_right_logical"
        ),
        "lax.linalg": "lu_pivots_to_permutation",
        "random": "bernoulli bits categorical geometric poisson rademacher randint",
        "scipy.stats": "rankdata",
        "tree": "all",
    },
    "its result does not depend on the numbers of an array": {
        "numpy": (
            "arange array_repr array_str bartlett blackman broadcast_shapes can_cast diag_indices "
            "diag_indices_from einsum_path empty empty_like eye from_dlpack frombuffer fromstring "
            "get_printoptions hamming hanning identity indices iscomplexobj isdtype isrealobj "
            "isscalar issubdtype iterable ix_ mask_indices ndim ones ones_like promote_types "
            "result_type shape size tri tril_indices tril_indices_from triu_indices "
            "triu_indices_from zeros zeros_like"
        ),
        "lax": (
            "broadcast_shapes broadcasted_iota conv_dimension_numbers conv_general_permutations "
            "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple empty iota "
            "padtype_to_pads reduce_window_shape_tuple rng_bit_generator shape_as_value"
        ),
        "nn.initializers": "ones zeros",
        "scipy.linalg": "dft hadamard helmert hilbert invhilbert invpascal pascal",
        "scipy.special": "bernoulli",
        "dlpack": "is_supported_dtype",
        "dtypes": "canonicalize_dtype issubdtype itemsize_bits",
        "example_libraries.optimizers": "constant make_schedule",
        "experimental.checkify": "check",
        "experimental.rnn": "get_num_params_in_lstm swap_lstm_gates",
        "experimental.sparse": "empty eye",
        "extend.random": "threefry_2x32 seed_with_impl",
        "tree_util": "is_tree_node keystr treedef_tuple",
        "random": "PRNGKey clone fold_in key key_data split wrap_key_data",
    },
    "its numbers are drawn from a key alone": {
        "example_libraries.stax": "glorot randn",
        "experimental.rnn": "init_lstm_weight",
        "experimental.sparse": "random_bcoo",
        "nn.initializers": (
            "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform "
            "lecun_normal lecun_uniform xavier_normal xavier_uniform"
        ),
        "random": (
            "ball cauchy double_sided_maxwell exponential generalized_normal gumbel laplace "
            "logistic maxwell normal orthogonal uniform weibull_min triangular truncated_normal"
        ),
    },
    "its result is rounded to whole numbers": {"random": "binomial multinomial"},
    "moves elements as indexing does, whose gradients are in the tables": {
        "random": "choice permutation",
    },
    "is the derivative of another function and has none in the reference": {
        "lax": "igamma_grad_a random_gamma_grad",
    },
    "says how far neighbouring numbers are apart": {
        "lax": "nextafter",
        "numpy": "nextafter spacing",
    },
    "its factors are unique only up to signs, scales or order, and have no derivative": {
        "lax.linalg": "hessenberg schur tridiagonal",
        "numpy.linalg": "eig",
        "scipy.linalg": "funm schur sqrtm",
    },
    "the function that it applies is not known to be differentiable": {"lax": "scatter_apply"},
    "reads the bits of its operand": {"lax": "bitcast_convert_type"},
    "takes no traced arrays": {"dlpack": "from_dlpack"},
    "calls Python, which is not differentiated": {
        "": "pure_callback",
        "experimental": "io_callback",
    },
    "searches by loops, backwards through which the reference does not go": {
        "scipy.optimize": "minimize",
    },
}

# "module.name": why no case differentiates it
WITHOUT: dict[str, str] = {
    f"{module}.{name}".lstrip("."): reason
    for reason, modules in _REASONS.items()
    for module, names in modules.items()
    for name in names.split()
}

# "module.name": why no case of a function with a gradient has a second derivative
WITHOUT_SECOND: dict[str, str] = {}

# Functions whose every call is an error in the reference, and so here or in known_differences.py.
ALWAYS_ERRORS: dict[str, str] = {
    "numpy.fromiter": "the reference has the name only",
    "lax.pbroadcast": "the reference has no rule for it under vmap",
}
