"""Names of values as MLIR gives them: %0, %arg0, %cst_1, %iterArg, %3:2.

All values of a region are named before those of the regions inside; a nested region goes on
counting where the region around it stopped. A suggested name that is taken gets `_N`.
"""

from __future__ import annotations

from xla_backend.process.light_dataclasses import dataclass
from xla_backend.stablehlo.attributes import DenseAttribute
from xla_backend.stablehlo.ir import Operation, Region, Value
from xla_backend.stablehlo.op_table import RESULT_NAMES
from xla_backend.stablehlo.types import ScalarType

_CONSTANTS = ("stablehlo.constant", "arith.constant")


@dataclass(slots=True)
class _Counters:
    value: int = 0
    argument: int = 0
    conflict: int = 0

    def copy(self) -> _Counters:
        return _Counters(self.value, self.argument, self.conflict)


class ValueNames:
    """`of[value]` is the name without `%`; `groups[op]` is what stands before `=`."""

    def __init__(self, top: Region) -> None:
        self.of: dict[Value, str] = {}
        self.groups: dict[Operation, str] = {}
        pending: list[tuple[Region, _Counters, frozenset[str] | set[str]]] = [
            (top, _Counters(), set())
        ]
        while pending:
            region, counters, outer = pending.pop()
            used = set(outer)
            self._region(region, counters, used)
            for block in region.blocks:
                for op in block.operations:
                    for inner in op.regions:
                        pending.append((inner, counters.copy(), used))

    def _region(self, region: Region, counters: _Counters, used: set[str]) -> None:
        parent = region.parent
        suggested = "iterArg" if parent is not None and parent.name == "stablehlo.while" else ""
        for i, block in enumerate(region.blocks):
            for argument in block.arguments:
                if suggested:
                    name = _unique(suggested, counters, used)
                elif i == 0:
                    name = _unique(f"arg{counters.argument}", counters, used)
                    counters.argument += 1
                else:
                    name = str(counters.value)
                    counters.value += 1
                self.of[argument] = name
            for op in block.operations:
                if op.results:
                    self._results(op, counters, used)

    def _results(self, op: Operation, counters: _Counters, used: set[str]) -> None:
        names = RESULT_NAMES.get(op.name)
        if names is not None and len(names) == len(op.results):
            unique = [_unique(n, counters, used) for n in names]
            self.of.update(zip(op.results, unique))
            self.groups[op] = ", ".join("%" + n for n in unique)
            return
        if op.name in _CONSTANTS:
            base = _unique(_constant_name(op), counters, used)
        else:
            base = str(counters.value)
            counters.value += 1
        if len(op.results) == 1:
            self.of[op.results[0]] = base
            self.groups[op] = f"%{base}"
            return
        for i, result in enumerate(op.results):
            self.of[result] = f"{base}#{i}"
        self.groups[op] = f"%{base}:{len(op.results)}"


def _constant_name(op: Operation) -> str:
    value = op.attributes.get("value")
    if isinstance(value, DenseAttribute):
        element = value.type.element
        if isinstance(element, ScalarType) and element.is_integer:
            return "c"
    return "cst"


def _unique(name: str, counters: _Counters, used: set[str]) -> str:
    found = name
    while found in used:
        found = f"{name}_{counters.conflict}"
        counters.conflict += 1
    used.add(found)
    return found
