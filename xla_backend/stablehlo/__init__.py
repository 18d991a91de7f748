"""StableHLO: the textual dialect, both ways, and its conversion to and from HLO."""

from xla_backend.stablehlo.from_hlo import module_from_hlo as hlo_to_stablehlo
from xla_backend.stablehlo.library import module_to_stablehlo as module_to_stablehlo
from xla_backend.stablehlo.library import parse_stablehlo as parse_stablehlo
