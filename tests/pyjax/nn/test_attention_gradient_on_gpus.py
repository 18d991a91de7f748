"""The gradient of attention on GPUs: streaming kernels without an array of scores, with the values
of the CPU, without races."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
import xla_backend
from pyjax import nn
from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.program.ir import Launch, Program, Space
from xla_backend.targets.emulator import EmulatorExecutable
from xla_backend.targets.gpu.architectures import ARCHITECTURES

# Of results, relative to their largest: one or two roundings of what is multiplied.
TOLERANCES = {"bfloat16": 3e-2, "float16": 3e-3, "float32": 3e-3}


@dataclasses.dataclass(frozen=True)
class Case:
    """A gradient. `alone`: the result of attention itself is not asked for. `kernels`: how many of
    them compute attention and its gradient."""

    name: str
    dtype: str = "bfloat16"
    queries: int = 34
    keys: int = 40
    heads: tuple[int, int] = (2, 2)
    width: int = 16
    batch: int = 2
    arrays: tuple[str, ...] = ()
    with_respect_to: tuple[int, ...] = (0, 1, 2)
    alone: bool = False
    checkpoint: bool = False
    lengths: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    kernels: int = 3

    def draw(self) -> list[np.ndarray]:
        """q, k, v, what the result is multiplied with, and the other arrays."""
        rng = np.random.default_rng(0)
        (n, m), b = self.heads, self.batch
        shapes = (b, self.queries, n, self.width), (b, self.keys, m, self.width)
        q, k, v = (rng.standard_normal(s).astype(self.dtype) for s in (*shapes, shapes[1]))
        weights = rng.standard_normal(shapes[0]).astype(np.float32)
        scores = b, n, self.queries, self.keys
        others = {
            "bias": rng.standard_normal(scores).astype(np.float32),
            "mask": rng.random((1, 1, *scores[2:])) > 0.3,
        }
        return [q, k, v, weights, *(others[name] for name in self.arrays)]

    def gradient(self) -> Any:
        """The function that is compiled."""
        options = dict(self.options)
        if self.lengths:
            options["query_seq_lengths"] = jnp.array([30, self.queries])
            options["key_value_seq_lengths"] = jnp.array([20, self.keys])

        def loss(q: Any, k: Any, v: Any, weights: Any, *others: Any) -> Any:
            arrays = dict(zip(self.arrays, others))

            def attention(q: Any, k: Any, v: Any) -> Any:
                return nn.dot_product_attention(q, k, v, **arrays, **options)

            made = pyjax.checkpoint(attention) if self.checkpoint else attention
            result = made(q, k, v).astype(jnp.float32)
            return (weights * (result if self.alone else result * result)).sum()

        derive = pyjax.grad if self.alone else pyjax.value_and_grad
        return pyjax.jit(derive(loss, self.with_respect_to))


CAUSAL = (("is_causal", True),)
CASES = (
    Case("f16 queries in groups", "float16", heads=(4, 2), queries=33, keys=37),
    Case("f32", "float32", queries=72, keys=64, width=32),
    Case(
        "all masks",
        queries=48,
        keys=52,
        heads=(4, 2),
        arrays=("bias", "mask"),
        options=(*CAUSAL, ("local_window_size", (7, 9))),
        lengths=True,
    ),
    Case("result not asked for", alone=True, kernels=5),
)
MORE = (
    Case("plain"),
    Case("one group", heads=(2, 1)),
    Case("f16", "float16"),
    Case("causal", options=CAUSAL, keys=36),
    Case("bias", arrays=("bias",)),
    Case("mask", arrays=("mask",)),
    Case("lengths", lengths=True),
    Case("of v", with_respect_to=(2,), kernels=2),
    Case("of q", with_respect_to=(0,), kernels=2),
    Case("computed again", checkpoint=True, kernels=6),
    Case("odd sizes", queries=67, keys=35, width=20),
    Case("wide", queries=130, keys=70, width=64, batch=1, heads=(1, 1)),
    Case("widest", queries=70, keys=72, width=128, batch=1, heads=(1, 1), kernels=4),
    Case("wide f32", "float32", queries=70, keys=72, width=64, batch=1, heads=(1, 1)),
)


def check_memory(case: Case, program: Program) -> None:
    """As many kernels as are wanted, and between them nothing as large as the scores, of all heads
    or of one."""
    launches = [s for s in program.steps if isinstance(s, Launch)]
    named = [s for s in launches if s.kernel.startswith(("attention", "streams"))]
    assert len(named) == case.kernels
    own = [b for s in launches for b in s.buffers if b.space in (Space.TEMP, Space.SCRATCH)]
    scores = case.batch * case.heads[0] * case.queries * max(case.keys, case.width + 1)
    assert own
    for buffer in own:
        dims = buffer.shape.dimensions
        assert not (case.queries in dims and case.keys in dims[1:]), buffer.shape
        assert buffer.shape.num_elements < scores


def check_values(got: Sequence[np.ndarray], wanted: Sequence[np.ndarray], rtol: float) -> None:
    for g, w in zip(got, wanted, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        largest = float(np.abs(w.astype(np.float64)).max())
        np.testing.assert_allclose(
            g.astype(np.float64), w.astype(np.float64), rtol=rtol, atol=rtol * largest
        )


@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in MORE)],
    ids=lambda case: case.name,
)
def test_gradient(case: Case) -> None:
    arrays = case.draw()
    text = case.gradient().trace(*arrays).lower().as_text(dialect="hlo")
    options = CompileOptions(verify=True)
    emulated = xla_backend.compile(parse_module(text), "gpu_emulator", options)
    got = emulated.execute(arrays)
    wanted = xla_backend.compile(parse_module(text), "cpu").execute(arrays)
    # A loss is a sum of terms of both signs, of rounded results.
    start = 0 if case.alone else 1
    check_values(got[start:], wanted[start:], TOLERANCES[case.dtype])
    assert isinstance(emulated.loaded, EmulatorExecutable)
    check_memory(case, emulated.loaded.plan.program)


def emulated(function: Any, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[int]]:
    """Results, and how many operations of matrix tiles each kernel takes."""
    text = pyjax.jit(function).trace(*arrays).lower().as_text(dialect="hlo")
    options = CompileOptions(verify=True)
    compiled = xla_backend.compile(parse_module(text), "gpu_emulator", options)
    assert isinstance(compiled.loaded, EmulatorExecutable)
    counted = compiled.loaded.counters(list(arrays))
    flops = [k.tile_flops for k in counted.values() if k.tile_flops]
    return compiled.execute(arrays), flops


@pytest.mark.parametrize("heads", [(1, 1), pytest.param((2, 1), marks=pytest.mark.slow)], ids=str)
def test_hidden_tiles_are_not_computed(heads: tuple[int, int]) -> None:
    """Two blocks of queries, of which the first sees half of the keys: three quarters of all, in
    attention and in each kernel of the gradient. A mask from memory hides the same scores, and
    nothing that is known. Blocks of queries in groups are of fewer queries, and may see less."""
    case = Case("causal", queries=128, keys=128, batch=1, heads=heads)
    *arrays, weights = case.draw()
    seen = np.tril(np.ones((1, 1, 128, 128), bool))

    def derivatives(q: Any, k: Any, v: Any, weights: Any, mask: Any = None) -> Any:
        def attention(*args: Any) -> Any:
            return nn.dot_product_attention(*args, mask=mask, is_causal=mask is None)

        result, pullback = pyjax.vjp(attention, q, k, v)
        return result, pullback(weights.astype(result.dtype))

    hidden, few = emulated(derivatives, [*arrays, weights])
    masked, all = emulated(derivatives, [*arrays, weights, seen])
    parts = [n / m for n, m in zip(few, all, strict=True)]
    assert len(parts) == 3 and max(parts) == 0.75 and (heads == (2, 1) or min(parts) == 0.75)
    # The gradients of keys and values are summed in another order.
    np.testing.assert_array_equal(hidden[0], masked[0])
    np.testing.assert_array_equal(hidden[1], masked[1])
    check_values(hidden, masked, 1e-2)


def spilled(case: Case, architecture: str) -> dict[str, int | None]:
    """By function of the gradient, bytes of registers that are kept in memory."""
    lowered = case.gradient().trace(*case.draw()).lower(lowering_platforms=("cuda",))
    kernels = lowered.compile(target=architecture).kernels()
    found = {x.function: x.spilled_bytes for kernel in kernels for x in kernel.launches}
    assert any("streams" in name for name in found)
    return found


@NEEDS_PTXAS
@pytest.mark.parametrize(
    "architecture",
    [a if a == "sm_90" else pytest.param(a, marks=pytest.mark.slow) for a in ARCHITECTURES],
)
@pytest.mark.parametrize("width", [96, 128])
def test_gradients_of_odd_shapes_keep_to_registers(width: int, architecture: str) -> None:
    """Blocks that reach beyond the edges of arrays hold no addresses for conditions."""
    case = Case("odd", queries=500, keys=500, width=width, heads=(2, 2), options=CAUSAL)
    assert set(spilled(case, architecture).values()) == {0}


def test_digits_where_few_keys_matter() -> None:
    """The gradient of a weight less their mean is small there, and roundings are not."""
    case = Case("sharp", queries=33, keys=33)
    q, k, v, weights = case.draw()
    arrays = [(10 * q).astype(q.dtype), k, v, weights]
    text = case.gradient().trace(*arrays).lower().as_text(dialect="hlo")
    emulated = xla_backend.compile(parse_module(text), "gpu_emulator", CompileOptions(verify=True))
    got = emulated.execute(arrays)[1:]
    exact = case.gradient()(*[x.astype(np.float32) for x in arrays])[1]
    for g, w in zip(got, exact, strict=True):
        error = np.linalg.norm(g.astype(np.float64) - np.asarray(w, np.float64))
        assert error < 5e-3 * np.linalg.norm(np.asarray(w, np.float64))


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float32", marks=pytest.mark.slow)])
def test_scores_made_again_are_the_same_to_the_bit(dtype: str) -> None:
    """The last place of a score of 1e9 is 64: one rounding apart, weights were e^64. Keys are
    equal, so that all of them matter."""
    case = Case("large", dtype, queries=70, keys=72, width=64, heads=(1, 1), batch=1)
    q, k, v, weights = case.draw()
    scale = np.asarray(3e4, q.dtype)
    arrays = [scale * q, scale * np.repeat(k[:, :1], case.keys, 1), v, weights]
    assert np.abs(arrays[0][0, :, 0].astype(float) @ arrays[1][0, 0, 0].astype(float)).max() > 1e9
    text = case.gradient().trace(*arrays).lower().as_text(dialect="hlo")
    emulated = xla_backend.compile(parse_module(text), "gpu_emulator")
    assert isinstance(emulated.loaded, EmulatorExecutable)
    check_memory(case, emulated.loaded.plan.program)
    _, *got = emulated.execute(arrays)
    _, *wanted = xla_backend.compile(parse_module(text), "cpu").execute(arrays)
    check_values(got[1:], wanted[1:], TOLERANCES[dtype])
    # The gradient of queries is 0 but for what is rounded: of a sum over keys, each of which is
    # multiplied by numbers of this size.
    assert np.abs(got[0].astype(np.float32)).max() < 1e-3 * np.abs(got[1].astype(np.float32)).max()
