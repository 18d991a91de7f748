"""Linear algebra becomes calls of LAPACK's routines on matrices by columns."""

from __future__ import annotations

import numpy as np
import pytest

import xla_backend
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.verifier import verify
from xla_backend.passes.solver_rewriter import SolverRewriter
from xla_backend.targets.gpu.solver_rules import library_call

N = 65  # rows: more than kernels take


def rewritten(text: str) -> tuple[HloModule, HloModule]:
    before = parse_module(text)
    after = before.clone()
    assert SolverRewriter(library_call).run(after)
    verify(after)
    return before, after


def count(module: HloModule, opcode: Opcode) -> int:
    return sum(node.opcode is opcode for c in module.computations for node in c.instructions)


def call(routine: str, operands: str, results: str, options: str = "") -> str:
    """A program that returns all results of a call; operands: their types."""
    types = operands.split("; ")
    names = [f"p{i}" for i in range(len(types))]
    lines = [f"{names[i]} = {type} parameter({i})" for i, type in enumerate(types)]
    config = f', backend_config="{{{options}}}"' if options else ""
    given = ", ".join(names)
    root = f'ROOT r = {results} custom-call({given}), custom_call_target="{routine}"{config}'
    return "ENTRY main {\n" + "\n".join([*lines, root]) + "\n}"


def numbers(text: str) -> list[np.ndarray]:
    """Operands: square matrices are positive definite."""
    rng = np.random.default_rng(0)
    found = []
    entry = parse_module(text).entry
    assert entry is not None
    for p in entry.parameters:
        x = rng.standard_normal(p.shape.dimensions)
        dtype = p.shape.element_type.numpy_dtype
        if dtype.kind == "c":
            x = x + 1j * rng.standard_normal(p.shape.dimensions)
        if x.ndim > 1 and x.shape[-1] == x.shape[-2]:
            x = x @ x.conj().mT + np.eye(x.shape[-1])
        found.append(x.astype(dtype))
    return found


# Program; transposes that it needs.
SAME = {
    "cholesky": (f"ENTRY m {{ a = f64[2,{N},{N}] parameter(0)\n"
                 f" ROOT r = f64[2,{N},{N}] cholesky(a), lower=true }}", 0),
    "upper": (f"ENTRY m {{ a = c128[{N},{N}] parameter(0)\n"
              f" ROOT r = c128[{N},{N}] cholesky(a), lower=false }}", 0),
    "triangular": (f"ENTRY m {{ a = f64[{N},{N}] parameter(0)\n b = f64[{N},3] parameter(1)\n"
                   f" ROOT r = f64[{N},3] triangular-solve(a, b), left_side=true, lower=true,"
                   " unit_diagonal=true, transpose_a=TRANSPOSE }", 0),
    "potrf": (call("lapack.potrf", "c128[2,4,4]", "(c128[2,4,4], s32[2])", "uplo = 85 : ui8"), 0),
    "getrf": (call("lapack_dgetrf_ffi", "f64[3,6,4]", "(f64[3,6,4], s32[3,4], s32[3])"), 2),
    "geqrf": (call("lapack.geqrf", "c128[6,4]", "(c128[6,4], c128[4])"), 2),
    "geqrf with info": (
        call("lapack_sgeqrf_ffi", "f32[6,4]", "(f32[6,4], f32[4], s32[])"), 2
    ),
    "ormqr": (
        call("lapack.ormqr", "f64[6,4]; f64[4]; f64[6,3]", "(f64[6,3])", "transpose = true"), 3
    ),
    "trsm": (
        call("lapack_ztrsm_ffi", "c128[4,4]; c128[2,4]", "(c128[2,4])",
             "side = 82 : ui8, trans_x = 67 : ui8"), 0
    ),
    "values only": (
        call("lapack.syevd", "c128[4,4]", "(c128[4,4], f64[4], s32[])", "mode = 78 : ui8"), 0
    ),
    "singular values only": (
        call("lapack.gesdd", "f64[4,6]", "(f64[4,6], f64[4], f64[4,4], f64[4,6], s32[])",
             "mode = 78 : ui8"), 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_results_are_the_same(name: str) -> None:
    text, transposes = SAME[name]
    before, after = rewritten(text)
    arrays = numbers(text)
    for got, want in zip(xla_backend.evaluate(after, arrays), xla_backend.evaluate(before, arrays)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert count(after, Opcode.TRANSPOSE) == transposes
    targets = [node for node in after.entry.instructions if node.opcode is Opcode.CUSTOM_CALL]  # type: ignore[union-attr]
    assert [node.attributes.target.split(".")[0] for node in targets] == ["lapack_columns"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (2, 5, 5)])
@pytest.mark.parametrize("mode", "SA")
def test_factors_of_singular_values(shape: tuple[int, ...], mode: str) -> None:
    """Vectors have any sign: their product is what counts."""
    *batch, m, n = shape
    k = min(m, n)
    left, right = (k, k) if mode == "S" else (m, n)

    def array(kind: str, *dims: int) -> str:
        return f"{kind}[{','.join(map(str, (*batch, *dims)))}]"

    results = [array("c128", m, n), array("f64", k), array("c128", m, left)]
    results += [array("c128", right, n), array("s32")]
    text = call("lapack.gesdd", results[0], f"({', '.join(results)})", f"mode = {ord(mode)} : ui8")
    _, after = rewritten(text)
    arrays = numbers(text)
    _, s, u, vh, info = xla_backend.evaluate(after, arrays)
    product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    np.testing.assert_allclose(product, arrays[0], atol=1e-9)
    np.testing.assert_allclose(u.conj().mT @ u, np.eye(left) + 0 * u[..., :1, :1], atol=1e-9)
    assert not info.any()


@pytest.mark.parametrize("uplo", "LU")
def test_eigenvectors(uplo: str) -> None:
    text = call(
        "lapack_zheevd_ffi", "c128[2,5,5]", "(c128[2,5,5], f64[2,5], s32[2])",
        f"mode = 86 : ui8, uplo = {ord(uplo)} : ui8",
    )  # fmt: skip
    _, after = rewritten(text)
    (a,) = numbers(text)
    triangle = (np.tril if uplo == "L" else np.triu)(a)
    v, w, _ = xla_backend.evaluate(after, [triangle])
    np.testing.assert_allclose(a @ v, v * w[:, None, :], atol=1e-9)


def test_transposes_between_two_calls_vanish() -> None:
    """Q of QR: two of the four are left."""
    text = """ENTRY m { a = f32[6,4] parameter(0)
      qr = (f32[6,4], f32[4]) custom-call(a), custom_call_target="lapack.geqrf"
      packed = f32[6,4] get-tuple-element(qr), index=0
      taus = f32[4] get-tuple-element(qr), index=1
      q = (f32[6,4]) custom-call(packed, taus), custom_call_target="lapack.orgqr"
      ROOT r = f32[6,4] get-tuple-element(q), index=0 }"""
    executable = xla_backend.compile(parse_module(text), "gpu_emulator")
    arrays = numbers(text)
    (q,) = executable.execute(arrays)
    np.testing.assert_allclose(q.T @ q, np.eye(4), atol=1e-5)
    said = executable.texts()["program"]
    assert said.count("launch ") == 2, said
    assert "library cusolver_geqrf_f32(" in said and "library cusolver_orgqr_f32(" in said


@pytest.mark.parametrize(
    "text",
    [
        call("lapack.gesdd", "f32[3,0]", "(f32[3,0], f32[0], f32[3,3], f32[0,0], s32[])",
             "mode = 65 : ui8"),
        call("lapack.getrf", "f32[0,4,4]", "(f32[0,4,4], s32[0,4], s32[0])"),
        call("lapack.trsm", "f32[4,4]; f32[4,0]", "(f32[4,0])"),
    ],
)  # fmt: skip
def test_empty_matrices(text: str) -> None:
    module = parse_module(text)
    arrays = numbers(text)
    want = xla_backend.evaluate(module, arrays)
    got = xla_backend.compile(module, "gpu_emulator").execute(arrays)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_what_no_library_does_stays() -> None:
    for text in (
        call("lapack.geev", "f32[4,4]", "(f32[4], f32[4], c64[4,4], c64[4,4], s32[])"),
        "ENTRY m { a = f32[8,8] parameter(0)\n ROOT r = f32[8,8] cholesky(a), lower=true }",
        "ENTRY m { a = f32[8,8] parameter(0)\n ROOT r = f32[8,8] exponential(a) }",
    ):
        module = parse_module(text)
        assert not SolverRewriter(library_call).run(module)
