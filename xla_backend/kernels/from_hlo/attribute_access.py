"""Attributes of an instruction, for rules chosen by opcode: those know which class they get."""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.instruction import Instruction


def attrs(node: Instruction) -> Any:
    """`node.attributes`, without the base type."""
    return node.attributes
