"""A folder of reference programs: HLO text with the inputs it was run on and the outputs it must
give.

A program NAME is NAME.json (metadata), its texts (see `TEXTS`; gzipped where the metadata says so)
and NAME.npz with the arrays `in_0`, `in_1`, ... and `out_0`, `out_1`, ...
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from xla_backend.process.lazy import lazy
from xla_backend.process.light_dataclasses import dataclass

# Short name of a text -> its key in the metadata.
TEXTS = {"hlo": "hlo.txt", "stablehlo": "stablehlo.mlir", "opt": "opt_hlo.txt"}


@dataclass(frozen=True)
class CorpusProgram:
    """One program of a corpus folder."""

    folder: Path
    metadata: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.metadata["name"])

    @property
    def family(self) -> str:
        return str(self.metadata["family"])

    def text(self, kind: str) -> str:
        """The text of a kind of `TEXTS`."""
        path = self.folder / self.metadata["files"][TEXTS[kind]]
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()

    @lazy
    def arrays(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """(inputs, expected outputs) with their true dtypes."""
        with np.load(self.folder / self.metadata["files"]["npz"]) as stored:
            return (
                [
                    restore_dtype(stored[f"in_{k}"], description["dtype"])
                    for k, description in enumerate(self.metadata["inputs"])
                ],
                [
                    restore_dtype(stored[f"out_{k}"], description["dtype"])
                    for k, description in enumerate(self.metadata["outputs"])
                ],
            )


def find_programs(
    folder: Path, family: str | None = None, names: Sequence[str] = ()
) -> Iterator[CorpusProgram]:
    """The programs below `folder` in order of family and name.

    Raises:
      FileNotFoundError: a name of `names` is not there, or there is no program at all.
    """
    found = set()
    for path in sorted(folder.glob("*/*.json")):
        if names and path.stem not in names:
            continue
        program = CorpusProgram(path.parent, json.loads(path.read_text()))
        if family is None or program.family == family:
            found.add(path.stem)
            yield program
    missing = sorted(set(names) - found)
    if missing or not found:
        raise FileNotFoundError(
            f"no program {', '.join(missing) or '*/*.json'} below {folder}"
            + (f" in family {family!r}" if family else "")
        )


def restore_dtype(stored: np.ndarray, name: str) -> np.ndarray:
    """The array with the dtype called `name`.

    Types that plain NumPy does not have are stored as their bits (bfloat16 in uint16, float8 in
    uint8) or, below a byte, as their values (int4 in int8).
    """
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(getattr(ml_dtypes, name))
    if stored.dtype == dtype:
        return stored
    if dtype.name.startswith(("int", "uint")):
        return stored.astype(dtype)
    return stored.view(dtype)


def mismatch_reason(
    got: np.ndarray, expected: np.ndarray, tolerance: Mapping[str, float]
) -> str | None:
    """Why `got` does not count as `expected`, or None if it does.

    Elementwise |got - expected| <= atol + rtol |expected|; NaN equals NaN, an infinity only
    itself, and parts of complex numbers that are not finite are compared one by one. At most the
    fraction `mismatch` of the elements may break the rule.
    """
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"is {got.dtype}{list(got.shape)} instead of {expected.dtype}{list(expected.shape)}"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    if expected.dtype.kind in "biu":
        wrong = got != expected
        distance = np.where(wrong, 1.0, 0.0)
    else:
        g, e = got.astype(wide), expected.astype(wide)
        with np.errstate(all="ignore"):
            distance = np.abs(g - e)
            close = distance <= tolerance["atol"] + tolerance["rtol"] * np.abs(e)
            finite = np.isfinite(g) & np.isfinite(e)
            wrong = ~np.where(finite, close, _same_parts(g, e, tolerance))
    share = float(wrong.mean()) if wrong.size else 0.0
    if share <= tolerance["mismatch"]:
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"differs at {int(wrong.sum())} of {wrong.size} places; first {list(place)}: "
        f"{got[place]} instead of {expected[place]}, distance {distance[place]:.3g}, "
        f"allowed {tolerance['atol']:.3g} + {tolerance['rtol']:.3g} relative"
    )


def _same_parts(g: np.ndarray, e: np.ndarray, tolerance: Mapping[str, float]) -> np.ndarray:
    """Agreement of numbers that are not finite: each part by itself."""
    if g.dtype.kind == "c":
        return _same_parts(g.real, e.real, tolerance) & _same_parts(g.imag, e.imag, tolerance)
    close = np.abs(g - e) <= tolerance["atol"] + tolerance["rtol"] * np.abs(e)
    return np.where(np.isfinite(g) & np.isfinite(e), close, (g == e) | (np.isnan(g) & np.isnan(e)))


def add_corpus_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of tools that go through a folder: `folder`, `--family`, `--only`."""
    parser.add_argument("folder", type=Path, help="folder with INDEX.json and one folder a family")
    parser.add_argument("--family", help="only programs of this family")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="may repeat")


def choices(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an argument that is a list of some words, with commas between them."""

    def read(text: str) -> list[str]:
        chosen = [item for item in text.split(",") if item]
        unknown = [item for item in chosen if item not in allowed]
        if unknown or not chosen:
            raise argparse.ArgumentTypeError(f"{text!r}: choose from {','.join(allowed)}")
        return chosen

    return read
