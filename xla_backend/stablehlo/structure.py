"""What every operation of the dialect must have: operands, regions, attributes and their kinds.

Checked where text is read, so that conversion and printing need not ask again.
"""

from __future__ import annotations

from functools import cache

from xla_backend.stablehlo.attributes import (
    ArrayAttribute,
    DenseAttribute,
    DialectAttribute,
    EnumAttribute,
    FloatAttribute,
    IntegerAttribute,
    SymbolAttribute,
    UnitAttribute,
)
from xla_backend.stablehlo.format_directives import directives
from xla_backend.stablehlo.ir import Operation
from xla_backend.stablehlo.op_table import FORMATS, INHERENT
from xla_backend.stablehlo.types import FunctionType

# Kinds of attributes by name: a word for messages and the classes allowed.
_INTS = ("integers: array<i64: ...>", (ArrayAttribute, DenseAttribute))
_INT = ("an integer", (IntegerAttribute,))
_FLOAT = ("a float", (FloatAttribute,))
_BOOL = ("true or false", (bool, UnitAttribute))
_STRING = ("a string", (str,))
_ENUM = ("a word of the dialect: #stablehlo<...>", (EnumAttribute,))
_STRUCT = ("a structure of the dialect: #stablehlo...<...>", (DialectAttribute,))
_DENSE = ("dense<...>", (DenseAttribute,))
_LIST = ("a list", (tuple,))
_SYMBOL = ("a symbol: @name", (SymbolAttribute,))

_KINDS = {
    _INTS: (
        "base_dilations broadcast_dimensions broadcast_sizes dimensions edge_padding_high "
        "edge_padding_low fft_length interior_padding lhs_dilation limit_indices permutation "
        "rhs_dilation slice_sizes start_indices strides window_dilations window_dimensions "
        "window_reversal window_strides"
    ),
    _INT: (
        "all_gather_dim api_version batch_dims batch_group_count concat_dimension dim dimension "
        "exponent_bits feature_group_count feature_index index iota_dimension k mantissa_bits "
        "scatter_dimension split_count split_dimension version"
    ),
    _FLOAT: "epsilon",
    _BOOL: (
        "has_side_effect indices_are_sorted is_host_transfer is_stable left_side lower "
        "unique_indices unit_diagonal use_global_device_ids"
    ),
    _STRING: "call_target_name einsum_config infeed_config name outfeed_config",
    _ENUM: (
        "compare_type comparison_direction fft_type rng_algorithm rng_distribution transpose_a"
    ),
    _STRUCT: (
        "algorithm channel_handle dimension_numbers dot_dimension_numbers "
        "ragged_dot_dimension_numbers result_accuracy scatter_dimension_numbers"
    ),
    _DENSE: "padding replica_groups source_target_pairs",
    _LIST: (
        "called_computations operand_layouts output_operand_aliases precision_config result_layouts"
    ),
    _SYMBOL: "callee decomposition",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}

# Required attributes of operations without a format that tells.
_REQUIRED = {
    "all_gather": "all_gather_dim",
    "all_to_all": "split_dimension concat_dimension split_count",
    "batch_norm_grad": "epsilon feature_index",
    "batch_norm_inference": "epsilon feature_index",
    "batch_norm_training": "epsilon feature_index",
    "collective_permute": "source_target_pairs",
    "composite": "name",
    "constant": "value",
    "convolution": "dimension_numbers",
    "custom_call": "call_target_name",
    "dot_general": "dot_dimension_numbers",
    "dynamic_conv": "dimension_numbers",
    "dynamic_gather": "dimension_numbers",
    "gather": "dimension_numbers slice_sizes",
    "get_tuple_element": "index",
    "map": "dimensions",
    "reduce": "dimensions",
    "reduce_precision": "exponent_bits mantissa_bits",
    "reduce_scatter": "scatter_dimension",
    "reduce_window": "window_dimensions",
    "scatter": "scatter_dimension_numbers",
    "slice": "start_indices limit_indices strides",
    "torch_index_select": "dim batch_dims",
}
_OPERANDS = {
    "batch_norm_grad": 5,
    "batch_norm_inference": 5,
    "batch_norm_training": 3,
    "case": 1,
    "collective_permute": 1,
    "complex": 2,
    "constant": 0,
    "convolution": 2,
    "dot_general": 2,
    "dynamic_conv": 3,
    "dynamic_gather": 3,
    "gather": 2,
    "get_tuple_element": 1,
    "if": 1,
    "infeed": 1,
    "recv": 1,
    "reduce_precision": 1,
    "select": 3,
    "select_and_scatter": 3,
    "slice": 1,
    "torch_index_select": 2,
    "triangular_solve": 2,
}
_REGIONS = {
    "all_reduce": 1,
    "async_start": 1,
    "if": 2,
    "map": 1,
    "reduce": 1,
    "reduce_scatter": 1,
    "reduce_window": 1,
    "scatter": 1,
    "select_and_scatter": 2,
    "sort": 1,
    "while": 2,
}
_NO_SINGLE_RESULT = (
    "all_gather all_reduce all_to_all async_done batch_norm_grad batch_norm_training case "
    "composite custom_call if infeed optimization_barrier recv reduce reduce_window return "
    "rng_bit_generator scatter sort while"
).split()


@cache
def _requirements(name: str) -> tuple[tuple[str, ...], int | None]:
    """Required attributes, and the number of operands (None: any)."""
    short = name.partition(".")[2]
    required = list(_REQUIRED.get(short, "").split()) if name.startswith("stablehlo.") else []
    count = _OPERANDS.get(short) if name.startswith("stablehlo.") else None
    form = FORMATS.get(name)
    if form is not None:
        parts = directives(form)
        required += [d.text for d in parts if d.what == "attribute" and not d.optional]
        if not any(d.what == "operands" for d in parts):
            count = sum(d.what == "operand" for d in parts)
    return tuple(required), count


def _function_error(op: Operation) -> str | None:
    if not isinstance(op.attributes.get("sym_name"), str):
        return "a function needs a name: sym_name"
    type_ = op.attributes.get("function_type")
    if not isinstance(type_, FunctionType):
        return "a function needs a type: function_type = (...) -> (...)"
    blocks = op.regions[0].blocks if op.regions else []
    if blocks and tuple(a.type for a in blocks[0].arguments) != type_.inputs:
        return f"the arguments of the function's body do not have the types of {type_}"
    for name, count in (("arg_attrs", len(type_.inputs)), ("res_attrs", len(type_.results))):
        values = op.attributes.get(name, ({},) * count)
        if not isinstance(values, tuple) or [type(v) for v in values] != [dict] * count:
            return f"'{name}' of a function is a list of {count} dictionaries"
    return None


def structure_error(op: Operation) -> str | None:
    """What an operation of StableHLO or CHLO lacks or has wrong; None if nothing."""
    if op.name == "func.func":
        return _function_error(op)
    dialect, _, short = op.name.partition(".")
    inherent = INHERENT.get(op.name)
    if dialect not in ("stablehlo", "chlo", "func") or inherent is None:
        return None
    required, count = _requirements(op.name)
    if count is not None and len(op.operands) != count:
        return f"{op.name} takes {count} operands, got {len(op.operands)}"
    for name in required:
        if name not in op.attributes:
            return f"{op.name} needs the attribute '{name}'"
    for name, value in op.attributes.items():
        kind = _KIND_OF.get(name)
        if kind is not None and name in inherent and not isinstance(value, kind[1]):
            return f"'{name}' of {op.name} is {kind[0]}"
    if dialect != "stablehlo":
        return None
    regions = _REGIONS.get(short, len(op.regions) if short == "case" else 0)
    if len(op.regions) != regions:
        return f"{op.name} has {regions} regions, got {len(op.regions)}"
    for region in op.regions:
        if len(region.blocks) != 1 or not region.blocks[0].operations:
            return f"a region of {op.name} is one block that ends with stablehlo.return"
    if short not in _NO_SINGLE_RESULT and len(op.results) != 1:
        return f"{op.name} has one result, got {len(op.results)}"
    return None
