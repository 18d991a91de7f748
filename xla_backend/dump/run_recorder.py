"""RunRecorder: files with what went into and came out of each run of a program."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence

from xla_backend.dump.sink import Sink
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.proto import (
    ProtoError,
    Snapshot,
    snapshot_to_proto,
    unoptimized_snapshot_to_proto,
)


class RunRecorder:
    """Writes the runs of one program: before each run its arguments with the module as it was
    received, after it arguments and result with the compiled module; either only if that module is
    given.

    A recorder may be told of several runs at the same time.
    """

    def __init__(
        self, sink: Sink, *, received: HloModule | None, compiled: HloModule | None
    ) -> None:
        self._sink = sink
        self._received = received
        self._compiled = compiled
        self._started = itertools.count()
        self._finished = itertools.count()

    def started(self, arguments: Sequence[Literal]) -> None:
        """A run begins; one literal for each parameter."""
        received = self._received
        if received is not None:
            name = f"execution_{next(self._started):04d}.hlo_unoptimized_snapshot.pb"
            self._write(name, lambda: unoptimized_snapshot_to_proto(received, [arguments]))

    def finished(self, arguments: Sequence[Literal], result: Literal) -> None:
        """A run has ended without an error."""
        if self._compiled is not None:
            snapshot = Snapshot(self._compiled, tuple(arguments), result)
            name = f"snapshot.{next(self._finished)}.pb"
            self._write(name, lambda: snapshot_to_proto(snapshot))

    def _write(self, name: str, content: Callable[[], bytes]) -> None:
        try:
            self._sink.write(name, content())
        except ProtoError as error:  # what protobuf has no form for must not end the program
            print(f"No {name} for {self._sink.prefix}: {error}", file=sys.stderr)
