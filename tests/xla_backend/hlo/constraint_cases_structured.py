"""Broken contractions, reductions, gathers, linear algebra: rows of test_constraints.py."""

DOT = "dot(), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BATCH_DOT = (
    "dot(), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
    "rhs_contracting_dims={1}"
)
RAGGED = (
    "ragged-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
    "rhs_group_dims={0}"
)
RAGGED_OPERANDS = "f32[11,5]; f32[3,5,7]; s32[3]"
SCALED = "scaled-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
CONV = "convolution(), window={size=3}, dim_labels=b0f_0io->b0f"
CONV_OPERANDS = "f32[2,9,4]; f32[3,4,8]"
REDUCE = "reduce(), dimensions={1}, to_apply=add"
WINDOW = "reduce-window(), window={size=2}, to_apply=add"
SELECT = "select-and-scatter(), window={size=2 stride=2}, select=ge, scatter=add"
SCAN = "scan(), dimensions={0}, num_carries=1, to_apply=step"
GATHER = (
    "gather(), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,6}"
)
BATCHED_GATHER = (
    "gather(), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
    "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
    "slice_sizes={1,1}"
)
SCATTER = (
    "scatter(), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"
)
SCATTER_OPERANDS = "f32[5,6]; s32[3,1]; f32[3,6]"
BATCHED_SCATTER = (
    "scatter(), update_window_dims={}, inserted_window_dims={1}, "
    "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
    "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add"
)
FFT = "fft(), fft_type=RFFT, fft_length={8}"
NORM = "batch-norm-training(), epsilon=0.1, feature_index=1"
PHILOX = "rng-bit-generator(), algorithm=rng_philox"

CASES = [
    # -- contractions
    (
        "dot_c1",
        "f32[2,3]; f32[3]",
        f"{DOT}, lhs_batch_dims={{0}}",
        "f32[2]",
        "as many lhs as rhs batch",
    ),
    (
        "dot_c2",
        "f32[2,3]; f32[3]",
        DOT.replace("rhs_contracting_dims={0}", "rhs_contracting_dims={}"),
        "f32[2]",
        "as many lhs as rhs contr",
    ),
    (
        "dot_c3",
        "f32[2,2]; f32[2,2]",
        f"{DOT}, lhs_batch_dims={{1}}, rhs_batch_dims={{1}}",
        "f32[2,2]",
        "lhs dimensions .* twice",
    ),
    (
        "dot_c4",
        "f32[2,2]; f32[2,2]",
        f"{DOT}, lhs_batch_dims={{0}}, rhs_batch_dims={{0}}",
        "f32[2,2]",
        "rhs dimensions .* twice",
    ),
    (
        "dot_c5",
        "f32[2,2]; f32[2,2]",
        f"{DOT}, lhs_batch_dims={{2}}, rhs_batch_dims={{1}}",
        "f32[2,2]",
        "lhs dimensions 2 is out",
    ),
    ("dot_c6", "f32[2]; f32[2,2]", DOT, "f32[2]", "lhs dimensions 1 is out"),
    (
        "dot_c7",
        "f32[2,2]; f32[2,2]",
        f"{DOT}, lhs_batch_dims={{0}}, rhs_batch_dims={{2}}",
        "f32[2,2]",
        "rhs dimensions 2 is out",
    ),
    ("dot_c8", "f32[2,2]; f32[]", DOT, "f32[2]", "rhs dimensions 0 is out"),
    ("dot_c9", "f32[3,2,4]; f32[5,4,2]", BATCH_DOT, "f32[3,2,2]", "batch dimensions 0 and 0"),
    ("dot_c10", "f32[2,3]; f32[4]", DOT, "f32[2]", "sizes 3 and 4"),
    ("dot_c11", "f32[2,3]; f32[3]", f"{DOT}, operand_precision={{high}}", "f32[2]", "names 1 op"),
    ("dot_c12", "f32[2,3]; f32[3]", DOT, "f32[3]", r"its operands give f32\[2\]"),
    ("dot_c13", "f32[2,3]; f32[3]", DOT, "(f32[2])", "must be an array"),
    ("scaled_dot_c1", "s8[2,6]; f32[6,2]; f32[]; f32[]", SCALED, "f32[2,2]", "floating-point, are"),
    ("scaled_dot_c2", "f32[2,6]; f32[6,2]; f32[3]; f32[]", SCALED, "f32[2,2]", "have its rank"),
    (
        "scaled_dot_c3",
        "f32[2,6]; f32[6,2]; f32[2,4]; f32[]",
        SCALED,
        "f32[2,2]",
        "multiple of its 4",
    ),
    ("scaled_dot_c4", "f32[2,6]; f32[6,2]; f32[]; f32[]", SCALED, "s32[2,2]", "must be floating-p"),
    (
        "ragged_dot_c1",
        RAGGED_OPERANDS,
        RAGGED.replace("ragged_dims={0}", "ragged_dims={}"),
        "f32[11,7]",
        "exactly one lhs_ragged",
    ),
    (
        "ragged_dot_c2",
        RAGGED_OPERANDS,
        RAGGED.replace("ragged_dims={0}", "ragged_dims={2}"),
        "f32[11,7]",
        "out of range",
    ),
    (
        "ragged_dot_c3",
        RAGGED_OPERANDS,
        RAGGED.replace("group_dims={0}", "group_dims={}"),
        "f32[11,7]",
        r"must name 1 dimension",
    ),
    ("ragged_dot_c4", "f32[11,5]; f32[3,5,7]; f32[3]", RAGGED, "f32[11,7]", "must be integers"),
    ("ragged_dot_c5", "f32[11,5]; f32[3,5,7]; s32[2,3]", RAGGED, "f32[11,7]", "must be a vector"),
    ("ragged_dot_c6", "f32[11,5]; f32[3,5,7]; s32[4]", RAGGED, "f32[11,7]", "rhs has 3 groups"),
    ("convolution_c1", "f32[2,9,4]; f32[3,4]", CONV, "f32[2,7,8]", "same rank"),
    (
        "convolution_c2",
        CONV_OPERANDS,
        CONV.replace("size=3", "size=3x3"),
        "f32[2,7,8]",
        "window has 2",
    ),
    (
        "convolution_c3",
        CONV_OPERANDS,
        CONV.replace("size=3", "size=3 stride=0"),
        "f32[2,7,8]",
        "stride of window dimension 0",
    ),
    (
        "convolution_c6",
        CONV_OPERANDS,
        CONV.replace("size=3", "size=3 lhs_dilate=0"),
        "f32[2,7,8]",
        "lhs_dilate of window dimension 0",
    ),
    (
        "convolution_c8",
        CONV_OPERANDS,
        CONV.replace("size=3", "size=3 rhs_dilate=0"),
        "f32[2,7,8]",
        "rhs_dilate of window dimension 0",
    ),
    (
        "convolution_c10",
        "f32[2,9,4]; f32[3,4,6]",
        f"{CONV}, batch_group_count=3",
        "f32[2,7,6]",
        "batch 2 must divide",
    ),
    (
        "convolution_c11",
        "f32[2,9,5]; f32[3,2,8]",
        f"{CONV}, feature_group_count=2",
        "f32[2,7,8]",
        "input features 5",
    ),
    (
        "convolution_c13",
        "f32[2,9,4]; f32[3,4,8]",
        "convolution(), window={size=3x3}, dim_labels=b01f_01io->b01f",
        "f32[2,7,8]",
        "each of the 3",
    ),
    ("convolution_c14", "f32[2,9,5]; f32[3,4,8]", CONV, "f32[2,7,8]", "kernel input features 4"),
    (
        "convolution_c15",
        "f32[3,9,4]; f32[3,4,8]",
        f"{CONV}, batch_group_count=3",
        "f32[1,7,8]",
        "by batch_group_count 3",
    ),
    (
        "convolution_c16",
        "f32[2,9,4]; f32[3,1,6]",
        f"{CONV}, feature_group_count=4",
        "f32[2,7,6]",
        "by feature_group_count 4",
    ),
    ("convolution_c17", "f32[2,9,4]; f32[2,4,8]", CONV, "f32[2,7,8]", "differs from the kernel"),
    (
        "convolution_c21",
        CONV_OPERANDS,
        f"{CONV}, feature_group_count=0",
        "f32[2,7,8]",
        "must be positive, are 0, 1",
    ),
    (
        "convolution_c22",
        CONV_OPERANDS,
        f"{CONV}, batch_group_count=0",
        "f32[2,7,8]",
        "must be positive, are 1, 0",
    ),
    (
        "convolution_c23",
        "f32[2,9,4]; f32[3,2,6]",
        f"{CONV}, feature_group_count=2, batch_group_count=2",
        "f32[1,7,6]",
        "must be 1",
    ),
    (
        "convolution_c24",
        CONV_OPERANDS,
        f"{CONV}, operand_precision={{high}}",
        "f32[2,7,8]",
        "names 1 operands",
    ),
    ("convolution_c25", CONV_OPERANDS, CONV, "f32[2,6,8]", r"its operands give f32\[2,7,8\]"),
    ("convolution_c28", CONV_OPERANDS, CONV, "(f32[2,7,8])", "must be an array"),
    # -- reductions and windows
    ("reduce_c1", "f32[4,2]; f32[4,3]; f32[]; f32[]", REDUCE, "f32[4]", "equal dimensions"),
    ("reduce_c2", "f32[4,2]; s32[]", REDUCE, "f32[4]", "differs in type"),
    ("reduce_c3", "f32[4,2]; f32[]; f32[]", REDUCE, "f32[4]", "as many initial"),
    ("reduce_c4", "f32[4]; f32[]", REDUCE, "f32[]", "out of range"),
    ("reduce_c5", "f32[4,2]; f32[]", "reduce(), dimensions={0,0}, to_apply=add", "f32[2]", "twice"),
    ("reduce_c6", "f32[4]; f32[]", "reduce(), dimensions={0}, to_apply=ge", "f32[]", "%ge returns"),
    ("reduce_c9", "f32[4,2]; f32[1]", REDUCE, "f32[4]", "must be a scalar"),
    ("reduce_window_c1", "f32[4]; f32[]; f32[]", WINDOW, "f32[3]", "as many initial"),
    ("reduce_window_c2", "f32[4]; f32[5]; f32[]; f32[]", WINDOW, "f32[3]", "equal dimensions"),
    ("reduce_window_c3", "f32[4]; s32[]", WINDOW, "f32[3]", "differs in type"),
    ("reduce_window_c4", "f32[4,4]; f32[]", WINDOW, "f32[3,3]", "window has 1 dimensions"),
    ("reduce_window_c5", "f32[4]; f32[]", WINDOW.replace("size=2", "size=0"), "f32[0]", "is empty"),
    (
        "reduce_window_c7",
        "f32[4]; f32[]",
        WINDOW.replace("size=2", "size=2 stride=0"),
        "f32[3]",
        "stride of window",
    ),
    (
        "reduce_window_c9",
        "f32[4]; f32[]",
        WINDOW.replace("size=2", "size=2 lhs_dilate=0"),
        "f32[3]",
        "lhs_dilate of",
    ),
    (
        "reduce_window_c11",
        "f32[4]; f32[]",
        WINDOW.replace("size=2", "size=2 rhs_dilate=0"),
        "f32[3]",
        "rhs_dilate of",
    ),
    (
        "reduce_window_c13",
        "f32[4]; f32[]",
        WINDOW.replace("to_apply=add", "to_apply=ge"),
        "f32[3]",
        "%ge returns",
    ),
    ("select_and_scatter_c1", "f32[4]; s32[2]; f32[]", SELECT, "f32[4]", r"must be f32\[2\]"),
    ("select_and_scatter_c2", "f32[4]; f32[3]; f32[]", SELECT, "f32[4]", r"must be f32\[2\]"),
    ("select_and_scatter_c3", "f32[4]; f32[2]; s32[]", SELECT, "f32[4]", r"must be f32\[\]"),
    (
        "select_and_scatter_c9",
        "f32[4]; f32[2]; f32[]",
        SELECT.replace("select=ge", "select=add"),
        "f32[4]",
        "select %add returns",
    ),
    (
        "select_and_scatter_c10",
        "f32[4]; f32[2]; f32[]",
        SELECT.replace("scatter=add", "scatter=ge"),
        "f32[4]",
        "scatter %ge returns",
    ),
    (
        "scan_c1",
        "f32[5]; f32[]",
        SCAN.replace("carries=1", "carries=3"),
        "(f32[5], f32[])",
        "exceeds the operands",
    ),
    ("scan_c2", "f32[5]; f32[]", SCAN.replace("{0}", "{1}"), "(f32[5], f32[])", "out of range"),
    (
        "scan_c3",
        "f32[5]; f32[6]",
        SCAN.replace("carries=1", "carries=0"),
        "(f32[5], f32[])",
        "differ in size",
    ),
    ("scan_c4", "f32[5,2]; f32[]", SCAN, "(f32[5], f32[])", "to_apply %step takes"),
    (
        "scan_c5",
        "f32[]; f32[]",
        SCAN.replace("carries=1", "carries=2").replace("step", "add"),
        "(f32[], f32[])",
        "fewer than the carries",
    ),
    (
        "scan_c6",
        "f32[5]; f32[]",
        SCAN.replace("step", "ge"),
        "(f32[5], f32[])",
        "must be the carries",
    ),
    # -- gather and scatter
    (
        "gather_c1",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("offset_dims={1}", "offset_dims={}"),
        "f32[3,6]",
        "must name 1",
    ),
    (
        "gather_c2",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("vector_dim=1", "vector_dim=3"),
        "f32[3,6]",
        "index_vector_dim 3 is out",
    ),
    ("gather_c3", "f32[5,6]; s32[3,2]", GATHER, "f32[3,6]", "as an index vector"),
    (
        "gather_c4",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("offset_dims={1}", "offset_dims={1,0}").replace(
            "collapsed_slice_dims={0}", "collapsed_slice_dims={}"
        ),
        "f32[1,6,3]",
        "offset_dims=.1,0. must be ascending",
    ),
    (
        "gather_c5",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("offset_dims={1}", "offset_dims={2}"),
        "f32[3,6]",
        "offset_dims 2 is out",
    ),
    (
        "gather_c6",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("collapsed_slice_dims={0}", "collapsed_slice_dims={0,0}"),
        "f32[3,6]",
        "twice",
    ),
    (
        "gather_c7",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("collapsed_slice_dims={0}", "collapsed_slice_dims={1,0}"),
        "f32[3]",
        "collapsed_slice_dims=.1,0. must be asc",
    ),
    (
        "gather_c8",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("collapsed_slice_dims={0}", "collapsed_slice_dims={2}"),
        "f32[3,6]",
        "dims 2 is out of range",
    ),
    (
        "gather_c9",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("{1,6}", "{2,6}"),
        "f32[3,6]",
        "dropped dimension 0 must be 1",
    ),
    (
        "gather_c11",
        "f32[2,6]; s32[2,3,1]",
        BATCHED_GATHER.replace("operand_batching_dims={0}", "operand_batching_dims={2}"),
        "f32[2,3]",
        "dims 2 is out of range",
    ),
    (
        "gather_c12",
        "f32[2,6]; s32[2,3,1]",
        BATCHED_GATHER.replace("{1,1}", "{2,1}"),
        "f32[2,3]",
        "dropped dimension 0 must be 1",
    ),
    (
        "gather_c13",
        "f32[2,2]; s32[2,3,0]",
        BATCHED_GATHER.replace("collapsed_slice_dims={1}", "collapsed_slice_dims={}")
        .replace("index_map={1}", "index_map={}")
        .replace("operand_batching_dims={0}", "operand_batching_dims={0,1}")
        .replace("indices_batching_dims={0}", "indices_batching_dims={0,0}"),
        "f32[2,3]",
        "of the indices .* twice",
    ),
    (
        "gather_c14",
        "f32[2,6]; s32[2,3,1]",
        BATCHED_GATHER.replace("indices_batching_dims={0}", "indices_batching_dims={5}"),
        "f32[2,3]",
        "batching dimensions of the indices 5 is out",
    ),
    (
        "gather_c15",
        "f32[2,6]; s32[1,2]",
        BATCHED_GATHER.replace("vector_dim=2", "vector_dim=0"),
        "f32[2]",
        "index_vector_dim is a batching",
    ),
    (
        "gather_c16",
        "f32[2,6]; s32[2,3,1]",
        BATCHED_GATHER.replace("indices_batching_dims={0}", "indices_batching_dims={}"),
        "f32[2,3]",
        "as many batching",
    ),
    ("gather_c17", "f32[2,6]; s32[4,3,1]", BATCHED_GATHER, "f32[4,3]", "differ in size"),
    (
        "gather_c18",
        "f32[2,6]; s32[2,3,1]",
        BATCHED_GATHER.replace("index_map={1}", "index_map={0}"),
        "f32[2,3]",
        "start_index_map and batching dimensions .* twice",
    ),
    (
        "gather_c19",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("index_map={0}", "index_map={2}"),
        "f32[3,6]",
        "start_index_map and batching dimensions 2 is out",
    ),
    (
        "gather_c20",
        "f32[5,6]; s32[3,1]",
        GATHER.replace("{1,6}", "{1}"),
        "f32[3,6]",
        "needs 2 sizes",
    ),
    ("gather_c21", "f32[5,4]; s32[3,1]", GATHER, "f32[3,6]", "slice size 6"),
    ("gather_c22", "f32[5,6]; s32[3,1]", GATHER, "f32[6,3]", r"its operands give f32\[3,6\]"),
    ("gather_c24", "f32[5,6]; f32[3,1]", GATHER, "f32[3,6]", "indices must be integers"),
    (
        "scatter_c1",
        "f32[5,6]; f32[5,7]; s32[3,1]; f32[3,6]; f32[3,6]",
        SCATTER,
        "f32[5,6]",
        "equal dimensions",
    ),
    (
        "scatter_c2",
        "f32[5,6,7]; s32[3,1]; f32[3,6]",
        SCATTER,
        "f32[5,6,7]",
        "rank 3 must be the sum",
    ),
    ("scatter_c4", "f32[5,6]; s32[3,1]; f32[3,6,1]", SCATTER, "f32[5,6]", "must have rank 2"),
    ("scatter_c5", "f32[5,6]; s32[3,1]", SCATTER, "f32[5,6]", "n updates"),
    ("scatter_c6", "f32[5,6]; s32[3,1]; s32[3,6]", SCATTER, "f32[5,6]", "types differ"),
    (
        "scatter_c7",
        "f32[5,6]; s32[1]; f32[1,6]",
        SCATTER.replace("window_dims={1}", "window_dims={1,0}", 1)
        .replace("inserted_window_dims={0}", "inserted_window_dims={}")
        .replace("vector_dim=1", "vector_dim=0"),
        "f32[5,6]",
        "update_window_dims=.1,0. must be asc",
    ),
    (
        "scatter_c8",
        SCATTER_OPERANDS,
        SCATTER.replace("window_dims={1}", "window_dims={2}", 1),
        "f32[5,6]",
        "update_window_dims 2 is out",
    ),
    (
        "scatter_c9",
        SCATTER_OPERANDS,
        SCATTER.replace("inserted_window_dims={0}", "inserted_window_dims={0,0}"),
        "f32[5,6]",
        "twice",
    ),
    (
        "scatter_c10",
        "f32[5,6]; s32[3,1]; f32[3]",
        SCATTER.replace("inserted_window_dims={0}", "inserted_window_dims={1,0}"),
        "f32[5,6]",
        "inserted_window_dims=.1,0. must be asc",
    ),
    (
        "scatter_c11",
        SCATTER_OPERANDS,
        SCATTER.replace("inserted_window_dims={0}", "inserted_window_dims={2}"),
        "f32[5,6]",
        "2 is out of range",
    ),
    (
        "scatter_c13",
        "f32[2,6]; s32[2,3,1]; f32[2,3]",
        BATCHED_SCATTER.replace("input_batching_dims={0}", "input_batching_dims={2}"),
        "f32[2,6]",
        "2 is out of range",
    ),
    (
        "scatter_c14",
        "f32[2,2]; s32[2,3,0]; f32[2,3]",
        BATCHED_SCATTER.replace("inserted_window_dims={1}", "inserted_window_dims={}")
        .replace("operand_dims={1}", "operand_dims={}")
        .replace("input_batching_dims={0}", "input_batching_dims={0,1}")
        .replace("indices_batching_dims={0}", "indices_batching_dims={0,0}"),
        "f32[2,2]",
        "of the indices .* twice",
    ),
    (
        "scatter_c15",
        "f32[2,6]; s32[2,3,1]; f32[2,3]",
        BATCHED_SCATTER.replace("indices_batching_dims={0}", "indices_batching_dims={5}"),
        "f32[2,6]",
        "of the indices 5 is out",
    ),
    (
        "scatter_c16",
        "f32[2,6]; s32[1,2]; f32[2]",
        BATCHED_SCATTER.replace("vector_dim=2", "vector_dim=0"),
        "f32[2,6]",
        "index_vector_dim is a batching",
    ),
    (
        "scatter_c17",
        "f32[2,6]; s32[2,3,1]; f32[2,3]",
        BATCHED_SCATTER.replace("indices_batching_dims={0}", "indices_batching_dims={}"),
        "f32[2,6]",
        "as many batching",
    ),
    (
        "scatter_c18",
        "f32[2,6]; s32[4,3,1]; f32[4,3]",
        BATCHED_SCATTER,
        "f32[2,6]",
        "differ in size",
    ),
    ("scatter_c19", "f32[5,6]; s32[3,2]; f32[3,6]", SCATTER, "f32[5,6]", "as an index vector"),
    (
        "scatter_c20",
        "f32[2,6]; s32[2,3,1]; f32[2,3]",
        BATCHED_SCATTER.replace("operand_dims={1}", "operand_dims={0}"),
        "f32[2,6]",
        "scatter_dims_to_operand_dims and batching dimensions .* twice",
    ),
    (
        "scatter_c21",
        SCATTER_OPERANDS,
        SCATTER.replace("operand_dims={0}", "operand_dims={2}"),
        "f32[5,6]",
        "batching dimensions 2 is out",
    ),
    (
        "scatter_c22",
        SCATTER_OPERANDS,
        SCATTER.replace("vector_dim=1", "vector_dim=3"),
        "f32[5,6]",
        "index_vector_dim 3 is out",
    ),
    (
        "scatter_c23",
        SCATTER_OPERANDS,
        SCATTER.replace("to_apply=add", "to_apply=ge"),
        "f32[5,6]",
        "to_apply %ge returns",
    ),
    ("scatter_c24", SCATTER_OPERANDS, SCATTER, "f32[3,6]", r"its operands give f32\[5,6\]"),
    (
        "scatter_c25",
        "f32[5,6]; f32[3,1]; f32[3,6]",
        SCATTER,
        "f32[5,6]",
        "indices must be integers",
    ),
    ("scatter_c26", "f32[5,6]; s32[3,1]; f32[3,7]", SCATTER, "f32[5,6]", "exceeds"),
    ("scatter_c27", "f32[5,6]; s32[3,1]; f32[4,6]", SCATTER, "f32[5,6]", "batch sizes"),
    # -- sorting, linear algebra, normalisation, random bits
    ("sort_c1", "", "sort(), dimensions={0}, to_apply=ge", "f32[]", "at least one operand"),
    (
        "sort_c3",
        "f32[5]; f32[6]",
        "sort(), dimensions={0}, to_apply=ge",
        "f32[5]",
        "equal dimensions",
    ),
    ("sort_c4", "f32[5]", "sort(), dimensions={1}, to_apply=ge", "f32[5]", "out of range"),
    ("sort_c5", "f32[5]", "sort(), dimensions={0}, to_apply=add", "f32[5]", "must return pred"),
    ("topk_c1", "f32[]", "topk(), k=1, largest=true", "(f32[], s32[])", "rank >= 1"),
    ("topk_c2", "f32[5]", "topk(), k=6, largest=true", "(f32[6], s32[6])", "exceeds"),
    ("fft_c1", "f32[8]", FFT.replace("{8}", "{8,8}"), "c64[5]", "operand rank 1"),
    ("fft_c2", "f32[8,8,8,8]", FFT.replace("{8}", "{8,8,8,8}"), "c64[5]", "at most 3"),
    ("fft_c3", "c64[8]", FFT, "c64[5]", "takes f32 or f64"),
    ("fft_c4", "f32[9]", FFT, "c64[5]", "last dimensions .8."),
    ("fft_c5", "c64[8]", FFT.replace("RFFT", "IRFFT"), "f32[8]", "last dimensions .5."),
    ("fft_c6", "f32[8]", FFT, "c64[8]", r"its operands give c64\[5\]"),
    ("cholesky_c2", "f32[3]", "cholesky()", "f32[3]", "rank >= 2"),
    ("cholesky_c3", "f32[3,4]", "cholesky()", "f32[3,4]", "must be equal"),
    ("cholesky_c4", "s32[3,3]", "cholesky()", "s32[3,3]", "floating-point or complex"),
    (
        "triangular_solve_c1",
        "f32[3,3]; f64[3,3]",
        "triangular-solve()",
        "f64[3,3]",
        "equal element",
    ),
    ("triangular_solve_c2", "f32[3]; f32[3]", "triangular-solve()", "f32[3]", "rank >= 2"),
    (
        "triangular_solve_c3",
        "f32[3,3]; f32[4,3]",
        "triangular-solve(), left_side=true",
        "f32[4,3]",
        "4 rows",
    ),
    (
        "triangular_solve_c5",
        "f32[3,4]; f32[4,3]",
        "triangular-solve()",
        "f32[4,3]",
        "must be equal",
    ),
    (
        "triangular_solve_c6",
        "s32[3,3]; s32[3,3]",
        "triangular-solve()",
        "s32[3,3]",
        "floating-point or",
    ),
    ("triangular_solve_c7", "f32[2,3,3]; f32[3,3]", "triangular-solve()", "f32[3,3]", "batch dim"),
    (
        "batch_norm_c1",
        "f32[2,4]; f32[4]; f32[4]",
        NORM.replace("x=1", "x=2"),
        "(f32[2,4], f32[4], f32[4])",
        "out of range",
    ),
    (
        "batch_norm_c2",
        "s32[2,4]; s32[4]; s32[4]",
        NORM,
        "(s32[2,4], s32[4], s32[4])",
        "must be floating",
    ),
    (
        "batch_norm_c3",
        "f32[2,4]; f32[2]; f32[4]",
        NORM,
        "(f32[2,4], f32[4], f32[4])",
        "per-feature",
    ),
    (
        "batch_norm_grad_c3",
        "f32[2,4]; f32[4]; f32[4]; f32[4]; f32[2,5]",
        NORM.replace("training", "grad"),
        "(f32[2,4], f32[4], f32[4])",
        "the gradient must be",
    ),
    ("rng_c1", "f32[2]; f32[]", "rng(), distribution=rng_uniform", "f32[5]", "must be scalars"),
    ("rng_c2", "f32[]; f64[]", "rng(), distribution=rng_uniform", "f32[5]", "must be f32"),
    ("rng_bit_generator_c1", "f32[2]", PHILOX, "(f32[2], u32[5])", "vector of u32 or u64"),
    ("rng_bit_generator_c2", "u64[2]", PHILOX, "u32[5]", "bits"),
    ("rng_bit_generator_c3", "u64[2]", PHILOX, "(u64[2], f32[5])", "must be integers"),
    ("rng_get_and_update_state_c1", "", "rng-get-and-update-state(), delta=1", "u32[2]", "two u64"),
]
