"""Products of numbers in few bits with a scale for each block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.custom_vjp import custom_vjp
from pyjax.core.errors import fail
from pyjax.lax.dot import remaining
from pyjax.lax.dot_types import canonical_dot_dimensions
from pyjax.lax.scaled_dot import repeated
from xla_backend.process.light_dataclasses import dataclass

Array = Any


@dataclass(frozen=True, eq=False)
class BlockScaleConfig:
    """How an operand is quantised.

    Attributes:
      mode: "mxfp8" or "nvfp4".   block_size: elements that share a scale.
      data_type, scale_type: dtypes of elements and scales.
      global_scale: float32[1], a factor of all scales; only of nvfp4.
      infer_only: whether only values are wanted, no gradients.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Array | None
    infer_only: bool


def get_scaled_dot_general_config(
    mode: Literal["nvfp4", "mxfp8"], global_scale: Array | None = None
) -> BlockScaleConfig:
    """How `scaled_dot_general` quantises an operand.

    Args:
      mode: "mxfp8": blocks of 32 numbers in float8_e4m3fn with scales that are powers of two;
        "nvfp4": blocks of 16 numbers in float4_e2m1fn with scales in float8_e4m3fn.
      global_scale: float32[1], for "nvfp4" only; 1 by default.
    Raises:
      ValueError: another mode.

    >>> get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    if mode == "nvfp4":
        one = jnp.ones((1,), jnp.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, jnp.float4_e2m1fn, jnp.float8_e4m3fn, one, False)
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, jnp.float8_e4m3fn, jnp.float8_e8m0fnu, None, False)
    return fail(ValueError, f"Unsupported mode: {mode}", fix='use "mxfp8" or "nvfp4".')


def scaled_matmul(
    lhs: Array,
    rhs: Array,
    lhs_scales: Array,
    rhs_scales: Array,
    preferred_element_type: Any = np.float32,
) -> Array:
    """The product of two stacks of matrices whose rows are scaled in blocks.

    Args:
      lhs, rhs: [B, M, K] and [B, N, K].
      lhs_scales, rhs_scales: [B, M, K / block] and [B, N, K / block].
      preferred_element_type: dtype of the result; float32 is what is multiplied and summed.
    Returns:
      [B, M, N]: Σ_k lhs[b, m, k] s[b, m, k / block] rhs[b, n, k] t[b, n, k / block].
    Raises:
      ValueError: ranks or sizes do not fit.

    >>> x, s = jnp.array([[[1.0, 2.0, 3.0]]]), jnp.array([[[0.5]]])
    >>> scaled_matmul(x, x, s, s).tolist()
    [[[3.5]]]
    """
    operands = (lhs, rhs, lhs_scales, rhs_scales)
    if any(x.ndim != 3 for x in operands):
        raise ValueError(
            "scaled_matmul requires all inputs to be 3-dimensional arrays, got shapes "
            f"{[x.shape for x in operands]}"
        )
    for what, a, b in (("inputs a and b", lhs, rhs), ("scales", lhs_scales, rhs_scales)):
        if (a.shape[0], a.shape[2]) != (b.shape[0], b.shape[2]):
            raise ValueError(
                f"scaled_matmul requires {what} to have matching batch (B) and contract (K) "
                f"dimensions, but got shapes {a.shape} and {b.shape}"
            )
    for x, scales in ((lhs, lhs_scales), (rhs, rhs_scales)):
        if x.shape[:2] != scales.shape[:2] or not scales.shape[2] or x.shape[2] % scales.shape[2]:
            raise ValueError(
                "scaled_matmul requires scales of the operand's shape, with a last dimension that "
                f"divides the operand's, but got shapes {x.shape} and {scales.shape}"
            )
    a, b = (
        x.astype(jnp.float32) * repeated(scales, x.shape).astype(jnp.float32)
        for x, scales in ((lhs, lhs_scales), (rhs, rhs_scales))
    )
    out = lax.dot_general(a, b, (((2,), (2,)), ((0,), (0,))), precision=lax.Precision.HIGHEST)
    return out.astype(preferred_element_type)


def _quantised(x: Array, config: BlockScaleConfig) -> tuple[Array, Array, Any]:
    """[B, M, K] in the data type, [B, M, K / block] scales, and the factor of all of them."""
    *leading, size = x.shape
    blocks = x.astype(jnp.float32).reshape(*leading, size // config.block_size, config.block_size)
    largest = jnp.max(jnp.abs(blocks), axis=-1)
    most = float(jnp.finfo(config.data_type).max)
    if config.global_scale is None:
        # The smallest power of two that no element overflows with (OCP Microscaling 1.0, 6.3).
        exponent = jnp.ceil(jnp.log2(jnp.where(largest == 0, 1, largest / most)))
        factor: Any = 1.0
        scales = jnp.exp2(jnp.clip(exponent, -127, 127)).astype(config.scale_type)
    else:
        factor = config.global_scale.astype(jnp.float32).reshape(())
        most_scale = float(jnp.finfo(config.scale_type).max)
        scales = jnp.clip(largest / most / factor, 0, most_scale).astype(config.scale_type)
    wide = scales.astype(jnp.float32)[..., None] * factor
    inside = jnp.clip(blocks / jnp.where(wide == 0, 1, wide), -most, most)
    return inside.astype(config.data_type).reshape(x.shape), scales, factor


def _product(a: Array, b: Array, configs: Sequence[BlockScaleConfig], dtype: Any) -> Array:
    """Σ_k a[b, m, k] b[b, n, k] of quantised operands."""
    # Zeros fill the last block: other free sizes than multiples of it are contracted in gradients.
    missing = -a.shape[2] % math.lcm(*(config.block_size for config in configs))
    padded = (jnp.pad(x, ((0, 0), (0, 0), (0, missing))) for x in (a, b))
    (lhs, lhs_scales, one), (rhs, rhs_scales, other) = map(_quantised, padded, configs)
    out = scaled_matmul(lhs, rhs, lhs_scales, rhs_scales, jnp.float32)
    return (out * (one * other)).astype(dtype)


def scaled_dot_general(
    lhs: Array,
    rhs: Array,
    dimension_numbers: Any,
    preferred_element_type: Any = np.float32,
    configs: list[BlockScaleConfig] | None = None,
    implementation: Literal["cudnn"] | None = None,
) -> Array:
    """`lax.dot_general` of operands that are quantised in blocks, also in its gradients.

    Args:
      lhs, rhs: real arrays.   dimension_numbers: as `lax.dot_general` takes them.
      preferred_element_type: dtype of the result.
      configs: how lhs, rhs and the cotangent are quantised, from `get_scaled_dot_general_config`;
        None: not at all, it is `lax.dot_general`.
      implementation: ignored, as in JAX.
    Returns:
      Batch dimensions, the others of lhs, the others of rhs.
    Contracted sizes that are no multiples of the block are filled with zeros.  Gradients are
    products of the quantised cotangent with quantised operands.

    >>> configs = [get_scaled_dot_general_config("mxfp8")] * 3
    >>> x = jnp.ones((2, 32))
    >>> scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs).tolist()
    [[32.0, 32.0], [32.0, 32.0]]
    """
    numbers = canonical_dot_dimensions("scaled_dot_general", dimension_numbers)
    if configs is None:
        return lax.dot_general(lhs, rhs, numbers, preferred_element_type=preferred_element_type)
    (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = numbers
    lhs, rhs = jnp.asarray(lhs), jnp.asarray(rhs)
    lhs_free = remaining(lhs.ndim, lhs_batch, lhs_contracting)
    rhs_free = remaining(rhs.ndim, rhs_batch, rhs_contracting)

    def as_stack(x: Array, *groups: Sequence[int]) -> Array:
        order = [i for group in groups for i in group]
        return jnp.transpose(x, order).reshape([math.prod(x.shape[i] for i in g) for g in groups])

    out = _stacked(
        as_stack(lhs, lhs_batch, lhs_free, lhs_contracting),
        as_stack(rhs, rhs_batch, rhs_free, rhs_contracting),
        tuple(configs),
        np.dtype(preferred_element_type),
    )
    sizes = [lhs.shape[i] for i in (*lhs_batch, *lhs_free)] + [rhs.shape[i] for i in rhs_free]
    return out.reshape(sizes)


def _stacked(a: Array, b: Array, configs: Sequence[BlockScaleConfig], dtype: Any) -> Array:
    of_a, of_b, of_cotangent = configs

    @custom_vjp
    def product(a: Array, b: Array) -> Array:
        return _product(a, b, (of_a, of_b), dtype)

    def forward(a: Array, b: Array) -> Any:
        return product(a, b), (a, b)

    def backward(kept: Any, ct: Array) -> Any:
        a, b = kept
        # [B, M, N] by [B, K, N], and [B, N, M] by [B, K, M].
        grad_a = _product(ct, jnp.swapaxes(b, 1, 2), (of_cotangent, of_b), a.dtype)
        turned = jnp.swapaxes(ct, 1, 2), jnp.swapaxes(a, 1, 2)
        return grad_a, _product(*turned, (of_cotangent, of_a), b.dtype)

    product.defvjp(forward, backward)
    return product(a, b)


__all__ = [
    "BlockScaleConfig",
    "get_scaled_dot_general_config",
    "scaled_dot_general",
    "scaled_matmul",
]
