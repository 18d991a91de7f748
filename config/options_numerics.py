"""Options about numbers: dtypes, promotion, precision, random numbers."""

from __future__ import annotations

from .kinds import Bool, Enum, Int, Optional
from .registry import Affects, Scope, option

debug_key_reuse = option(
    "jax_debug_key_reuse",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Using a random key twice raises KeyReuseError.",
)

default_matmul_precision = option(
    "jax_default_matmul_precision",
    kind=Optional(
        Enum(
            (
                "default",
                "high",
                "highest",
                "bfloat16",
                "tensorfloat32",
                "float32",
                "ANY_F8_ANY_F8_F32",
                "ANY_F8_ANY_F8_F32_FAST_ACCUM",
                "ANY_F8_ANY_F8_ANY",
                "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
                "F16_F16_F16",
                "F16_F16_F32",
                "BF16_BF16_BF16",
                "BF16_BF16_F32",
                "BF16_BF16_F32_X3",
                "BF16_BF16_F32_X6",
                "BF16_BF16_F32_X9",
                "TF32_TF32_F32",
                "TF32_TF32_F32_X3",
                "F32_F32_F32",
                "F64_F64_F64",
            )
        )
    ),
    default=None,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Precision of dot and convolution calls that name none; carried into jaxpr and HLO.",
)

default_prng_impl = option(
    "jax_default_prng_impl",
    kind=Enum(("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg")),
    default="threefry2x32",
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Random number generator that new keys use.",
    interactions="PRNGKey makes raw keys of it, or typed ones with jax_enable_custom_prng.",
)

dynamic_shapes = option(
    "jax_dynamic_shapes",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="A traced integer may be the size of an array made in a jitted function: one compilation "
    "serves all sizes.",
    interactions="Jitted functions called by jitted functions become part of these.",
)

enable_custom_prng = option(
    "jax_enable_custom_prng",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="PRNGKey returns typed keys.",
    interactions="jax_default_prng_impl says which keys.",
)

enable_x64 = option(
    "jax_enable_x64",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Keep 64-bit types. Off: float64, int64 and complex128 requests become 32-bit.",
)

high_dynamic_range_gumbel = option(
    "jax_high_dynamic_range_gumbel",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Draw Gumbel samples from two uniforms, so that the far tail is reached.",
)

legacy_prng_key = option(
    "jax_legacy_prng_key",
    kind=Enum(("allow", "warn", "error")),
    default="allow",
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="What passing a raw uint32 key does: allow, warn or error.",
)

numpy_dtype_promotion = option(
    "jax_numpy_dtype_promotion",
    kind=Enum(("standard", "strict")),
    default="standard",
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="standard: mix dtypes by the promotion lattice; strict: mixing dtypes is an error.",
)

numpy_rank_promotion = option(
    "jax_numpy_rank_promotion",
    kind=Enum(("allow", "warn", "raise")),
    default="allow",
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="What implicit broadcasting between arrays of different rank does: allow, warn or raise.",
)

random_seed_offset = option(
    "jax_random_seed_offset",
    kind=Int(),
    default=0,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Added to the seed of every new key.",
)

softmax_custom_jvp = option(
    "jax_softmax_custom_jvp",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Differentiate softmax by its own rule instead of through exp and sum.",
)

threefry_gpu_kernel_lowering = option(
    "jax_threefry_gpu_kernel_lowering",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="On GPUs, one kernel for threefry instead of unrolled rounds.",
    interactions="Programs for GPUs are lowered, and cannot be run yet.",
)

threefry_partitionable = option(
    "jax_threefry_partitionable",
    kind=Bool(),
    default=True,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Threefry bits that depend only on an element's index, or the older paired stream.",
)

allow_f16_reductions = option(
    "jax_allow_f16_reductions",
    kind=Bool(),
    default=True,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Off: lax.reduce_sum of float16 or bfloat16 raises ValueError; jnp.sum sums in float32.",
)

explicit_x64_dtypes = option(
    "jax_explicit_x64_dtypes",
    kind=Enum(("warn", "error")),
    default="warn",
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="What a 64-bit dtype= argument does while jax_enable_x64 is off: it is truncated with a "
    "warning, or ValueError.",
    interactions="JAX's `allow` is not accepted: jax_enable_x64 keeps 64-bit types.",
)

while_loop_checkpoint_bytes = option(
    "jax_while_loop_checkpoint_bytes",
    kind=Int(low=0),
    default=1 << 26,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Most bytes of states that the gradient of a while_loop holds at once (eight states at "
    "least); states that do not fit are computed again.",
    ours=True,
)
