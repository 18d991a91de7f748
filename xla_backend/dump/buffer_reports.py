"""Where the arrays of a program lie, and when they live: four readable reports."""

from __future__ import annotations

from collections.abc import Iterable

from xla_backend.dump.call_tree import peak_tree
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.printer import instruction_to_text
from xla_backend.hlo.shape import Shape
from xla_backend.passes.buffer_assignment import BufferAssignment, BufferKind, BufferSlice
from xla_backend.passes.buffer_values import BufferValues, Value
from xla_backend.process.light_dataclasses import dataclass, field

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """One array: its number in the reports, who makes it, and its place."""

    number: int
    value: Value
    place: BufferSlice

    @property
    def shape(self) -> Shape:
        return self.value.instruction.shape.flatten()[self.value.leaf]

    @property
    def position(self) -> str:
        """`name`, or `name{2}` for a member of a tuple."""
        return position(self.value.instruction, self.value.leaf)

    @property
    def title(self) -> str:
        return f"<{self.number} {self.position} @0>"


@dataclass(slots=True)
class Allocation:
    """One piece of memory with the arrays that lie in it."""

    kind: BufferKind
    index: int
    size: int
    values: list[PlacedValue] = field(default_factory=list)


def position(instruction: Instruction, leaf: int) -> str:
    """Text of an array leaf of an instruction."""
    return f"{instruction.name}{{{leaf}}}" if instruction.shape.is_tuple else instruction.name


def readable_bytes(size: int) -> str:
    """`348B`, `1.9KiB`."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit + 1 < len(_UNITS):
        amount /= 1024
        unit += 1
    return f"{size}B" if unit == 0 else f"{amount:.1f}{_UNITS[unit]}"


def buffer_reports(
    module: HloModule, assignment: BufferAssignment, *, analysis: bool
) -> dict[str, str]:
    """The reports by the suffix of their files; `analysis` adds values and live ranges."""
    values = BufferValues(module)
    allocations = place_allocations(values, assignment)
    reports = {"buffer-assignment": _assignment_text(module, allocations)}
    if analysis:
        reports["buffer-assignment-values"] = _values_text(values, allocations)
        reports["live-range"] = _live_range_text(module, values)
    reports["memory-usage-report"] = _usage_text(allocations)
    return reports


def place_allocations(analysis: BufferValues, assignment: BufferAssignment) -> list[Allocation]:
    """Parameters, outputs, constants, then the arena; empty kinds left out."""
    found: dict[tuple[BufferKind, int], Allocation] = {}
    for number, value in enumerate(analysis.values):
        place = assignment.slices[value.instruction][value.leaf]
        if place is None:
            continue
        key = (place.kind, place.index)
        allocation = found.setdefault(key, Allocation(place.kind, place.index, 0))
        allocation.values.append(PlacedValue(number, value, place))
        allocation.size = max(allocation.size, place.offset + place.size)
    ranks = {
        BufferKind.PARAMETER: 0,
        BufferKind.OUTPUT: 1,
        BufferKind.CONSTANT: 2,
        BufferKind.TEMP: 3,
    }
    result = sorted(found.values(), key=lambda a: (ranks[a.kind], a.index))
    for allocation in result:
        if allocation.kind is BufferKind.TEMP:
            allocation.size = assignment.temp_size
    return result


def _bare(shape: Shape) -> str:
    """The shape without its layout."""
    return f"{shape.element_type}[{','.join(map(str, shape.dimensions))}]"


def _role(module: HloModule, allocation: Allocation) -> str:
    """What follows `size N, ` in the line of an allocation."""
    assert module.entry is not None and module.entry.root is not None
    if allocation.kind is BufferKind.PARAMETER:
        leaves = [
            (p.parameter_number, shape) for p in module.entry.parameters for shape in _leaves(p)
        ]
        number, (index, shape) = leaves[allocation.index]
        return f"parameter {number}, shape |{_bare(shape)}| at ShapeIndex {index}"
    if allocation.kind is BufferKind.OUTPUT:
        shape = module.entry.root.shape.flatten()[allocation.index]
        return f"output shape is |{_bare(shape)}|, maybe-live-out"
    return "constant" if allocation.kind is BufferKind.CONSTANT else "preallocated-temp"


def _leaves(parameter: Instruction) -> Iterable[tuple[str, Shape]]:
    for i, shape in enumerate(parameter.shape.flatten()):
        yield (f"{{{i}}}" if parameter.shape.is_tuple else "{}"), shape


def _assignment_text(module: HloModule, allocations: list[Allocation]) -> str:
    lines = ["BufferAssignment:"]
    for i, allocation in enumerate(allocations):
        lines.append(f"allocation {i}: size {allocation.size}, {_role(module, allocation)}:")
        lines += [
            f" value: {v.title} (size={v.place.size},offset={v.place.offset}): "
            f"{v.shape.to_text(layout=True)}"
            for v in allocation.values
        ]
    return "\n".join(lines) + "\n"


def _values_text(analysis: BufferValues, allocations: list[Allocation]) -> str:
    total = sum(a.size for a in allocations)
    positions: dict[int, list[str]] = {}
    uses: dict[int, list[str]] = {}
    for node, leaves in analysis.leaves.items():
        for leaf, view in enumerate(leaves):
            if view is not None:
                positions.setdefault(id(view.value), []).append(position(node, leaf))
                if node.opcode is not Opcode.TUPLE:
                    uses.setdefault(id(view.value), []).extend(_uses(node))
    lines = ["", f"Total bytes used: {total} ({readable_bytes(total)})", "", "Used values:"]
    placed = sorted((v for a in allocations for v in a.values), key=lambda v: v.number)
    for v in placed:
        used = dict.fromkeys(uses.get(id(v.value), ()))
        lines += [v.title, " positions:"]
        lines += [f"  {p}" for p in dict.fromkeys(positions.get(id(v.value), [v.position]))]
        lines += [" uses:", *([f"  {u}" for u in used] or ["  (none)"])]
        lines.append(f" from instruction: {instruction_to_text(v.value.instruction)}")
    return "\n".join(lines) + "\n"


def _uses(node: Instruction) -> list[str]:
    return [
        f"{user.name}, operand {i}"
        for user in node.users
        for i, operand in enumerate(user.operands)
        if operand is node
    ]


def _live_range_text(module: HloModule, analysis: BufferValues) -> str:
    sequence = analysis.timeline()
    end = max([0, *(view.end for value in analysis.values for view in value.views)])
    lines = [f"HloLiveRange (max {end}):", "  InstructionSequence:"]
    lines += [f"    {time}:{node.name}" for time, node in sequence]
    lines.append("  BufferLiveRange:")
    live: dict[Value, list[tuple[int, int]]] = {}
    for value in analysis.values:
        live[value] = sorted((view.start, view.end) for view in value.views)
        spans = ", ".join(f"{start}-{stop}" for start, stop in live[value])
        lines.append(f"    {value.instruction.name}{_index(value)}:{spans}")
    peak = _peak_time(live)
    at_peak = [v for v, spans in live.items() if any(s <= peak <= e for s, e in spans)]
    at_peak.sort(key=lambda v: -v.size)
    lines.append(f"  Live ranges at {peak} (peak):")
    cumulative = 0
    for value in at_peak:
        cumulative += value.size
        name = f"{value.instruction.name}{_index(value)}"
        lines.append(f"    {name}: {value.size} bytes (cumulative: {cumulative} bytes)")
    lines += peak_tree(module, [(v.instruction, v.size) for v in at_peak])
    return "\n".join(lines) + "\n"


def _index(value: Value) -> str:
    return f"{{{value.leaf}}}" if value.instruction.shape.is_tuple else "{}"


def _peak_time(live: dict[Value, list[tuple[int, int]]]) -> int:
    """The first moment at which the most bytes are live."""
    change: dict[int, int] = {0: 0}
    for value, spans in live.items():
        for start, end in spans:
            change[start] = change.get(start, 0) + value.size
            change[end + 1] = change.get(end + 1, 0) - value.size
    best = peak = total = 0
    for time in sorted(change):
        total += change[time]
        if total > best:
            best, peak = total, time
    return peak


def _usage_text(allocations: list[Allocation]) -> str:
    total = sum(a.size for a in allocations)
    lines = [
        "Memory Space: default (color=0)",
        f"Total bytes: {total} ({readable_bytes(total)})",
    ]
    for allocation in sorted(allocations, key=lambda a: -a.size):
        lines += usage_table(allocation)
    return "\n".join(lines) + "\n\n"


def usage_table(allocation: Allocation) -> list[str]:
    """Rows of one allocation: a row for all values at one place."""
    rows: dict[tuple[int, int], list[str]] = {}
    for v in allocation.values:
        rows.setdefault((v.place.offset, v.place.size), []).append(_bare(v.shape))
    lines = [
        "  cumulative_size;       size;       offset; used_by_n_values; shapes_list",
        "  ------------------------------------------------------------",
    ]
    cumulative = 0
    whole = max(1, sum(size for _, size in rows))
    for (offset, size), shapes in sorted(rows.items(), key=lambda row: -row[0][1]):
        cumulative += size
        counts = {shape: shapes.count(shape) for shape in sorted(shapes)}
        listed = ", ".join(s if n == 1 else f"{n}×{s}" for s, n in counts.items())
        lines.append(
            f"  {readable_bytes(cumulative):>9}({cumulative * 100 // whole:3d}%); "
            f"{readable_bytes(size):>10}; {offset:>12}; {len(shapes):>16}; {listed}"
        )
    return [*lines, ""]
