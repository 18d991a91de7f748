"""How types say that arrays are split along axes of type Explicit, and what operations refuse. The
mesh has no devices: nothing runs. JAX gives the same types, and refuses the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import P, jit, lax
from pyjax.errors import ShardingTypeError
from pyjax.sharding import AbstractMesh, AxisType, NamedSharding, use_abstract_mesh

MESH = AbstractMesh((2, 4), ("x", "y"), (AxisType.Explicit,) * 2)
reshard = pyjax.sharding.reshard


def array(*shape: int, spec: P = P(), dtype: str = "float32") -> Any:
    return pyjax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, spec))


X = array(8, 8, spec=P("x", "y"))
WHOLE = array(8, 8)
ROWS = array(8, 8, spec=P("x"))
COLUMNS = array(8, 8, spec=P(None, "y"))
BOTH = array(8, 8, spec=P(("x", "y")))
IMAGES = array(8, 4, 8, 8, spec=P("x"))
FILTERS = array(6, 4, 3, 3)
TWO = np.array([1, 2])
SUMS = P(None, None, unreduced={"y"})
U = array(8, 8, spec=SUMS)
NUMBERS = array(8, spec=P("x"), dtype="int32")

Case = tuple[Callable[..., Any], tuple[Any, ...], str]

TYPES: dict[str, Case] = {
    "add": (jnp.add, (X, X), "float32[8@x,8@y]"),
    "add a whole one": (jnp.add, (X, WHOLE), "float32[8@x,8@y]"),
    "rows and columns": (jnp.add, (ROWS, COLUMNS), "float32[8@x,8@y]"),
    "a number": (lambda x: 2 * x + 1, (X,), "float32[8@x,8@y]"),
    "a row": (jnp.add, (X, array(8, spec=P("y"))), "float32[8@x,8@y]"),
    "stretched": (jnp.add, (ROWS, array(8, 1, spec=P("x"))), "float32[8@x,8]"),
    "two axes": (jnp.sin, (BOTH,), "float32[8@(x,y),8]"),
    "transpose": (jnp.transpose, (X,), "float32[8@y,8@x]"),
    "new axis": (lambda x: x[:, None], (X,), "float32[8@x,1,8@y]"),
    "squeeze": (lambda x: x.reshape(8, 1, 8)[:, 0], (X,), "float32[8@x,8@y]"),
    "broadcast_to": (lambda x: jnp.broadcast_to(x, (3, 8, 8)), (X,), "float32[3,8@x,8@y]"),
    "merge": (lambda x: x.reshape(64), (X,), "float32[64@(x,y)]"),
    "cut": (lambda x: x.reshape(2, 4, 8), (X,), "float32[2@x,4,8@y]"),
    "cut by two axes": (lambda x: x.reshape(2, 4, 8), (BOTH,), "float32[2@x,4@y,8]"),
    "reshape as told": (
        lambda x: jnp.reshape(x, (64,), out_sharding=P("x")), (X,), "float32[64@x]"
    ),
    "sum": (lambda x: x.sum(0), (X,), "float32[8@y]"),
    "sum of all": (jnp.sum, (X,), "float32[]"),
    "argmax": (lambda x: x.argmax(1), (X,), "int32[8@x]"),
    "mean, variance": (lambda x: x.mean(1) / x.var(1), (X,), "float32[8@x]"),
    "softmax": (pyjax.nn.softmax, (X,), "float32[8@x,8@y]"),
    "logsumexp": (lambda x: pyjax.nn.logsumexp(x, 1), (X,), "float32[8@x]"),
    "where": (lambda x: jnp.where(x > 0, x, 0.0), (X,), "float32[8@x,8@y]"),
    "tril": (jnp.tril, (X,), "float32[8@x,8@y]"),
    "sort": (lambda x: jnp.sort(x, 1), (ROWS,), "float32[8@x,8]"),
    "argsort": (lambda x: jnp.argsort(x, 1), (ROWS,), "int32[8@x,8]"),
    "median": (lambda x: jnp.median(x, 1), (ROWS,), "float32[8@x]"),
    "top_k": (lambda x: lax.top_k(x, 2), (ROWS,), "float32[8@x,2] int32[8@x,2]"),
    "cumsum": (lambda x: jnp.cumsum(x, 1), (ROWS,), "float32[8@x,8]"),
    "concatenate": (lambda x: jnp.concatenate([x, x]), (X,), "float32[16@x,8@y]"),
    "stack": (lambda x: jnp.stack([x, x], 1), (X,), "float32[8@x,2,8@y]"),
    "split": (lambda x: jnp.split(x, 2), (X,), "float32[4@x,8@y] float32[4@x,8@y]"),
    "pad": (lambda x: jnp.pad(x, ((1, 1), (0, 0))), (X,), "float32[10@x,8@y]"),
    "flip": (jnp.flip, (X,), "float32[8@x,8@y]"),
    "dot": (jnp.dot, (X, WHOLE), "float32[8@x,8]"),
    "both free dimensions": (jnp.dot, (ROWS, COLUMNS), "float32[8@x,8@y]"),
    "batched": (lambda x: jnp.einsum("bi,bj->bij", x, x), (ROWS,), "float32[8@x,8,8]"),
    "dot as told": (
        lambda x: jnp.dot(x, x.T, out_sharding=P("x")), (X,), "float32[8@x,8]"
    ),
    "matmul as told": (
        lambda x: jnp.matmul(x, x, out_sharding=P("x", "y")), (X,), "float32[8@x,8@y]"
    ),
    "einsum as told": (
        lambda x: jnp.einsum("ij,kj->ik", x, x, out_sharding=P(None, "x")), (X,),
        "float32[8,8@x]",
    ),
    "conv": (
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"), (IMAGES, FILTERS), "float32[8@x,6,8,8]"
    ),
    "conv as told": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", out_sharding=P(None, "x")),
        (IMAGES, FILTERS), "float32[8,6@x,8,8]",
    ),
    "cholesky of a batch": (
        jnp.linalg.cholesky, (array(8, 3, 3, spec=P("x")),), "float32[8@x,3,3]"
    ),
    "fft": (jnp.fft.fft, (ROWS,), "complex64[8@x,8]"),
    "rows of a whole one": (lambda x: x[TWO], (COLUMNS,), "float32[2,8@y]"),
    "at.get": (
        lambda x: x.at[TWO].get(out_sharding=P(None, "y")), (X,), "float32[2,8@y]"
    ),
    "at.set": (
        lambda x: x.at[0].set(1.0, out_sharding=P("x", "y")), (X,), "float32[8@x,8@y]"
    ),
    "a pick in each row": (
        pyjax.vmap(lambda row, i: row[i]), (ROWS, NUMBERS), "float32[8@x]"
    ),
    "one_hot": (lambda i: pyjax.nn.one_hot(i, 5), (NUMBERS,), "float32[8@x,5]"),
    "zeros_like": (jnp.zeros_like, (X,), "float32[8@x,8@y]"),
    "iota": (
        lambda: lax.broadcasted_iota("int32", (8, 2), 0, out_sharding=P("x")), (), "int32[8@x,2]"
    ),
    "zeros": (lambda: jnp.zeros((8, 2), out_sharding=P("x")), (), "float32[8@x,2]"),
    "random": (
        lambda: pyjax.random.normal(pyjax.random.key(0), (8, 2), out_sharding=P("x")), (),
        "float32[8@x,2]",
    ),
    "reshard": (lambda x: reshard(x, P(None, "x")), (X,), "float32[8,8@x]"),
    "auto_axes": (
        pyjax.sharding.auto_axes(jnp.matmul, out_sharding=P("y")), (X, X), "float32[8@y,8]"
    ),
    "grad of auto_axes": (
        pyjax.grad(
            lambda x: pyjax.sharding.auto_axes(jnp.matmul, out_sharding=P("x"))(x, x).sum()
        ),
        (X,), "float32[8@x,8@y]",
    ),
    "vmap of at.get": (
        pyjax.vmap(lambda row: row.at[TWO].get(out_sharding=P())), (X,), "float32[8@x,2]"
    ),
    "vmap of what is not mapped": (
        pyjax.vmap(lambda row, w: w, (0, None)), (X, array(3)), "float32[8@x,3]"
    ),
    "vmap of shard_map": (
        pyjax.vmap(pyjax.shard_map(lambda b: lax.psum(b, "y"), out_specs=P())), (X,),
        "float32[8@x,2]",
    ),
    "a sum to be made": (
        lambda x, w: jnp.dot(x, w, out_sharding=SUMS), (COLUMNS, array(8, 8, spec=P("y"))),
        "float32[8,8]{U:y}",
    ),
    "sums of sums": (
        lambda u: jnp.concatenate([u + u, u.T]).astype("bfloat16"), (U,), "bfloat16[16,8]{U:y}"
    ),
    "sum of a sum": (lambda u: u.sum(0), (U,), "float32[8]{U:y}"),
    "sum over what is split": (
        lambda x: lax.reduce_sum(x, (1,), out_sharding=P(None, unreduced={"y"})), (COLUMNS,),
        "float32[8]{U:y}",
    ),
    "sum that is made": (lambda u: reshard(u, P("y")), (U,), "float32[8@y,8]"),
    "sum that is split": (
        lambda u: reshard(u, P("x", unreduced={"y"})), (U,), "float32[8@x,8]{U:y}"
    ),
    "times a reduced one": (lambda u, r: u * r, (U, array(8, 8, spec=P(reduced={"y"}))),
                            "float32[8,8]{U:y}"),
    "reduced": (lambda r: jnp.sin(r * 2).T, (array(8, 8, spec=P(reduced={"x"})),),
                "float32[8,8]{R:x}"),
    "grad of a reduced one": (
        pyjax.grad(lambda w, x: (x @ jnp.sin(w)).sum()), (array(8, 8, spec=P(reduced={"x"})), ROWS),
        "float32[8,8]{U:x}",
    ),
    "grad of one that is gathered": (
        pyjax.grad(lambda w, x: (x @ reshard(w, P(None, None, reduced={"x"}))).sum()), (ROWS, ROWS),
        "float32[8@x,8]",
    ),
    "vmap of a sum to be made": (
        pyjax.vmap(lambda x, w: jnp.dot(x, w, out_sharding=SUMS)),
        (array(2, 8, 8, spec=P(None, None, "y")), array(2, 8, 8, spec=P(None, "y"))),
        "float32[2,8,8]{U:y}",
    ),
    "jit": (jit(lambda x: jit(jnp.sin)(x).T), (X,), "float32[8@y,8@x]"),
    "grad": (pyjax.grad(lambda x: (x**2).sum()), (X,), "float32[8@x,8@y]"),
    "grad of a whole one": (
        pyjax.grad(lambda w, x: (x @ w).sum()), (WHOLE, ROWS), "float32[8,8]"
    ),
    "grad of a split one": (
        pyjax.grad(lambda w, x: jnp.tanh(x @ w).sum()), (COLUMNS, ROWS), "float32[8,8@y]"
    ),
    "grad by merging": (
        pyjax.grad(lambda x: (x.reshape(64) ** 2).sum()), (X,), "float32[8@x,8@y]"
    ),
    "grad of filters": (
        pyjax.grad(lambda w, x: (lax.conv(x, w, (1, 1), "SAME") ** 2).sum()), (FILTERS, IMAGES),
        "float32[6,4,3,3]",
    ),
    "grad of a pick": (
        pyjax.grad(lambda x: (x[TWO] ** 2).sum()), (COLUMNS,), "float32[8,8@y]"
    ),
    "jvp": (
        lambda x: pyjax.jvp(jnp.sin, (x,), (x,)), (X,), "float32[8@x,8@y] float32[8@x,8@y]"
    ),
    "hessian": (
        pyjax.hessian(lambda x: (x**3).sum()), (array(8, spec=P("x")),), "float32[8@x,8]"
    ),
    "vmap": (pyjax.vmap(jnp.sin), (X,), "float32[8@x,8@y]"),
    "vmap of what is whole inside": (
        pyjax.vmap(lambda row, w: row @ w, (0, None)), (ROWS, WHOLE), "float32[8@x,8]"
    ),
    "vmap of products as told": (
        pyjax.vmap(lambda m: jnp.dot(m, m.T, out_sharding=P())),
        (array(8, 4, 4, spec=P("x", "y")),), "float32[8@x,4,4]",
    ),
    "vmap of what is made inside": (
        pyjax.vmap(lambda row: jnp.zeros(4) + row[:4]), (ROWS,), "float32[8@x,4]"
    ),
    "scan": (
        lambda x: lax.scan(lambda c, row: (c + row, c * row), jnp.zeros_like(x[0]), x),
        (COLUMNS,), "float32[8@y] float32[8,8@y]",
    ),
    "grad of scan": (
        pyjax.grad(
            lambda w, x: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, 3)[0].sum()
        ),
        (WHOLE, ROWS), "float32[8,8]",
    ),
    "scan under vmap": (
        pyjax.vmap(lambda row: lax.scan(lambda c, e: (c + e, c), 0.0, row)[1]), (ROWS,),
        "float32[8@x,8]",
    ),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, x), (X,), "float32[8@x,8@y]"),
    "cond": (lambda x: lax.cond(True, jnp.sin, jnp.cos, x), (X,), "float32[8@x,8@y]"),
    "checkpoint": (
        pyjax.grad(pyjax.checkpoint(lambda x: jnp.sin(jnp.sin(x)).sum())), (X,),
        "float32[8@x,8@y]",
    ),
    "attention": (
        lambda q: pyjax.nn.dot_product_attention(q, q, q, is_causal=True),
        (array(8, 4, 2, 4, spec=P("x", None, None)),), "float32[8@x,4,2,4]",
    ),
    "shard_map": (
        pyjax.shard_map(lambda x: lax.psum(x, "x"), out_specs=P(None, "y")), (X,),
        "float32[4,8@y]",
    ),
    "shard_map along one axis": (
        pyjax.shard_map(
            lambda x: lax.psum(x, "x") + x, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
        ),
        (X,), "float32[8@x,8@y]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    function, operands, wanted = TYPES[name]
    with use_abstract_mesh(MESH):
        program = pyjax.make_jaxpr(function)(*operands)
        assert " ".join(a.str_short() for a in program.out_avals) == wanted
        described = pyjax.tree.leaves(pyjax.eval_shape(function, *operands))
    for struct, aval in zip(described, program.out_avals):
        assert struct.sharding == (None if aval.split is None else aval.sharding)


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], type[Exception], str]] = {
    "sum and whole": (lambda u: u + 1, (U,), ShardingTypeError, "implicit communication"),
    "product of a sum": (lambda u: u * 2, (U,), ShardingTypeError, "RHS should be reduced along"),
    "sine of a sum": (jnp.sin, (U,), NotImplementedError, "unreduced rule for sin"),
    "dot of a sum": (jnp.dot, (U, WHOLE), ShardingTypeError, "cannot be unreduced"),
    "sum over other axes": (
        lambda x, w: jnp.dot(x, w, out_sharding=P(unreduced={"x"})),
        (COLUMNS, array(8, 8, spec=P("y"))), ShardingTypeError, "equal to the contracting specs",
    ),
    "sum over what is whole": (
        lambda x, w: jnp.dot(x, w, out_sharding=SUMS), (COLUMNS, WHOLE), ShardingTypeError,
        "sharded identically",
    ),
    "reduced and whole": (
        jnp.add, (array(8, 8, spec=P(reduced={"x"})), WHOLE), ShardingTypeError,
        "reduced across the same mesh axes",
    ),
    "sum where nothing is split": (
        lambda x, w: jnp.dot(x, w, out_sharding=SUMS), (WHOLE, WHOLE), ShardingTypeError,
        r"equal to the contracting specs.*unreduced axes=\{'y'\}",
    ),
    "sum over one dimension where nothing is split": (
        lambda x: lax.reduce_sum(x, (1,), out_sharding=P(None, unreduced={"y"})), (WHOLE,),
        ShardingTypeError, "should be in operand's specs that were summed over",
    ),
    "carry that becomes split": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, jnp.zeros((8, 8))), (X,), TypeError,
        r"(?s)so the shardings do not match.*Lay the initial value of .* out as the returned value",
    ),
    "parts of several sizes": (
        lambda x: jnp.reshape(x, (4, 16), out_sharding=P(("x", "y"))), (WHOLE,), ValueError,
        r"array axis 0 is partitioned 8 times, but does not evenly divide the dimension size 4",
    ),
    "frequencies": (
        lambda x: jnp.fft.rfft(x), (X,), ValueError, r"axis 1 is partitioned 4 times.*size 5",
    ),
    "values of an update": (
        lambda x, y: x.at[:].set(y), (ROWS, COLUMNS), ValueError,
        r"(?s)input type=float32\[8,8@y\] and requested type=float32\[8@x,8\].*out_sharding=",
    ),
    "repeat": (
        lambda x: jnp.repeat(x, 2, 0), (ROWS,), ValueError, "pass sharding to `jnp.repeat` via",
    ),
    "diagonal": (jnp.diagonal, (X,), ShardingTypeError, "diagonal: how the result is split"),
    "by columns": (
        lambda x: x.reshape(64, order="F"), (COLUMNS,), ShardingTypeError, "reshape: how the res",
    ),
    "matmul": (
        jnp.matmul, (array(8, 4, 4, spec=P("x")), array(8, 4, 4)), ValueError,
        r"Incompatible types for matmul arguments: float32\[8@x,4,4\] and float32\[8,4,4\]",
    ),
    "ragged_dot": (
        lambda x, w: lax.ragged_dot(x, w, TWO), (ROWS, array(2, 8, 8)), NotImplementedError,
        "Please specify out_sharding",
    ),
    "select": (
        lambda x: lax.select(x > 0, x, jnp.zeros((8, 8))), (X,), ShardingTypeError,
        "select cases must have the same shardings",
    ),
    "what selects": (
        lambda x: lax.select(jnp.zeros((8, 8), bool), x, x), (X,), ShardingTypeError,
        "`which` must be scalar or have the same sharding as cases",
    ),
    "sort of two": (
        lambda x, y: lax.sort((x, y), dimension=1), (ROWS, WHOLE), ShardingTypeError,
        "Arguments to sort must have equal shardings",
    ),
    "approx_max_k": (
        lambda x: lax.approx_max_k(x, 2), (X,), ShardingTypeError, "approx_top_k operand must be",
    ),
    "triangular_solve": (
        lambda x, y: lax.linalg.triangular_solve(x, y), (ROWS, WHOLE), ShardingTypeError,
        "input `a` must be unsharded on the contracting axis",
    ),
    "spmd_axis_name": (
        pyjax.vmap(jnp.sin, spmd_axis_name="y"), (X,), ValueError,
        "Only one of spmd_axis_name or arrays sharded on `Explicit` mesh axis type",
    ),
    "vmap of what is split along the same axis": (
        pyjax.vmap(jnp.add, (0, None)), (ROWS, array(8, spec=P("x"))), ValueError,
        "Unmapped values passed to vmap cannot be sharded along the mesh axis",
    ),
    "scan over sums": (
        lambda u: lax.scan(lambda c, r: (c, None), 0.0, u), (U,), NotImplementedError,
        "xs of scan of type",
    ),
    "add": (
        lambda x: x + x.T, (X,), ShardingTypeError,
        r"add got incompatible shardings for broadcasting: \('x', 'y'\), \('y', 'x'\)",
    ),
    "dot": (
        jnp.dot, (X, X), ShardingTypeError,
        r"contracting dimensions to have consistent sharding, got \('y',\) and \('x',\)",
    ),
    "dot that sums": (
        lambda x: x @ x.T, (X,), ShardingTypeError, "ambiguous how the output should be sharded",
    ),
    "batches": (
        lambda x, y: jnp.einsum("bi,bj->bij", x, y), (ROWS, array(8, 8, spec=P("y"))),
        ShardingTypeError, "lhs batch dimensions and rhs batch dimensions",
    ),
    "outer": (
        lambda x: jnp.outer(x, x), (array(8, spec=P("x")),), ShardingTypeError,
        r"illegally sharded result: f32\[8@x,8@x\]",
    ),
    "reshape": (
        lambda x: x.reshape(8, 2, 4), (X,), ShardingTypeError,
        r"This reshape is not supported.*float32\[8@x,8@y\], new sizes: \(8, 2, 4\)",
    ),
    "index": (lambda x: x[TWO], (X,), ShardingTypeError, r"\.at\[\.\.\.\]\.get\(out_sharding=\)"),
    "take": (
        lambda x: jnp.take(x, TWO, 0), (X,), ShardingTypeError, "could not be resolved",
    ),
    "one row": (lambda x: x[0], (X,), ShardingTypeError, r"out dim \(1\) is not divisible"),
    "set": (
        lambda x: x.at[TWO].set(1.0), (X,), ShardingTypeError, r"set/add/mul/\.\.\.\(out_sharding",
    ),
    "concatenate": (
        lambda x, y: jnp.concatenate([x, y]), (X, WHOLE), ShardingTypeError,
        "All operands should have the same sharding",
    ),
    "where": (
        lambda x, y: jnp.where(x > 0, x, y), (X, WHOLE), ShardingTypeError,
        "select cases must have the same shardings",
    ),
    "sort": (jnp.sort, (X,), ShardingTypeError, "unsharded over the sorting dimension"),
    "cumsum": (
        lambda x: jnp.cumsum(x, 0), (X,), ShardingTypeError, "unsharded over the axis being red",
    ),
    "unstack": (lambda x: jnp.unstack(x), (X,), ShardingTypeError, "cannot be sharded on the unst"),
    "pad": (
        lambda x: jnp.pad(x, 1), (X,), ShardingTypeError, r"out dim \(10\) is not divisible",
    ),
    "tile": (lambda x: lax.tile(x, (2, 1)), (X,), ShardingTypeError, "when the tiling is non-tri"),
    "update": (
        lambda x, y: lax.dynamic_update_slice(x, y, (0, 0)), (X, WHOLE), ShardingTypeError,
        "operand sharding must be equal to update sharding",
    ),
    "conv": (
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
        (array(8, 4, 8, 8, spec=P(None, "x")), FILTERS), ShardingTypeError,
        "specify the output sharding via `out_sharding`",
    ),
    "linear algebra": (
        jnp.linalg.qr, (X,), ShardingTypeError, "Input 0 to qr must be unsharded on non-batch",
    ),
    "scan along what is split": (
        lambda x: lax.scan(lambda c, row: (c, row), 0.0, x), (X,), ValueError,
        "0th dimension of all xs should be replicated",
    ),
    "carry of scan": (
        lambda x: lax.scan(lambda c, row: (c + row, None), jnp.zeros(8), x), (COLUMNS,), TypeError,
        r"carry(?s:.*)float32\[8@y\]",
    ),
    "carry of while": (
        lambda x, y: lax.while_loop(lambda c: c.sum() < 3, lambda c: c + x, y), (X, WHOLE),
        TypeError, r"(?s:.*)float32\[8@x,8@y\]",
    ),
    "branches": (
        lambda x, y: lax.cond(True, lambda: x, lambda: y), (X, WHOLE), TypeError,
        r"(?s:.*)float32\[8@x,8@y\]",
    ),
    "vmap": (
        pyjax.vmap(jnp.add), (X, WHOLE), ValueError, "inconsistent axis specs: x vs None",
    ),
    "in_specs": (
        pyjax.shard_map(lambda x: x, in_specs=P("y"), out_specs=P("y")), (X,), ValueError,
        r"in_specs has P\('y',\)",
    ),
    "constraint": (
        lambda x: lax.with_sharding_constraint(x, P("x", None)), (X,), AssertionError,
        r"P\('x', 'y'\) did not match the sharding provided: P\('x', None\)",
    ),
    "two meshes": (
        jnp.add,
        (X, pyjax.ShapeDtypeStruct((8, 8), "float32", sharding=NamedSharding(
            AbstractMesh((2,), ("z",), (AxisType.Explicit,)), P("z")))),
        ShardingTypeError, "Mesh for all inputs should be equal",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, operands, kind, message = REFUSED[name]
    with use_abstract_mesh(MESH), pytest.raises(kind, match=message):
        pyjax.make_jaxpr(function)(*operands)


def test_the_type_of_a_cotangent() -> None:
    with use_abstract_mesh(MESH), pytest.raises(ValueError, match=r"float32\[8@x,8@y\]"):
        pyjax.make_jaxpr(lambda x, ct: pyjax.vjp(jnp.sin, x)[1](ct))(X, ROWS)


def test_some_axes_are_explicit() -> None:
    auto = AbstractMesh((2, 4), ("x", "y"))
    mixed = AbstractMesh((2, 4), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    seen = []

    def inside(x: Any) -> Any:
        seen.append(pyjax.typeof(x).str_short())
        return jnp.sin(x)

    with use_abstract_mesh(auto):
        f = pyjax.sharding.explicit_axes(inside, in_sharding=P("x"))
        (out,) = pyjax.make_jaxpr(f)(np.ones((8, 8), np.float32)).out_avals
        assert seen == ["float32[8@x,8]"] and out.str_short() == "float32[8,8]"
    x = pyjax.ShapeDtypeStruct((8, 8), "float32", sharding=NamedSharding(mixed, P("x", "y")))
    with use_abstract_mesh(mixed):
        constrained = lambda v: lax.with_sharding_constraint(v, P(None, "y"))
        (out,) = pyjax.make_jaxpr(constrained)(x).out_avals
        assert out.str_short() == "float32[8@x,8]"


def test_types_are_values() -> None:
    import copy
    import pickle

    (aval,) = pyjax.make_jaxpr(jnp.sin)(X).out_avals
    assert str(aval) == "float32[8@x,8@y]" and aval.sharding.spec == P("x", "y")
    assert aval.sharding.mesh is MESH
    assert copy.deepcopy(aval) is aval and pickle.loads(pickle.dumps(aval)) is aval
    assert aval.update(dtype="int32").str_short() == "int32[8@x,8@y]"
    assert aval.update(sharding=NamedSharding(MESH, P("y"))).str_short() == "float32[8@y,8]"
    whole = aval.update(sharding=NamedSharding(MESH, P()))
    assert whole is pyjax.core.ShapedArray((8, 8), "float32")
    auto = NamedSharding(AbstractMesh((2,), ("x",)), P("x"))
    assert whole.update(sharding=auto) is whole


def test_programs_show_types() -> None:
    with use_abstract_mesh(MESH):
        text = str(
            pyjax.make_jaxpr(lambda x: reshard(jnp.dot(x, x.T, out_sharding=P("x")), P()))(X)
        )
    assert "c:f32[8@x,8] = dot_general[" in text and "d:f32[8,8] = reshard c" in text, text
    assert "b:f32[8@y,8@x] = transpose" in text
