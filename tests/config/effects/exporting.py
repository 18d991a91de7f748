"""Options of exported programs."""

from __future__ import annotations

import re

import pyjax
import pyjax.numpy as jnp
from tests.config.effects.observe import error_of
from tests.config.effects.table import effect


def exported_negation() -> pyjax.export.Exported:
    return pyjax.export.export(pyjax.jit(jnp.negative))(jnp.ones(3))


@effect("jax_export_calling_convention_version", 10, default=(9, True), changed=(10, True))
def calling_convention_version() -> tuple[int, bool]:
    """What is recorded, and whether the text of the module says the same."""
    exported = pyjax.export.deserialize(exported_negation().serialize())
    version = exported.calling_convention_version
    return version, f"calling_convention_version = {version} :" in exported.mlir_module()


@effect(
    "jax_export_calling_convention_version",
    8,
    default="",
    changed=re.compile(r"ValueError: .* version 8, which is outside the range .* \[9\.\.10\]"),
    ways=("update", "flag"),
)
def unsupported_calling_convention() -> str:
    return error_of(exported_negation)


@effect("jax_export_ignore_forward_compatibility", True, default=(1, True), changed=(2, False))
def format_of_serialized() -> tuple[int, bool]:
    """The format, and whether the program can be read in the bytes."""
    blob = exported_negation().serialize()
    return blob[8], b"stablehlo.negate" in blob
