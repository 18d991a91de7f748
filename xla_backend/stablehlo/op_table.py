"""The operations: their pretty syntax and their inherent attributes, one table.

A pretty form is a string of directives, read by format_reader and printer alike:

    %  %*            one operand; the remaining operands, separated by commas
    $name:kind       an attribute: ints, i64, i32, bool, string, enum[.kind], precision, symbol
    ?$name:kind      the same with ", " (or ", word = ") before it, if present
    {}               attributes not mentioned elsewhere, if any
    :fn              type "(operands) -> results"
    :same            one type if operands and results have the same, else like :fn
    :result          the type of the result
    :operands        the types of the operands, if any
    :arrow           types of the operands -> types of the results, without parentheses
    other words      stand for themselves

Operations without a form here have their own functions (special_forms.py) or are written in the
generic form: "dialect.name"(operands) <{inherent}> ({regions}) {others} : type.
"""

from __future__ import annotations

_SAME_UNARY = (
    "abs cbrt ceil convert cosine count_leading_zeros exponential exponential_minus_one floor imag "
    "is_finite log log_plus_one logistic negate not popcnt real round_nearest_afz "
    "round_nearest_even rsqrt sign sine sqrt tan tanh"
)
_SAME_BINARY = (
    "add and atan2 divide maximum minimum multiply or power remainder shift_left "
    "shift_right_arithmetic shift_right_logical subtract xor"
)
_CHLO_UNARY = (
    "_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e conj digamma erf erf_inv erfc "
    "cosh is_inf is_neg_inf is_pos_inf lgamma sinh square tan"
)
_CHLO_BINARY = "mulhi next_after polygamma zeta"
_CHLO_BROADCAST = (
    "add and atan2 compare complex divide maximum minimum multiply next_after or polygamma power "
    "remainder shift_left shift_right_arithmetic shift_right_logical subtract xor zeta"
)
_ACCURATE = (
    "cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan "
    "tanh"
)

FORMATS: dict[str, str] = {
    **{f"stablehlo.{n}": "% {} :same" for n in _SAME_UNARY.split()},
    **{f"stablehlo.{n}": "% , % {} :same" for n in _SAME_BINARY.split()},
    **{f"chlo.{n}": "% {} :arrow" for n in _CHLO_UNARY.split()},
    **{f"chlo.{n}": "% , % {} :arrow" for n in _CHLO_BINARY.split()},
    **{f"chlo.broadcast_{n}": "% , % {} :fn" for n in _CHLO_BROADCAST.split()},
    "chlo.broadcast_select": "% , % , % {} :fn",
    "chlo.top_k": "( % , k = $k:i64 ) {} :arrow",
    "stablehlo.after_all": "%* {} :same",
    "stablehlo.bitcast_convert": "% {} :fn",
    "stablehlo.broadcast": "% , sizes = $broadcast_sizes:ints {} :fn",
    "stablehlo.broadcast_in_dim": "% , dims = $broadcast_dimensions:ints {} :fn",
    "stablehlo.cholesky": "% ?lower=$lower:bool {} :same",
    "stablehlo.clamp": "% , % , % {} :same",
    "stablehlo.compare": (
        "$comparison_direction:enum , % , % ?$compare_type:enum.comparison_type {} :fn"
    ),
    "stablehlo.concatenate": "%* , dim = $dimension:i64 {} :fn",
    "stablehlo.create_token": "{} :result",
    "stablehlo.dot": "% , % ?precision=$precision_config:precision {} :fn",
    "stablehlo.dynamic_broadcast_in_dim": "% , % , dims = $broadcast_dimensions:ints {} :fn",
    "stablehlo.dynamic_iota": "% , dim = $iota_dimension:i64 {} :fn",
    "stablehlo.dynamic_pad": "% , % , % , % , % {} :fn",
    "stablehlo.dynamic_reshape": "% , % {} :fn",
    "stablehlo.dynamic_slice": "%* , sizes = $slice_sizes:ints {} :fn",
    "stablehlo.dynamic_update_slice": "%* {} :fn",
    "stablehlo.einsum": "% , % , config = $einsum_config:string {} :fn",
    "stablehlo.fft": "% , type = $fft_type:enum , length = $fft_length:ints {} :fn",
    "stablehlo.get_dimension_size": "% , dim = $dimension:i64 {} :fn",
    "stablehlo.iota": "dim = $iota_dimension:i64 {} :result",
    "stablehlo.optimization_barrier": "{} %* :barrier",
    "stablehlo.pad": (
        "% , % , low = $edge_padding_low:ints , high = $edge_padding_high:ints , "
        "interior = $interior_padding:ints {} :fn"
    ),
    "stablehlo.partition_id": "{} :result",
    "stablehlo.real_dynamic_slice": "% , % , % , % {} :fn",
    "stablehlo.replica_id": "{} :result",
    "stablehlo.reshape": "% {} :fn",
    "stablehlo.return": "%* {} :operands",
    "stablehlo.reverse": "% , dims = $dimensions:ints {} :same",
    "stablehlo.rng": "% , % , % , distribution = $rng_distribution:enum {} :fn",
    "stablehlo.rng_bit_generator": "% , algorithm = $rng_algorithm:enum {} :fn",
    "stablehlo.set_dimension_size": "% , % , dim = $dimension:i64 {} :fn",
    "stablehlo.transpose": "% , dims = $permutation:ints {} :fn",
    "stablehlo.uniform_dequantize": "% {} :fn",
    "stablehlo.uniform_quantize": "% {} :fn",
    "stablehlo.unary_einsum": "% , config = $einsum_config:string {} :fn",
    "func.return": "{} %* :operands",
    "func.call": "$callee:symbol ( %* ) {} :fn",
    "sdy.return": "{} %* :operands",
    "check.expect_eq": "% , % {} :operands",
    "check.expect_almost_eq": "% , % {} :operands",
    "check.expect_eq_const": "% , $value:dense {} :operands",
    "check.expect_almost_eq_const": "% , $value:dense {} :operands",
    "check.expect_close": (
        "% , % ?max_ulp_difference=$max_ulp_difference:i64 "
        "?min_ulp_difference=$min_ulp_difference:i64 {} :operands"
    ),
}

# Inherent attributes the formats do not name.
_COLLECTIVE = "replica_groups channel_handle use_global_device_ids"
_FURTHER: dict[str, str] = {
    "all_gather": f"all_gather_dim {_COLLECTIVE}",
    "all_reduce": _COLLECTIVE,
    "all_to_all": "split_dimension concat_dimension split_count replica_groups channel_handle",
    "batch_norm_grad batch_norm_inference batch_norm_training": "epsilon feature_index",
    "collective_broadcast": "replica_groups channel_handle",
    "collective_permute": "source_target_pairs channel_handle",
    "composite": "name composite_attributes decomposition version composite_regions",
    "constant": "value",
    "convolution dynamic_conv": (
        "window_strides padding lhs_dilation rhs_dilation window_reversal dimension_numbers "
        "feature_group_count batch_group_count precision_config"
    ),
    "cross-replica-sum": "replica_groups",
    "custom_call": (
        "call_target_name has_side_effect backend_config api_version called_computations "
        "operand_layouts result_layouts output_operand_aliases"
    ),
    "dot_general": "dot_dimension_numbers precision_config algorithm",
    "dynamic_broadcast_in_dim": "known_expanding_dimensions known_nonexpanding_dimensions",
    "dynamic_gather gather": "dimension_numbers slice_sizes indices_are_sorted",
    "get_tuple_element": "index",
    "infeed": "infeed_config layout",
    "map reduce": "dimensions",
    "outfeed": "outfeed_config",
    "recv send": "channel_handle is_host_transfer source_target_pairs",
    "reduce_precision": "exponent_bits mantissa_bits",
    "reduce_scatter": f"scatter_dimension {_COLLECTIVE}",
    "reduce_window": "window_dimensions window_strides base_dilations window_dilations padding",
    "scatter": "scatter_dimension_numbers indices_are_sorted unique_indices",
    "select_and_scatter": "window_dimensions window_strides padding",
    "slice": "start_indices limit_indices strides",
    "sort": "dimension is_stable",
    "torch_index_select": "dim batch_dims",
    "triangular_solve": "left_side lower unit_diagonal transpose_a",
}
_CHLO_FURTHER: dict[str, str] = {
    "broadcast_compare": "broadcast_dimensions comparison_direction compare_type",
    "constant constant_like": "value",
    "ragged_dot": "ragged_dot_dimension_numbers precision_config",
    "scan": "dimension is_reverse is_associative",
    "top_k": "largest",
}


def _named(form: str) -> set[str]:
    return {word.split("$")[1].split(":")[0] for word in form.split() if "$" in word}


def _inherent() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {name: _named(form) for name, form in FORMATS.items()}
    for dialect, further in (("stablehlo", _FURTHER), ("chlo", _CHLO_FURTHER)):
        for names, attributes in further.items():
            for name in names.split():
                table.setdefault(f"{dialect}.{name}", set()).update(attributes.split())
    for name in _ACCURATE.split():
        table[f"stablehlo.{name}"].add("result_accuracy")
    for name in _CHLO_BROADCAST.split():
        table[f"chlo.broadcast_{name}"].add("broadcast_dimensions")
    for name in (
        "stablehlo.async_done stablehlo.async_start stablehlo.case stablehlo.complex stablehlo.if "
        "stablehlo.select stablehlo.tuple stablehlo.while func.func sdy.mesh "
        "sdy.manual_computation sdy.propagation_barrier sdy.reshard sdy.sharding_constraint "
        "sdy.sharding_group"
    ).split():
        table.setdefault(name, set())
    return {name: frozenset(attributes) for name, attributes in table.items()}


INHERENT: dict[str, frozenset[str]] = _inherent()
COMMUTATIVE = frozenset(
    f"stablehlo.{n}" for n in ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
)

# Results with names of their own; the others are %0, %1, ...
RESULT_NAMES: dict[str, tuple[str, ...]] = {
    "stablehlo.batch_norm_grad": ("grad_operand", "grad_scale", "grad_offset"),
    "stablehlo.batch_norm_training": ("output", "batch_mean", "batch_var"),
    "stablehlo.rng_bit_generator": ("output_state", "output"),
    "chlo.top_k": ("values", "indices"),
}
