"""The scoring command on a corpus of two programs made here, one of them with a wrong answer on
record."""

import gzip
import json

import ml_dtypes
import numpy as np
import pytest

from xla_backend.tools.corpus import find_programs, mismatch_reason, restore_dtype
from xla_backend.tools.score_corpus import main

TEXT = """HloModule m

ENTRY main {
  x = TYPE[4]{0} parameter(0)
  ROOT r = TYPE[4]{0} add(x, x)
}
"""
PRIVATE = """HloModule m

ENTRY main {
  x = f32[4]{0} parameter(0)
  ROOT r = f32[4]{0} custom-call(x), custom_call_target="__other$gemm"
}
"""
EXACT = {"rtol": 0.0, "atol": 0.0, "mismatch": 0.0}


def write_program(folder, name, stored, expected, dtype, hlo, optimized, tolerance=EXACT):
    folder.mkdir(exist_ok=True)
    description = {"dtype": dtype, "shape": list(stored.shape)}
    metadata = {
        "name": name,
        "family": folder.name,
        "inputs": [description],
        "outputs": [{**description, **tolerance}],
        "files": {
            "hlo.txt": f"{name}.hlo.txt",
            "opt_hlo.txt": f"{name}.opt_hlo.txt.gz",
            "npz": f"{name}.npz",
        },
    }
    (folder / f"{name}.json").write_text(json.dumps(metadata))
    (folder / f"{name}.hlo.txt").write_text(hlo)
    (folder / f"{name}.opt_hlo.txt.gz").write_bytes(gzip.compress(optimized.encode()))
    np.savez(folder / f"{name}.npz", in_0=stored, out_0=expected)


@pytest.fixture
def corpus(tmp_path):
    x = np.array([1, 2, 3, 4], ml_dtypes.bfloat16)
    text = TEXT.replace("TYPE", "bf16")
    write_program(
        tmp_path / "good", "double", x.view(np.uint16), (x + x).view(np.uint16), "bfloat16",
        text, text,
    )  # fmt: skip
    y = np.arange(4, dtype=np.float32)
    write_program(tmp_path / "bad", "wrong", y, y, "float32", TEXT.replace("TYPE", "f32"), PRIVATE)
    return tmp_path


def test_table_and_status(corpus, capsys):
    assert main([str(corpus), "--texts", "hlo,opt", "--family", "good"]) == 0
    out = capsys.readouterr().out
    assert "FAIL" not in out
    rows = [line.split() for line in out.splitlines()]
    assert ["good", "hlo", "1"] in [row[:3] for row in rows]
    assert all(row[3::2] == ["1/1"] * 5 for row in rows if row[0] == "good")


def test_programs_run_on_the_platform_asked_for(corpus, capsys):
    """A platform that there is not: asked for, and named as the reason."""
    arguments = [str(corpus), "--texts", "hlo", "--only", "double", "--stages", "run"]
    assert main([*arguments, "--platform", "emulator"]) == 0
    assert main([*arguments, "--platform", "abacus"]) == 1
    assert "run: ValueError: no platform 'abacus'" in capsys.readouterr().out


def test_products_are_as_exact_as_on_record(tmp_path):
    """What a GPU may round is not rounded where the recorded program says nothing of it."""
    text = """HloModule m

ENTRY main {
  x = f32[64,64]{1,0} parameter(0)
  ROOT r = f32[64,64]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    tolerance = {"rtol": 1e-5, "atol": 1e-4, "mismatch": 0.0}
    write_program(tmp_path / "good", "product", x, x @ x, "float32", text, text, tolerance)
    assert main([str(tmp_path), "--texts", "hlo", "--platform", "gpu_emulator"]) == 0


def test_failures_are_named(corpus, capsys):
    assert main([str(corpus), "--texts", "hlo", "--markdown"]) == 1
    out = capsys.readouterr().out
    assert "| all | hlo | 2 |" in out
    assert "FAIL wrong [hlo] evaluate: output 0 differs at 3 of 4 places; first [1]" in out
    assert "FAIL wrong [hlo] run: output 0 differs" in out


def test_private_calls_are_skipped(corpus, capsys):
    assert main([str(corpus), "--texts", "opt", "--only", "wrong"]) == 0
    out = capsys.readouterr().out
    assert "skipped 1 [opt]: calls __other$gemm, which belongs to another compiler" in out


def test_text_that_does_not_parse(corpus, capsys):
    (corpus / "good" / "double.hlo.txt").write_text("HloModule m\n\nENTRY main { x = }\n")
    assert main([str(corpus), "--texts", "hlo", "--only", "double"]) == 1
    out = capsys.readouterr().out
    assert "FAIL double [hlo] parse: ParseError" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "absent"], "no program absent"),
        (["--family", "absent"], "in family 'absent'"),
        (["--texts", "mlir"], "choose from hlo,stablehlo,opt"),
    ],
)
def test_wrong_arguments(corpus, capsys, arguments, message):
    with pytest.raises(SystemExit):
        main([str(corpus), *arguments])
    assert message in capsys.readouterr().err


def test_find_programs_reads_what_was_stored(corpus):
    (program,) = find_programs(corpus, names=["double"])
    (x,), (y,) = program.arrays
    assert x.dtype == y.dtype == ml_dtypes.bfloat16
    assert x.tolist() == [1, 2, 3, 4] and y.tolist() == [2, 4, 6, 8]


def test_restore_dtype():
    values = np.array([-3, 7], np.int8)
    assert restore_dtype(values, "int4").tolist() == [-3, 7]
    assert restore_dtype(values, "int4").dtype == ml_dtypes.int4
    bits = np.array([0x38], np.uint8)
    assert restore_dtype(bits, "float8_e4m3fn")[0] == 1
    assert restore_dtype(values, "int8") is values


INF, NAN = np.inf, np.nan
LOOSE = {"rtol": 0.1, "atol": 0.01, "mismatch": 0.0}


@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "fine"),
    [
        ([1.0, 2.0], [1.05, 2.1], LOOSE, True),
        ([1.0, 2.0], [1.0, 2.5], LOOSE, False),
        ([0.009], [0.0], LOOSE, True),
        ([NAN, INF, -INF], [NAN, INF, -INF], EXACT, True),
        ([INF], [-INF], LOOSE, False),
        ([INF], [1e30], LOOSE, False),
        ([NAN], [0.0], LOOSE, False),
        ([0.0], [-0.0], EXACT, True),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 5.0], {**EXACT, "mismatch": 0.25}, True),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0], {**EXACT, "mismatch": 0.25}, False),
        ([complex(INF, 1.0)], [complex(INF, 1.05)], LOOSE, True),
        ([complex(INF, 1.0)], [complex(INF, 2.0)], LOOSE, False),
        ([complex(1.0, 1.0)], [complex(1.0, 1.1)], LOOSE, True),
    ],
)
def test_tolerance_rule(got, expected, tolerance, fine):
    reason = mismatch_reason(np.array(got), np.array(expected), tolerance)
    assert (reason is None) == fine, reason


def test_integers_must_be_equal():
    a, b = np.array([1, 2]), np.array([1, 3])
    assert mismatch_reason(a, a, EXACT) is None
    assert "first [1]: 2 instead of 3" in mismatch_reason(a, b, LOOSE)


def test_type_and_shape_must_be_equal():
    a = np.zeros(3, np.float32)
    assert "float32[3] instead of float64[3]" in mismatch_reason(a, a.astype(np.float64), LOOSE)
    assert "float32[3] instead of float32[3, 1]" in mismatch_reason(a, a[:, None], LOOSE)
