"""Options about numbers: dtypes, promotion, precision, random numbers."""

from __future__ import annotations

import re
import warnings

import numpy as np

import pyjax
import pyjax.numpy as jnp
from tests.config.effects.observe import error_of, warnings_of
from tests.config.effects.table import effect


@effect(
    "jax_enable_x64",
    True,
    default=["int32", "float32", "float32"],
    changed=["int64", "float64", "float64"],
)
def x64() -> list[str]:
    values = (jnp.arange(3), jnp.asarray(1.0), jnp.zeros(2))
    return [str(x.dtype) for x in values]


@effect("jax_enable_x64", True, default=re.compile("float64.*truncated"), changed="")
def x64_truncation() -> str:
    return warnings_of(lambda: jnp.zeros(2, np.float64))


@effect("jax_default_matmul_precision", "highest", default=["DEFAULT"] * 2, changed=["HIGHEST"] * 2)
def matmul_precision_in_programs() -> list[str]:
    lowered = pyjax.jit(lambda x: x @ x).lower(jnp.ones((2, 2))).as_text()
    found = re.search(r"precision = \[(\w+), (\w+)\]", lowered)
    return [] if found is None else [*found.groups()]


@effect(
    "jax_numpy_dtype_promotion",
    "strict",
    default="",
    changed=re.compile(r"^TypePromotionError: (?s:.*)(int32(?s:.*)float32|float32(?s:.*)int32)"),
)
def dtype_promotion() -> str:
    return error_of(lambda: jnp.ones(2, np.float32) + jnp.ones(2, np.int32))


@effect(
    "jax_numpy_rank_promotion",
    "raise",
    default="",
    changed=re.compile(r"^ValueError: (?s:.*)\(2, 3\), \(3,\)"),
)
def rank_promotion_raises() -> str:
    return error_of(lambda: jnp.ones((2, 3)) + jnp.ones(3))


@effect(
    "jax_numpy_rank_promotion",
    "warn",
    default="",
    changed=re.compile(r"^UserWarning: (?s:.*)\(2, 3\), \(3,\)"),
)
def rank_promotion_warns() -> str:
    return warnings_of(lambda: jnp.ones((2, 3)) + jnp.ones(3))


@effect("jax_high_dynamic_range_gumbel", True, default=False, changed=True)
def gumbel_tail() -> bool:
    """Whether a sample is beyond 15.95, the most that a random number of 23 bits gives."""
    return bool(pyjax.random.gumbel(pyjax.random.key(7), (1 << 18,)).max() > 15.95)


@effect("jax_default_prng_impl", "rbg", default="key<fry>", changed="key<rbg>")
def prng_impl() -> str:
    return str(pyjax.random.key(0).dtype)


@effect("jax_default_prng_impl", "unsafe_rbg", default=False, changed=True)
def prng_impl_in_programs() -> bool:
    lowered = pyjax.jit(pyjax.random.bits).lower(pyjax.random.key(0))
    return "rng-bit-generator" in lowered.as_text("hlo")


@effect("jax_enable_custom_prng", True, default="uint32", changed="key<fry>")
def custom_prng() -> str:
    return str(pyjax.random.PRNGKey(0).dtype)


@effect("jax_while_loop_checkpoint_bytes", 0, default=["32"], changed=["8"])
def states_of_a_loop() -> list[str]:
    """How many slots the gradient of a loop of 20 rounds has."""
    counted = lambda c: (c[0] + 1, jnp.sin(c[1]))
    loop = lambda x: pyjax.lax.while_loop(lambda c: c[0] < 20, counted, (0, x))[1]
    _, pullback = pyjax.vjp(loop, 1.0)
    return re.findall(r"slots=(\d+)", str(pyjax.make_jaxpr(pullback)(1.0)))


@effect("jax_random_seed_offset", 5, default=[0, 2], changed=[0, 7])
def seed_offset() -> list[int]:
    return pyjax.random.key_data(pyjax.random.key(2)).tolist()


@effect(
    "jax_threefry_partitionable",
    False,
    default=[4070199207, 4202968722, 1427181096, 2012915765],
    changed=[4146024105, 967050713, 2718843009, 1272950319],
)
def threefry_stream() -> list[int]:
    """The bits that the reference draws."""
    return pyjax.random.bits(pyjax.random.key(0), (4,)).tolist()


def normal_with_a_raw_key() -> object:
    return pyjax.random.normal(pyjax.random.PRNGKey(0), (2,))


@effect(
    "jax_legacy_prng_key",
    "error",
    default="",
    changed=re.compile(r"^ValueError: Legacy uint32 key .* jax.random function normal"),
)
def raw_key_raises() -> str:
    return error_of(normal_with_a_raw_key)


@effect(
    "jax_legacy_prng_key",
    "warn",
    default="",
    changed=re.compile(r"^UserWarning: Legacy uint32 key .* jax.random function normal"),
)
def raw_key_warns() -> str:
    return warnings_of(normal_with_a_raw_key)


@effect("jax_softmax_custom_jvp", True, default="differentiated", changed="by its rule")
def softmax_derivative() -> str:
    """Through the division, or not; the same numbers."""
    f = pyjax.grad(lambda x: pyjax.nn.softmax(x)[0])
    x = jnp.arange(3.0)
    weights = np.exp(np.arange(3.0)) / np.exp(np.arange(3.0)).sum()
    expected = weights[0] * (np.eye(3)[0] - weights)
    np.testing.assert_allclose(f(x), expected, rtol=1e-5)
    return "by its rule" if "_softmax_jvp" in str(pyjax.make_jaxpr(f)(x)) else "differentiated"


@effect(
    "jax_debug_key_reuse",
    True,
    default="",
    changed=re.compile(
        r"^KeyReuseError: a random key(?s:.*)numerics.py(?s:.*)iteration 1 of scan"
        r"(?s:.*)it was used at"
    ),
)
def debug_key_reuse() -> str:
    key = pyjax.random.key(0)
    draw = pyjax.jit(pyjax.random.normal)
    return error_of(lambda: pyjax.lax.scan(lambda c, _: (c + draw(key), None), 0.0, None, length=2))


@effect(
    "jax_dynamic_shapes",
    True,
    default=re.compile(r"^TypeError: Shapes must be 1D sequences of concrete values"),
    changed="",
)
def traced_size_is_accepted() -> str:
    return error_of(lambda: pyjax.jit(lambda n: jnp.ones(n))(3))


@effect("jax_dynamic_shapes", True, default=None, changed=[(0,), (1,), (1000,)])
def one_program_for_all_sizes() -> list[tuple[int, ...]] | None:
    """Shapes of results, after the program is there."""
    ones = pyjax.jit(lambda n: jnp.ones(n) * 2)
    try:
        ones(5)
    except TypeError:
        return None
    with pyjax.assert_compiles(0):
        return [ones(n).shape for n in (0, 1, 1000)]


@effect(
    "jax_threefry_gpu_kernel_lowering",
    True,
    default=("unrolled", "unrolled", "unrolled"),
    changed=("cu_threefry2x32_ffi", "hip_threefry2x32_ffi", "unrolled"),
)
def threefry_kernel() -> tuple[str, ...]:
    """What hashes counters in programs for CUDA, ROCm and the CPU."""

    def found(platform: str) -> str:
        traced = pyjax.jit(lambda key: pyjax.random.bits(key, (4,))).trace(pyjax.random.key(0))
        lowered = traced.lower(lowering_platforms=(platform,))
        texts = lowered.as_text(), lowered.as_text("hlo")
        calls = [set(re.findall(r"\w+_threefry2x32_ffi", text)) for text in texts]
        rounds = ["shift_left" in texts[0], "shift-left" in texts[1]]
        assert calls[0] == calls[1] and rounds == [not calls[0]] * 2
        assert sum(text.count("_threefry2x32_ffi") for text in texts) == 2 * len(calls[0])
        return calls[0].pop() if calls[0] else "unrolled"

    return found("cuda"), found("rocm"), found("cpu")


@effect(
    "jax_allow_f16_reductions",
    False,
    default="3",
    changed=re.compile("^ValueError: reduce_sum on operand bf16"),
)
def sums_in_half_precision() -> str:
    halves = np.ones(3, jnp.bfloat16)
    assert float(jnp.sum(halves)) == 3
    found: list[str] = []
    error = error_of(lambda: found.append(str(int(pyjax.lax.reduce_sum(halves, (0,))))))
    return error or found[0]


@effect(
    "jax_explicit_x64_dtypes",
    "error",
    default="",
    changed=re.compile("^ValueError: Explicitly requested dtype float64"),
)
def explicit_doubles() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return error_of(lambda: jnp.zeros(2, "float64"))
