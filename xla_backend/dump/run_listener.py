"""What programs tell of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xla_backend.hlo.literal import Literal


class RunListener(Protocol):
    """Is told of each run of one program, maybe of several at the same time."""

    def started(self, arguments: Sequence[Literal]) -> None:
        """A run begins; one literal for each parameter."""

    def finished(self, arguments: Sequence[Literal], result: Literal) -> None:
        """A run has ended without an error."""
