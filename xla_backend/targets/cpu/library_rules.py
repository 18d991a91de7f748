"""How the entry function runs operations that are library calls, and the symbols those need."""

from __future__ import annotations

from xla_backend.llvm.jit import Address
from xla_backend.targets.cpu import (
    conv_rules,
    dot_rules,
    effect_rules,
    host_rules,
    output_fusion_rules,
    scan_rules,
    sort_rules,
)
from xla_backend.targets.cpu.driver import Driver
from xla_backend.targets.cpu.routines.library import kernel_library

# Imported for the rules they register.
_RULE_MODULES = (
    conv_rules,
    dot_rules,
    effect_rules,
    host_rules,
    output_fusion_rules,
    scan_rules,
    sort_rules,
)


def symbols(driver: Driver) -> dict[str, int]:
    """Addresses of what the generated module refers to."""
    addresses: dict[str, int] = {}
    kernels = kernel_library(driver.serial)
    for symbol, number in driver.bound_constants.items():
        array = driver.assignment.constants[number]
        addresses[symbol] = Address(array.ctypes.data, array)
    for name in driver.writer.declarations:
        if name.startswith("pyjax_"):
            addresses[name] = kernels[name]
    return addresses
