"""Routines of larger matrices whose batches are divided into tasks.

With one task the threads share the products of each problem, with several each goes on alone with
memory of its own: the same arithmetic, so the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.task_context import read_table, run_tasks, table_of_parameters

# The writer, the parameters, the number of the problem and that of the task.
Problem = Callable[[FunctionWriter, Mapping[str, str], str, str], None]


def emit_tasks(
    module: ModuleWriter, name: str, parameters: Sequence[tuple[str, str]], problem: Problem
) -> None:
    """void name(parameters), among which are `batches` and `tasks`."""
    task = f"{name}.task"
    w = module.function(task, [("ptr", "context"), ("i64", "task")], internal=True)
    given = read_table(w, "%context", parameters)
    first, stop = (
        w.op("udiv", "i64", w.imul(given["batches"], number), given["tasks"])
        for number in ("%task", w.iadd("%task", 1))
    )
    with w.loop(first, stop) as batch:
        problem(w, given, batch.index, "%task")
    w.ret()
    w = module.function(name, parameters)
    context = table_of_parameters(w, parameters)

    def alone() -> list[str]:
        w.call(task, "void", [("ptr", context), ("i64", "0")])
        return []

    def divided() -> list[str]:
        run_tasks(w, task, context, "%tasks")
        return []

    w.if_else(w.cmp("eq", "i64", "%tasks", "1"), [], alone, divided)
    w.ret()
