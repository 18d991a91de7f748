"""Are the results of a compiled program right? Compared with the evaluator's, exactly where nothing
rounds, else within what perturbed evaluations show to be possible."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from xla_backend.hlo.evaluator import evaluate, flatten_value, unflatten_value
from xla_backend.hlo.module import HloModule
from xla_backend.tools.fuzz.perturbation import PerturbedInterpreter

# More evaluations where the first do not explain a difference.
ROUNDS = (4, 16, 64)
# Results may lie outside of what a few samples span.
_SLACK = 4.0

Arrays = Sequence[np.ndarray]


class Expectation:
    """What a program may return for its arguments; perturbed evaluations are made when needed.

    `rounds` says how many: as many as the first number, then more while they do not explain the
    results.
    """

    def __init__(
        self, module: HloModule, arguments: Arrays, rounds: Sequence[int] = ROUNDS
    ) -> None:
        self.rounds = rounds
        self.arguments = arguments
        self.reference = evaluate(module, arguments, seed=0)
        self._sample = cache(lambda seed: _perturbed(module, arguments, seed))

    def difference(self, results: Arrays) -> str | None:
        """What is wrong with these results, or None."""
        if len(results) != len(self.reference):
            return f"{len(results)} outputs instead of {len(self.reference)}"
        for i, (got, want) in enumerate(zip(results, self.reference)):
            if got.dtype != want.dtype or got.shape != want.shape:
                return (
                    f"output {i} is {got.dtype}{list(got.shape)} instead of "
                    f"{want.dtype}{list(want.shape)}"
                )
            if not _same(got, want).all():
                wrong = self._outside(i, got, want)
                if wrong.any():
                    return _describe(i, got, want, wrong)
        return None

    def _outside(self, output: int, got: np.ndarray, want: np.ndarray) -> np.ndarray:
        """Where `got` is not among, or near, what perturbed evaluations give."""
        wrong = [~_same(got, want)]
        for rounds in self.rounds:
            samples = [self._sample(seed)[output] for seed in range(rounds)]
            wrong.append(~_explained(got, [want, *samples]))
            if not wrong[-1].any():
                break
        return wrong[-1]


def _perturbed(module: HloModule, arguments: Arrays, seed: int) -> list[np.ndarray]:
    assert module.entry is not None
    rest = iter(arguments)
    values = [
        unflatten_value(p.shape, [next(rest) for s in p.shape.flatten() if s.is_array])
        for p in module.entry.parameters
    ]
    with np.errstate(all="ignore"):
        result = PerturbedInterpreter(seed).run(module.entry, values)
    return [np.asarray(leaf) for leaf in flatten_value(result) if leaf is not None]


def _wide(x: np.ndarray) -> np.ndarray:
    """Values as long doubles (complex: real and imaginary parts along a new first axis)."""
    if x.dtype.kind == "c":
        return np.stack([x.real, x.imag]).astype(np.longdouble)
    if x.dtype.kind in "biuf":
        return x.astype(np.longdouble)
    return x.astype(np.float64).astype(np.longdouble)


def _same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Equal, or both NaN; zeros are equal whatever their sign."""
    a, b = _wide(got), _wide(want)
    return (a == b) | (np.isnan(a) & np.isnan(b))


def _explained(got: np.ndarray, samples: Arrays) -> np.ndarray:
    """Which elements lie within the range of the samples, widened by some slack. Where samples
    differ in being finite or not anything is: the bits of a rounded number taken for those of a
    small type, say, which are an infinity once in a hundred times."""
    value = _wide(got)
    seen = np.stack([_wide(sample) for sample in samples])
    finite = np.isfinite(seen)
    low = np.where(finite, seen, np.inf).min(axis=0)
    high = np.where(finite, seen, -np.inf).max(axis=0)
    with np.errstate(all="ignore"):
        slack = _SLACK * (high - low)
        inside = np.asarray((value >= low - slack) & (value <= high + slack))
    all_finite, any_finite = finite.all(axis=0), finite.any(axis=0)
    mixed = any_finite & ~all_finite
    among = ((seen == value) | (np.isnan(seen) & np.isnan(value))).any(axis=0)
    return np.asarray(among | np.where(all_finite, inside, mixed))


def _describe(output: int, got: np.ndarray, want: np.ndarray, wrong: np.ndarray) -> str:
    wrong = np.asarray(wrong.any(axis=0)) if got.dtype.kind == "c" else wrong
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"output {output} is wrong in {int(wrong.sum())} of {wrong.size} elements, first at "
        f"{list(place)}: got {got[place]}, expected {want[place]}"
    )


def same_bits(first: Arrays, second: Arrays) -> bool:
    """Whether two runs gave the very same bytes."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second))
