"""Contracts of the routines that programs call: `ROUTINES`, by name. The native function of
`gemm_f32` is `pyjax_gemm_f32`, with the operands in the same order; see the package for what they
mean. Those of a kind are loaded when a program calls one of them.

The references are plain and slow. They do what the native routines do up to the order in which
sums are formed, so results in floating point are close, not equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from xla_backend.process.on_first_use import TableOnFirstUse
from xla_backend.program.routines import Routine

# The first words of the names of each kind.
_KINDS = {
    "fft_contracts": "chirp fft irfft packed pairs rfft",
    "lapack_contracts": "lapack",
    "matrix_contracts": "cholesky eigh geqrf lu orgqr ormqr svd triangular tridiagonal",
    "product_contracts": "conv gemm",
    "random_contracts": "rng",
    "row_contracts": (
        "argsort argsort64 cumlogsumexp cummax cummin cumprod cumsum first merge partition select "
        "sort"
    ),
    "transpose_contracts": "apart shuffled swapped together transpose",
}


class _ByKind(Mapping[str, Routine]):
    def __init__(self) -> None:
        self._tables: list[Mapping[str, Routine]] = []
        self._by_word: dict[str, Mapping[str, Routine]] = {}
        for module, words in _KINDS.items():
            table: Mapping[str, Routine] = TableOnFirstUse(f"{__package__}.{module}", "ROUTINES")
            self._tables.append(table)
            self._by_word |= dict.fromkeys(words.split(), table)

    def __getitem__(self, name: str) -> Routine:
        word, _, _ = name.partition("_")
        return self._by_word[word][name]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._tables)

    def __len__(self) -> int:
        return sum(map(len, self._tables))


ROUTINES: Mapping[str, Routine] = _ByKind()
