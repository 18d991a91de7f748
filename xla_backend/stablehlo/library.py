"""StableHLO text in, HLO modules out."""

from __future__ import annotations

from xla_backend.hlo.module import HloModule
from xla_backend.stablehlo.parser import parse_module
from xla_backend.stablehlo.to_hlo import module_to_hlo


def parse_stablehlo(text: str, entry: str | None = None) -> HloModule:
    """The HLO module of a StableHLO text.

    Args:
      entry: name of the entry function; None: `main`, or the only public one.
    Raises:
      ParseError: malformed text: line, column, the line and a caret, what was expected.
      ConversionError: text that parses but is no valid program.
      UnimplementedError: something in it has no equivalent here.

    >>> module = parse_stablehlo("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {"
    ...     "%0 = stablehlo.add %x, %x : tensor<3xf32> return %0 : tensor<3xf32> }")
    >>> str(module.entry.root.opcode)
    'add'
    """
    return module_to_hlo(parse_module(text), entry)
