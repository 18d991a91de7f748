"""Groups of problems, one in each lane of a vector (see `matrix_lanes`), over threads.

void pyjax_lane_groups(ptr group, ptr context, count, cycles, lanes)
      group(context, first, count) for each `lanes` of `count` problems, which takes about so many
      cycles, at least 1; in parallel if they are much work. All routines of lanes have it in
      common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.matrix_lanes import Lanes, lane_count
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.task_context import Fields, TaskContext, run_tasks

_DRIVER = "pyjax_lane_groups"
# Cycles of a block that is worth a thread's while.
_BLOCK_CYCLES = 1 << 15
_CONTEXT = TaskContext(("group", "context", "count", "groups", "lanes"), pointers=2)


def emit_groups(
    module: ModuleWriter,
    symbol: str,
    t: P,
    fields: Fields,
    problems: Callable[[FunctionWriter], str],
    cycles: Callable[[FunctionWriter], str],
    group: Callable[[Lanes, str, str], None],
) -> None:
    """void symbol(fields...): all groups of problems, over threads if they are much work.

    Args:
      fields: types and names of the arguments, which are values in what the next three write.
      problems: how many there are.   cycles: what a group takes, about; at least 1.
      group: writes the computation of problems number `first` on, of `count`.
    """
    name = f"{symbol}.group"
    parameters = [("ptr", "context"), ("i64", "first"), ("i64", "count")]
    w = module.function(name, parameters, internal=True)
    for i, (ty, field) in enumerate(fields):
        w.line(f"%{field} = load {ty}, ptr {w.gep('i64', '%context', i)}, align 8")
    group(Lanes(w, t), "%first", "%count")
    w.ret()

    w = module.function(symbol, fields)
    context = w.alloca("i64", len(fields), 8)
    for i, (ty, field) in enumerate(fields):
        w.store(ty, f"%{field}", w.gep("i64", context, i), 8)
    numbers = [problems(w), cycles(w), str(lane_count(module, t))]
    arguments = [("ptr", f"@{name}"), ("ptr", context), *(("i64", number) for number in numbers)]
    w.call(_DRIVER, "void", arguments)
    w.ret()


def _emit_driver(module: ModuleWriter) -> None:
    task = f"{_DRIVER}.task"
    w = module.function(task, [("ptr", "ctx"), ("i64", "block")], internal=True)
    group, context, count, groups, lanes = _CONTEXT.fields(w)
    in_block = w.imul(groups, lanes)
    start = w.imul("%block", in_block)
    with w.loop(start, w.imin(w.iadd(start, in_block), count), lanes) as loop:
        w.call_pointer(group, "void", [("ptr", context), ("i64", loop.index), ("i64", count)])
    w.ret()

    names = [("ptr", "group"), ("ptr", "context"), ("i64", "count"), ("i64", "cycles")]
    w = module.function(_DRIVER, [*names, ("i64", "lanes")])
    groups = w.imax(w.op("udiv", "i64", str(_BLOCK_CYCLES), w.imax("%cycles", 1)), 1)
    table = _CONTEXT.make(w, ["%group", "%context", "%count", groups, "%lanes"])
    in_block = w.imul(groups, "%lanes")
    blocks = w.op("udiv", "i64", w.iadd("%count", w.isub(in_block, 1)), in_block)

    def parallel() -> list[str]:
        run_tasks(w, task, table, blocks)
        return []

    def alone() -> list[str]:
        with w.if_(w.cmp("eq", "i64", blocks, "1")):
            w.call(task, "void", [("ptr", table), ("i64", "0")])
        return []

    w.if_else(w.cmp("sgt", "i64", blocks, "1"), [], parallel, alone)
    w.ret()


class LaneRoutine(NamedTuple):
    """What `emit_groups` takes of a routine besides its name and type."""

    fields: Fields
    problems: Callable[[FunctionWriter], str]
    cycles: Callable[[FunctionWriter], str]
    group: Callable[[Lanes, str, str], None]


def register_lane_routines(routines: Mapping[str, LaneRoutine], types: Sequence[P]) -> None:
    """Declares pyjax_<name>_<t> for all names and types."""

    def emit(symbol: str, t: P, routine: LaneRoutine, module: ModuleWriter) -> None:
        emit_groups(module, symbol, t, *routine)

    for name, routine in routines.items():
        for t in types:
            symbol = f"pyjax_{name}_{t}"
            register_group(f"{name}_{t}", (symbol,), partial(emit, symbol, t, routine))


def register() -> None:
    """Declares what all routines of lanes have in common."""
    register_group("lane_groups", (_DRIVER,), _emit_driver)
