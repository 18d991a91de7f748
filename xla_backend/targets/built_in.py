"""The built-in platforms, made known to the runtime when this module is imported.

Importing a platform itself waits for its first use: code generators are not needed to trace.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.hlo.module import HloModule
from xla_backend.process.on_first_use import import_now
from xla_backend.runtime.client import AbstractClient
from xla_backend.runtime.plugins import register_plugin
from xla_backend.runtime.target_code import TargetCode


def _on_first_use(module: str, cls: str) -> Callable[..., AbstractClient]:
    def make(**options: Any) -> AbstractClient:
        return getattr(import_now(module), cls)(**options)

    return make


register_plugin("cpu", _on_first_use("xla_backend.targets.cpu.client", "CpuClient"), priority=0)
register_plugin(
    "interpreter",
    _on_first_use("xla_backend.targets.interpreter", "InterpreterClient"),
    priority=-100,
    automatic=False,
)


def _of_cuda(function: str) -> Callable[[], Any]:
    """What the platform's own room says about this machine, asked when somebody wants to know."""
    return lambda: getattr(import_now("xla_backend.targets.gpu.cuda.availability"), function)()


def _cuda_is_usable() -> bool:
    """Nothing of the platform is loaded where CuPy is not installed."""
    return find_spec("cupy") is not None and _of_cuda("is_usable")()


register_plugin(
    "cuda",
    _on_first_use("xla_backend.targets.gpu.cuda.client", "CudaClient"),
    priority=200,
    automatic=_cuda_is_usable,
    missing=_of_cuda("missing"),
)
# Stands in for "cuda" where a topology is pretended.
register_plugin(
    "mock-gpu",
    _on_first_use("xla_backend.targets.mock_gpu", "MockClient"),
    priority=-100,
    automatic=False,
)


def _emulator(platform: str, target: str, plans: str) -> Callable[..., AbstractClient]:
    """Programs as a target runs them, whose module `plans` says how."""

    def make(**options: Any) -> AbstractClient:
        planner = import_now(f"xla_backend.targets.{target}.{plans}").plan_program
        client = import_now("xla_backend.targets.emulator").EmulatorClient
        return client(platform, planner, target, **options)

    return make


for _row in (("emulator", "cpu", "planned"), ("gpu_emulator", "gpu", "compiler")):
    register_plugin(_row[0], _emulator(*_row), priority=-100, automatic=False)


def emit(
    module: HloModule,
    client: Callable[[], AbstractClient],
    options: CompileOptions,
    target: Target,
) -> TargetCode:
    """Code of a module, which stays as it is, for a target that need not be here: of GPUs without
    any platform's client, else what `client()` makes.

    Raises:
      UnimplementedError: no code is made for that target, or for something in the module.
    """
    module, options = module.clone(), options._replace(target=target)
    if target.is_gpu:
        room = import_now("xla_backend.targets.gpu.target_code")
        return room.make_target_code(module, options)
    return client().emit(module, options)
