"""Operands of the members of a group that is in several processes: what is sent of those that are
here, and memory for those that come."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xla_backend.runtime.processes.identity import Site
from xla_backend.runtime.processes.mpi import ALIGNMENT, aligned_bytes
from xla_backend.runtime.processes.needs import Cut, Reading


def cuts(
    site: Site, group: Sequence[int], sources: Sequence[int], readers: Sequence[int]
) -> Iterator[tuple[int, int, Cut]]:
    """What members in one process read of members in another: rank of the source, number of the
    operand, and the part of it."""
    for source in sources:
        reading = Reading(site.exchange, tuple(group), source, readers)
        for operand, shape in enumerate(site.operands):
            cut = reading.cut(operand, shape)
            if cut is not None:
                yield source, operand, cut


def bytes_of(table: int | None, operand: int, nbytes: int) -> np.ndarray:
    """An operand of a member whose table has this address."""
    assert table is not None
    address = ctypes.c_void_p.from_address(table + ctypes.sizeof(ctypes.c_void_p) * operand).value
    assert address is not None
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def placed(
    site: Site,
    sources: Sequence[int],
    cuts: Iterator[tuple[int, int, Cut]],
    payload: np.ndarray,
    shown: Any,
) -> Iterator[Any]:
    """Show the tables of members in another process; what is to be kept as long as they are read.

    Args:
      sources: ranks of those members.   payload: the cuts, one behind the other.
      shown: the addresses of tables, by rank.
    """
    tables: dict[int, Any] = {}
    for rank in sources:
        tables[rank] = (ctypes.c_void_p * (len(site.operands) + site.results))()
        shown[rank] = ctypes.addressof(tables[rank])
        yield tables[rank]
    yield payload
    start = 0
    for rank, operand, cut in cuts:
        nbytes = site.operands[operand].byte_size
        part = payload[start : start + cut.size(nbytes)]
        start += -(-part.nbytes // ALIGNMENT) * ALIGNMENT
        behind = cut.start(nbytes)  # what lies before it nobody reads
        if behind is None:
            behind, whole = 0, aligned_bytes(nbytes)
            cut.put(whole, part)
            part = whole
            yield whole
        tables[rank][operand] = part.ctypes.data - behind
