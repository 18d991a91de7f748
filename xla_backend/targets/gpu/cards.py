"""Graphics cards to estimate for: what their makers' data sheets say.

Rates are those of dense arithmetic at the boost clock; no card keeps them up for long.
"""

from __future__ import annotations

from collections.abc import Mapping

from xla_backend.process.light_dataclasses import dataclass

_GB = 10**9
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Card:
    """One card.

    Fields:
      name: how it is called here.  architecture: "sm_90".
      multiprocessors, clock: how many, and their boost clock in GHz.
      bandwidth: of its memory, in bytes per second.
      memory_bytes, l2_bytes: of memory and of the cache in front of it.
      vector_tflops: 10**12 operations per second of single threads, by element type.
      tensor_tflops: the same of matrix tiles, by the type of what is multiplied.
      tile_share: the part of that which tiles of one warp (mma) reach; groups of warps reach all.
    """

    name: str
    architecture: str
    multiprocessors: int
    clock: float
    bandwidth: int
    memory_bytes: int
    l2_bytes: int
    vector_tflops: Mapping[str, float]
    tensor_tflops: Mapping[str, float]
    tile_share: float = 1.0

    def vector_rate(self, element_type: str) -> float:
        """Operations per second of single threads; types without a column run as f32 does."""
        return self.vector_tflops.get(element_type, self.vector_tflops["f32"]) * 1e12

    def tensor_rate(self, element_type: str) -> float:
        """Operations per second of matrix tiles; without tiles of the type, of single threads."""
        rate = self.tensor_tflops.get(element_type)
        return self.vector_rate(element_type) if rate is None else rate * 1e12


def _tensor(f64: float, tf32: float, f16: float, f8: float, s8: float) -> dict[str, float]:
    rates = {"f64": f64, "tf32": tf32, "f16": f16, "bf16": f16, "s8": s8, "u8": s8}
    eight = {"f8e4m3fn": f8, "f8e5m2": f8}
    return {name: rate for name, rate in (rates | eight).items() if rate}


def _vector(f64: float, f32: float, f16: float) -> dict[str, float]:
    return {"f64": f64, "f32": f32, "f16": f16, "bf16": f16}


# The last number is measured (Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU
# Architecture via Microbenchmarking, 2024).
_HOPPER = (_vector(33.5, 66.9, 133.8), _tensor(66.9, 494.7, 989.4, 1978.9, 1978.9), 0.62)

CARDS = {
    card.name: card
    for card in (
        Card(
            "A100",
            "sm_80",
            108,
            1.41,
            2039 * _GB,
            80 * _GB,
            40 * _MIB,
            _vector(9.7, 19.5, 78.0) | {"bf16": 39.0},
            _tensor(19.5, 156.0, 312.0, 0.0, 624.0),
        ),
        Card("H100", "sm_90", 132, 1.98, 3350 * _GB, 80 * _GB, 50 * _MIB, *_HOPPER),
        Card("H200", "sm_90", 132, 1.98, 4800 * _GB, 141 * _GB, 50 * _MIB, *_HOPPER),
        Card(
            "B200",
            "sm_100",
            148,
            1.965,
            8000 * _GB,
            180 * _GB,
            126 * _MIB,
            _vector(37.0, 75.0, 150.0),
            _tensor(37.0, 1100.0, 2250.0, 4500.0, 4500.0),
        ),
        Card(
            "RTX 5090",
            "sm_120",
            170,
            2.407,
            1792 * _GB,
            32 * _GB,
            96 * _MIB,
            _vector(1.64, 104.8, 104.8),
            _tensor(0.0, 104.8, 209.5, 419.0, 838.0),
        ),
    )
}


def find_card(name: str) -> Card:
    """The card of a name, in any case and with or without its blanks.

    Raises:
      ValueError: there is none; the names that there are.
    """
    wanted = name.replace(" ", "").lower()
    for card in CARDS.values():
        if card.name.replace(" ", "").lower() == wanted:
            return card
    raise ValueError(f"no data of a card {name!r}; there are {', '.join(CARDS)}")


# The card that estimates for an architecture are made for, if nothing else is said.
_USUAL = {
    "sm_80": "A100",
    "sm_90": "H200",
    "sm_90a": "H200",
    "sm_100": "B200",
    "sm_120": "RTX 5090",
}


def usual_card(architecture: str) -> Card:
    """The card to estimate for where only the architecture is known."""
    return CARDS[_USUAL[architecture]]
