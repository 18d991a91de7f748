"""Stretches of work that a device gets as one graph: launching that takes the host as long as one
kernel.

A graph holds addresses. So a stretch keeps graphs by the addresses it was captured with; memory
that a program gives back is mostly taken again by its next run, so that there are few. Whatever
addresses come for the first time are not worth a graph yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from xla_backend.targets.gpu.cuda.commands import Command, Run, bases_of, nodes_of

# Pieces of work that are worth a graph (`xla_gpu_graph_min_graph_size` has the same number), and
# more than a graph is to have.
_LEAST_NODES = 5
_MOST_NODES = 2048
_MOST_GRAPHS = 16
_NEW = object()


class Stretch(Command):
    """Commands that need nobody to wait for them."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.nodes = nodes_of(commands)
        self.bases = bases_of(commands)
        self.commands = commands
        self._used = sorted(self.bases)
        # By addresses, oldest first: a graph; None: they came once.
        self._graphs: dict[tuple[int, ...], Any] = {}

    def run(self, run: Run) -> None:
        if run.capturing:
            self._run(run)
            return
        bases = run.bases
        key = tuple([bases[number] for number in self._used])
        graph = self._graphs.get(key, _NEW)
        if graph is _NEW:
            self._keep(key, None)
            self._run(run)
            return
        if graph is None:
            graph = self._capture(run)
            self._keep(key, graph)
        graph.launch(run.stream)

    def _run(self, run: Run) -> None:
        for command in self.commands:
            command.run(run)

    def _keep(self, key: tuple[int, ...], graph: Any) -> None:
        for oldest in list(self._graphs)[: max(0, len(self._graphs) - _MOST_GRAPHS + 1)]:
            self._graphs.pop(oldest, None)
        self._graphs[key] = graph

    def _capture(self, run: Run) -> Any:
        """On a stream of its own: what other threads do meanwhile is no part of it."""
        stream = run.device.cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                self._run(replace(run, stream=stream, capturing=True))
            except BaseException:
                # A capture that failed may not even end; what failed is what there is to say.
                with suppress(Exception):
                    stream.end_capture()
                raise
            return stream.end_capture()


def in_stretches(commands: Sequence[Command]) -> list[Command]:
    """The commands with those put together that make graphs worth having."""
    found: list[Command] = []
    open_: list[Command] = []

    def close() -> None:
        nodes = nodes_of(open_) or 0
        found.extend([Stretch(tuple(open_))] if nodes >= _LEAST_NODES else open_)
        open_.clear()

    for command in commands:
        if command.nodes is None or command.nodes > _MOST_NODES:
            close()
            found.append(command)
        else:
            if (nodes_of(open_) or 0) + command.nodes > _MOST_NODES:
                close()
            open_.append(command)
    close()
    return found
