"""The named tuples that functions of the library return, under their own names."""

from __future__ import annotations

from pyjax.export.trees import register_namedtuple_serialization
from pyjax.numpy import linalg_factorizations, linalg_solvers, setops

for _type in (
    linalg_factorizations.EighResult,
    linalg_factorizations.EigResult,
    linalg_factorizations.QRResult,
    linalg_solvers.SlogdetResult,
    linalg_factorizations.SVDResult,
    setops.UniqueAllResult,
    setops.UniqueCountsResult,
    setops.UniqueInverseResult,
):
    register_namedtuple_serialization(_type, serialized_name=f"pyjax.numpy.{_type.__name__}")
