"""Schedule the kernel of one instruction for a GPU, match its text, run it, compare with the
evaluator."""

from __future__ import annotations

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
    kernel = lower(root, "k")
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
) -> Kernel:
    """Match the text of the scheduled kernel, and run it with its blocks in two orders."""
    module = module_of(body, called)
    root = module.entry.root  # type: ignore[union-attr]
    assert root is not None
    kernel = scheduled(body, called, architecture)
    if checks:
        check_text(kernel_to_text(kernel), checks)
    arguments = arguments_of(module, seed, low)
    results = evaluate(module, arguments)
    want = [results] if isinstance(results, np.ndarray) else list(results)
    shapes = root.shape.flatten()
    for order in (range, lambda n: range(n - 1, -1, -1)):
        got = run_kernel(kernel, arguments, shapes, grid_order=order)
        for g, w, shape in zip(got, want, shapes, strict=True):
            assert_close(g, w, shape.element_type)
    return kernel


def count(kernel: Kernel, body: str, called: str = "") -> KernelCounters:
    """What a kernel of the module asks of a GPU."""
    counted = KernelCounters(kernel.name)
    Interpreter(kernel, arguments_of(module_of(body, called)), counters=counted).run()
    return counted
