"""The named tuples that functions of the library return, under their own names."""

from __future__ import annotations

from pyjax.export.trees import register_namedtuple_serialization
from pyjax.numpy import linalg, setops

for _type in (
    linalg.EighResult,
    linalg.EigResult,
    linalg.QRResult,
    linalg.SlogdetResult,
    linalg.SVDResult,
    setops.UniqueAllResult,
    setops.UniqueCountsResult,
    setops.UniqueInverseResult,
):
    register_namedtuple_serialization(_type, serialized_name=f"pyjax.numpy.{_type.__name__}")
