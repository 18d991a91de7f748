"""Schedule the kernel of one instruction for a GPU, match its text, run it, compare with the
evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from native_checks import arguments_of, assert_close, check_text, module_of

from xla_backend.hlo.evaluator import evaluate
from xla_backend.kernels.counters import KernelCounters
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.interpreter import Interpreter, run_kernel
from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.targets.gpu.architectures import ARCHITECTURES, Architecture
from xla_backend.targets.gpu.schedules import Schedules

# A machine that a few thousand elements keep busy.
TINY = replace(ARCHITECTURES["sm_90"], multiprocessors=1, threads_per_multiprocessor=64)
LARGE = ARCHITECTURES["sm_90"]


def scheduled(body: str, called: str = "", architecture: Architecture = LARGE) -> Kernel:
    """The kernel of the root of a module with these lines, scheduled and verified."""
    root = module_of(body, called).entry.root  # type: ignore[union-attr]
    assert root is not None
    kernel = lower(root, "k", in_parts=Schedules.reduces_in_parts)
    Schedules(architecture, verify=True).kernel(kernel)
    return kernel


def check(
    body: str,
    checks: str = "",
    called: str = "",
    architecture: Architecture = LARGE,
    *,
    seed: int = 0,
    low: float = -3.0,
    scale: float = 1.0,
    arguments: Sequence[np.ndarray] = (),
) -> Kernel:
    """Match the text of the scheduled kernel, and run it with its blocks in two orders, which
    give the same bits; on random arguments if none are given."""
    module = module_of(body, called)
    root = module.entry.root  # type: ignore[union-attr]
    assert root is not None
    kernel = scheduled(body, called, architecture)
    if checks:
        check_text(kernel_to_text(kernel), checks)
    given = list(arguments) or arguments_of(module, seed, low)
    results = evaluate(module, given)
    want = [results] if isinstance(results, np.ndarray) else list(results)
    shapes, sources = root.shape.flatten(), root.operands
    operands = [o.literal_array if o.is_constant else given[o.parameter_number] for o in sources]
    first, again = (
        run_kernel(kernel, operands, shapes, grid_order=order)
        for order in (range, lambda n: range(n - 1, -1, -1))
    )
    for g, h, w, shape in zip(first, again, want, shapes, strict=True):
        assert g.tobytes() == h.tobytes()
        assert_close(g, w, shape.element_type, scale)
    return kernel


def count(kernel: Kernel, body: str, called: str = "") -> KernelCounters:
    """What a kernel of the module asks of a GPU."""
    counted = KernelCounters(kernel.name)
    Interpreter(kernel, arguments_of(module_of(body, called)), counters=counted).run()
    return counted
