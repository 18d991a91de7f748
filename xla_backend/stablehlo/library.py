"""StableHLO text in, HLO modules out, and back."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.module import HloModule
from xla_backend.stablehlo.from_hlo import module_from_hlo
from xla_backend.stablehlo.parser import parse_module
from xla_backend.stablehlo.printer import module_to_text
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


def module_to_stablehlo(
    module: HloModule,
    *,
    result_info: Sequence[str] = (),
    debug_info: bool = False,
    in_shardy: bool = False,
) -> str:
    """The StableHLO text of an HLO module, in the style of JAX.

    Args:
      result_info: names of the results' leaves, written as `jax.result_info`.
      debug_info: with locations.
      in_shardy: with shardings in Shardy's dialect, in place of `mhlo.sharding` as HLO has them.
    Raises:
      UnimplementedError: an opcode has no StableHLO equivalent.

    >>> from xla_backend.hlo.parser import parse_module as parse_hlo
    >>> text = "ENTRY e { x = f32[3] parameter(0)  ROOT r = f32[3] negate(x) }"
    >>> print(module_to_stablehlo(parse_hlo(text)), end="")
    module @module_e attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.negate %arg0 : tensor<3xf32>
        return %0 : tensor<3xf32>
      }
    }
    """
    converted = module_from_hlo(module, result_info, in_shardy=in_shardy)
    return module_to_text(converted, debug_info=debug_info)
