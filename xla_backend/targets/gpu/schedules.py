"""How the kernels of a program are scheduled for a GPU.

Each stage of a kernel becomes one launch: a grid loop around one loop of threads. Which family of
schedules takes a stage is a matter of its loops; the first in `_FAMILIES` that can, does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.verifier import verify_kernel
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.product_candidates import Choose
from xla_backend.targets.gpu.schedule import loops, one_block, reductions, serial, transposes
from xla_backend.targets.gpu.schedule.stages import check_stages

# A family schedules the stages of a kernel that are its kind and leaves the others as they are;
# it calls `done(step)` after each step. The last one takes whatever is left.
Family = Callable[[Kernel, Architecture, Callable[[str], None]], None]
_FAMILIES: Sequence[Family] = (
    reductions.schedule,
    transposes.schedule,
    one_block.schedule,
    loops.schedule,
    serial.schedule,
)


class Schedules:
    """Schedules kernels; with `verify`, checks them after each step. `choose`: which way of several
    to compute a product; None: the one that should be the fastest."""

    reduces_in_parts = False

    def __init__(
        self, architecture: Architecture, *, verify: bool = False, choose: Choose | None = None
    ) -> None:
        self.architecture = architecture
        self.choose = choose
        self._verify = verify

    def kernel(self, kernel: Kernel) -> float:
        """Schedule a kernel. (What it costs is the business of the cards that it runs on.)"""

        def done(step: str) -> None:
            if self._verify:
                verify_kernel(kernel, step)

        for family in _FAMILIES:
            family(kernel, self.architecture, done)
        check_stages(kernel)
        return 0.0

    def epilogue(self, kernel: Kernel, *, whole: bool) -> float:
        raise AssertionError("routines of a GPU take no epilogues: they are part of its kernels")
