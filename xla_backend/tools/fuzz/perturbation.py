"""An evaluator that moves every rounded result a little: what a correct compiler may do, too.

Values that are exact (integers, sums of quarters, everything that only moves) stay as they are, so
a program on exact data has one right answer. Where an operation rounds, a few units in the last
place are added at random; sums and products of many values get their noise on the operands, which
covers any order of evaluation. Running this several times shows how far each output can move, and
which comparisons hang on a rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xla_backend.hlo.attributes import (
    BatchNormAttributes,
    ConvolutionAttributes,
    DotAttributes,
    WindowAttributes,
)
from xla_backend.hlo.evaluator import Interpreter
from xla_backend.hlo.evaluator.conversions import type_of
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode as O

_ROUNDED_ONCE: dict[O, Callable[..., np.ndarray]] = {
    O.ADD: np.add,
    O.SUBTRACT: np.subtract,
    O.MULTIPLY: np.multiply,
    O.DIVIDE: np.divide,
}
_APPROXIMATED = frozenset(
    O(name)
    for name in (
        "cosine sine tan sinh cosh asin acos asinh acosh atanh exponential exponential-minus-one "
        "log log-plus-one logistic rsqrt sqrt cbrt tanh erf power atan2 sign abs"
    ).split()
)
_MANY_TERMS = frozenset(
    {O.REDUCE, O.REDUCE_WINDOW, O.SCATTER, O.SELECT_AND_SCATTER, O.DOT, O.CONVOLUTION, O.MAP}
    | {O.FFT, O.CHOLESKY, O.TRIANGULAR_SOLVE}
    | {O.BATCH_NORM_TRAINING, O.BATCH_NORM_INFERENCE, O.BATCH_NORM_GRAD}
)
# Of these, the absolute values of the operands bound all partial results.
_SUMS = frozenset({O.REDUCE, O.REDUCE_WINDOW, O.DOT, O.CONVOLUTION})
# Opcodes of reducers that give one of their operands, or that integers do exactly.
_ROUNDING = frozenset(_ROUNDED_ONCE) | _APPROXIMATED - {O.ABS, O.SIGN}
# Units in the last place: results of one operation, operands of a sum.
_RESULT_ULPS = 4.0
_TERM_ULPS = 4.0
_QUANTA = (1.0, 4.0, 16.0, 256.0)


class PerturbedInterpreter(Interpreter):
    """`seed` picks the noise."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=0)
        self.noise = np.random.default_rng(seed)

    def apply(self, node: Instruction, inputs: list[Any]) -> Any:
        opcode = node.opcode
        if opcode in _ROUNDED_ONCE:
            return self._rounded_once(node, inputs)
        if opcode in _APPROXIMATED and is_inexact(inputs[0]):
            return self._approximated(node, inputs)
        if opcode in _MANY_TERMS and any(is_inexact(x) for x in inputs):
            return self._many_terms(node, inputs)
        return super().apply(node, inputs)

    def _rounded_once(self, node: Instruction, inputs: list[np.ndarray]) -> np.ndarray:
        result = np.asarray(super().apply(node, inputs))
        if not is_inexact(result):
            return result
        wide = _widest(result)
        exact = _ROUNDED_ONCE[node.opcode](*[x.astype(wide) for x in inputs])
        return self.moved(result, exact != result.astype(wide), _RESULT_ULPS)

    def _approximated(self, node: Instruction, inputs: list[np.ndarray]) -> np.ndarray:
        result = np.asarray(super().apply(node, inputs))
        real = inputs[0].dtype.kind != "c"
        if not is_inexact(result) or (real and node.opcode in (O.ABS, O.SIGN)):
            return result
        return self.moved(result, np.ones(result.shape, bool), _RESULT_ULPS)

    def _many_terms(self, node: Instruction, inputs: list[np.ndarray]) -> Any:
        terms = _term_count(node, inputs)
        if _is_exact(node, inputs, terms):
            return self._signless(super().apply(node, inputs))
        ulps = _TERM_ULPS + terms / 8.0
        moved = [self._all_moved(x, ulps) for x in inputs]
        result = super().apply(node, moved)
        if isinstance(result, tuple):
            return tuple(self._all_moved(np.asarray(x), _RESULT_ULPS) for x in result)
        result = self._all_moved(np.asarray(result), _RESULT_ULPS)
        if node.opcode is O.FFT:
            return self._transform_moved(node, result)
        product = any(O.MULTIPLY in rounding_opcodes(c) for c in node.called)
        inexact = is_inexact(result)
        if node.opcode in _SUMS and inexact and (product or _may_overflow(inputs, result, terms)):
            result = self._off_range(node, inputs, result, product)
        return result

    def _transform_moved(self, node: Instruction, result: np.ndarray) -> np.ndarray:
        """A Fourier transform: what is rounded of a large coefficient reaches the small ones."""
        axes = tuple(range(-len(node.attributes.fft_length), 0))  # type: ignore[attr-defined]
        size = np.abs(result).max(axis=axes, keepdims=True, initial=0.0)
        noise: Any = self._uniform(result.shape)
        if result.dtype.kind == "c":
            noise = noise + 1j * self._uniform(result.shape)
        moved = result + noise * size * (_RESULT_ULPS * float(np.finfo(result.dtype).eps))
        return np.where(np.isfinite(result), moved, result).astype(result.dtype)

    def _off_range(
        self, node: Instruction, inputs: list[Any], result: np.ndarray, product: bool
    ) -> np.ndarray:
        """The result where sums or products may leave the range of their type halfway, depending on
        their order; a factor below one may come late, and one above one, too."""
        large = [_magnitude(x, 1.0 if product else 0.0, np.inf) for x in inputs]
        sizes = self._sizes(node, large)
        chosen = self._uniform(result.shape) < 0
        kinds = self.noise.choice([np.inf, -np.inf, np.nan], result.shape)
        if result.dtype.kind == "c":
            kinds = self._not_finite(result.shape)
        result = np.where(chosen & ~np.isfinite(sizes), kinds.astype(result.dtype), result)
        if not product:
            return result
        sizes = self._sizes(node, [_magnitude(x, 0.0, 1.0) for x in inputs])
        least = float(ml_dtypes.finfo(_part_type(result)).smallest_normal)
        lost = chosen & (sizes < least) & np.isfinite(result)
        return np.where(lost, np.zeros((), result.dtype), result)

    def _sizes(self, node: Instruction, magnitudes: list[Any]) -> np.ndarray:
        """The sum or product of magnitudes; a complex one that is not finite counts as infinite."""
        result = np.asarray(super().apply(node, magnitudes))
        if result.dtype.kind == "c":
            return np.where(np.isfinite(result), np.abs(result), np.inf)
        return result.astype(np.float64)

    def _all_moved(self, x: np.ndarray, ulps: float) -> np.ndarray:
        if not is_inexact(x):
            return x
        return self.moved(x, np.ones(x.shape, bool), ulps)

    def _signless(self, result: Any) -> Any:
        """Zeros of either sign: whether a sum of zeros is -0 depends on how it is started."""
        if isinstance(result, tuple):
            return tuple(self._signless(x) for x in result)
        result = np.asarray(result)
        if not is_inexact(result) or result.dtype.kind == "c":
            return result
        return self.moved(result, np.zeros(result.shape, bool), 0.0)

    def moved(self, x: np.ndarray, where: np.ndarray, ulps: float) -> np.ndarray:
        """`x` with up to `ulps` units in the last place added where asked, and zeros of a random
        sign."""
        if x.dtype.kind == "c":
            parts = np.finfo(x.dtype)
            size = np.abs(x) * ulps * float(parts.eps)
            small = (x != 0) & (np.abs(x) < 8.0 * float(parts.smallest_normal))
            size = np.where(small, 2.0 * float(parts.smallest_subnormal), size)
            noise = self._uniform(x.shape) + 1j * self._uniform(x.shape)
            moved = np.where(np.isfinite(x), x + size * noise, self._not_finite(x.shape))
            return np.where(where, moved, x).astype(x.dtype)
        limits = ml_dtypes.finfo(x.dtype)
        wide = x.astype(np.float64)
        size = np.abs(wide) * (ulps * float(limits.eps))
        small = np.abs(wide) < 8.0 * float(limits.smallest_normal)
        size = np.where(small, 2.0 * float(limits.smallest_subnormal), size)
        result = wide + size * self._uniform(x.shape)
        changed = where & np.isfinite(wide) & (wide != 0)
        sign = self.noise.choice([0.0, -0.0], x.shape)
        result = np.where(wide == 0, sign, np.where(changed, result, wide))
        return np.where(np.isnan(wide), x, result.astype(x.dtype)).astype(x.dtype)

    def _not_finite(self, shape: Sequence[int]) -> np.ndarray:
        """Complex numbers with parts that are infinite or NaN: which ones products of such numbers
        give depends on how they are multiplied out."""
        kinds = [np.inf, -np.inf, np.nan]
        result = np.empty(shape, np.complex128)
        result.real, result.imag = self.noise.choice(kinds, shape), self.noise.choice(kinds, shape)
        return result

    def _uniform(self, shape: Sequence[int]) -> np.ndarray:
        return self.noise.uniform(-1.0, 1.0, shape)


def is_inexact(x: object) -> bool:
    """Whether a value is an array of floats or complex numbers."""
    if not isinstance(x, np.ndarray):
        return False
    return x.dtype.kind in "fc" or type_of(x).is_floating


def _magnitude(x: np.ndarray, least: float, most: float) -> np.ndarray:
    if not is_inexact(x):
        return x
    return np.clip(_absolute(x), least, most).astype(x.dtype)


def _absolute(x: np.ndarray) -> np.ndarray:
    return np.abs(x if x.dtype.kind == "c" else x.astype(np.float64)).astype(np.float64)


def _part_type(x: np.ndarray) -> np.dtype:
    """The type of the parts of complex numbers; else the type itself."""
    return np.zeros(0, x.dtype).real.dtype if x.dtype.kind == "c" else x.dtype


def _may_overflow(inputs: list[np.ndarray], result: np.ndarray, terms: int) -> bool:
    """Whether a sum may exceed the range of its type halfway, depending on its order."""
    largest = 1.0
    for x in inputs:
        values = _absolute(x) if is_inexact(x) else np.zeros(0)
        largest = max(largest, float(np.where(np.isfinite(values), values, 0.0).max(initial=0.0)))
    return largest * largest * terms > float(ml_dtypes.finfo(_part_type(result)).max)


def _widest(x: np.ndarray) -> type:
    if x.dtype.kind == "c":
        return np.clongdouble
    return np.longdouble if x.dtype.itemsize == 8 else np.float64


def _term_count(node: Instruction, inputs: list[np.ndarray]) -> int:
    """How many values one element of the result is made of, at most."""
    a = node.attributes
    if isinstance(a, DotAttributes):
        return math.prod(inputs[0].shape[d] for d in a.lhs_contracting)
    if isinstance(a, ConvolutionAttributes):
        features = inputs[1].shape[a.dimension_numbers.kernel_input_feature]
        return features * math.prod(w.size for w in a.window)
    if isinstance(a, WindowAttributes):
        return math.prod(w.size for w in a.window)
    if isinstance(a, BatchNormAttributes):
        return inputs[0].size // max(1, inputs[0].shape[a.feature_index])
    if node.opcode is O.SCATTER:
        return inputs[-1].size
    if node.opcode is O.MAP:
        return len(node.called[0])
    leaf = node.shape.flatten()[0]
    return max(1, inputs[0].size // max(1, leaf.num_elements))


def _is_exact(node: Instruction, inputs: list[np.ndarray], terms: int) -> bool:
    """Whether every order of evaluation gives the same result without rounding."""
    if not node.called:
        if node.opcode not in (O.DOT, O.CONVOLUTION):
            return False
        return _fits(node, [_span(x) for x in inputs], terms, product=True)
    used = rounding_opcodes(node.called[-1]) if node.opcode is not O.MAP else {O.ADD}
    if not used:
        return True
    if used != {O.ADD} or node.opcode is O.MAP:
        return False
    return _fits(node, [_span(x) for x in inputs if is_inexact(x)], terms, product=False)


def rounding_opcodes(computation: Computation) -> set[O]:
    """Which operations of a scalar computation may round."""
    return {
        n.opcode
        for n in computation
        if n.opcode in _ROUNDING
        and (n.shape.element_type.is_floating or n.shape.element_type.is_complex)
    }


def _span(x: np.ndarray) -> tuple[float, float] | None:
    """(largest magnitude, multiple of what) of an array of small fractions, else None."""
    parts = np.stack([x.real, x.imag]) if x.dtype.kind == "c" else x
    values = parts.astype(np.float64)
    if not np.isfinite(values).all():
        return None
    for quantum in _QUANTA:
        if (values * quantum == np.rint(values * quantum)).all():
            return float(np.abs(values).max(initial=0.0)), quantum
    return None


def _fits(
    node: Instruction, spans: list[tuple[float, float] | None], terms: int, *, product: bool
) -> bool:
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return False
    largest, quantum = (
        (math.prod(m for m, _ in known), math.prod(q for _, q in known))
        if product
        else (max(m for m, _ in known), max(q for _, q in known))
    )
    kinds = [leaf.element_type for leaf in node.shape.flatten()]
    digits = min(_digits(k.numpy_dtype) for k in kinds if k.is_floating or k.is_complex)
    return (terms + 1) * largest * quantum * 2 < 2.0**digits


def _digits(dtype: np.dtype) -> int:
    return int(ml_dtypes.finfo(_part_type(np.zeros(0, dtype))).nmant) + 1
