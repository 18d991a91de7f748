"""The memory usage report as protobuf: which arrays make up how much of a program's memory."""

from __future__ import annotations

from itertools import accumulate

from xla_backend.dump.buffer_reports import place_allocations, usage_table
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.proto_wire import Schema
from xla_backend.passes.buffer_assignment import BufferAssignment
from xla_backend.passes.buffer_values import BufferValues

# Field numbers of XLA's messages, see hlo/proto_schema.py.
_REPORT = "MemoryUsageReportProto"
USAGE_SCHEMA = Schema(
    {
        _REPORT: f"1 memory_space_allocation_entries {_REPORT}.AllocationEntryInMemorySpace*",
        f"{_REPORT}.AllocationEntryInMemorySpace": (
            "1 total_bytes int64; 2 memory_space_color int32; "
            f"3 allocation_entries {_REPORT}.AllocationEntry*"
        ),
        f"{_REPORT}.AllocationEntry": (
            "1 index int64; 2 size int64; 3 cumulative_size int64; 4 cumulative_percentage double; "
            "5 defining_positions string*; 6 hlo_text string"
        ),
    }
)


def usage_report(module: HloModule, assignment: BufferAssignment) -> bytes:
    """A MemoryUsageReportProto: all allocations, the largest first, each with its share of memory
    together with those before it (1.0 is all), where its arrays are made, and its readable table.
    """
    numbered = list(enumerate(place_allocations(BufferValues(module), assignment)))
    numbered.sort(key=lambda pair: -pair[1].size)
    sums = list(accumulate(allocation.size for _, allocation in numbered))
    total = sums[-1] if sums else 0
    entries = [
        {
            "index": index,
            "size": allocation.size,
            "cumulative_size": cumulative,
            "cumulative_percentage": cumulative / max(total, 1),
            "defining_positions": [value.position for value in allocation.values],
            "hlo_text": "\n".join(usage_table(allocation)),
        }
        for (index, allocation), cumulative in zip(numbered, sums)
    ]
    space = {"total_bytes": total, "memory_space_color": 0, "allocation_entries": entries}
    return USAGE_SCHEMA.encode(_REPORT, {"memory_space_allocation_entries": [space]})
