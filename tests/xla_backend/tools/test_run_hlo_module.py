"""run_hlo_module as a person would use it."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from xla_backend import library
from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import parse_flags
from xla_backend.flag_effects import with_flags
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.proto import (
    Snapshot,
    snapshot_from_proto,
    snapshot_to_proto,
    unoptimized_snapshot_to_proto,
)
from xla_backend.runtime.custom_calls import register_custom_call
from xla_backend.tools import command_line, run_hlo_module

TANH = """
ENTRY e {
  x = f32[3] parameter(0)
  ROOT r = f32[3] tanh(x)
}"""
WRONG = """
ENTRY e {
  x = f32[3] parameter(0)
  ROOT r = f32[3] custom-call(x), custom_call_target="differs from run to run"
}"""


@pytest.fixture
def tanh(tmp_path: Path) -> str:
    path = tmp_path / "tanh.hlo"
    path.write_text(TANH)
    return str(path)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    calls = iter(range(100))

    def differs(operands, results, *_) -> None:  # type: ignore[no-untyped-def]
        results[0][...] = next(calls)

    register_custom_call("differs from run to run", differs, replace=True)
    path = tmp_path / "wrong.hlo"
    path.write_text(WRONG)
    return str(path)


def test_agreement(tanh: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_hlo_module.main(["--platform=cpu", "--iterations=2", tanh]) == 0
    err = capsys.readouterr().err
    assert err.count("** Results on cpu and interpreter are close enough. **") == 2
    assert err.endswith("0/2 runs miscompared.\n")


def test_disagreement(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_hlo_module.main([wrong]) == 255
    err = capsys.readouterr().err
    assert "** Results on cpu and interpreter DIFFER" in err
    assert "result 0: 3 of 3 elements differ (100 %)" in err
    assert "1/1 runs miscompared." in err
    folder = Path(err.rsplit("literals are in ", 1)[1].strip().splitlines()[0])
    assert (folder / "expected-0.txt").read_text().startswith("f32[3] {")
    assert (folder / "actual-0.txt").exists()


def test_without_reference_nothing_is_compared(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_hlo_module.main(["--reference_platform=", wrong]) == 0
    assert "interpreter" not in capsys.readouterr().err


def test_bounds_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(TANH.replace("f32[3]", "f32[1000]"))
    flags = ["--abs_error_bound=0", "--rel_error_bound=0", "--use_large_float_range"]
    assert run_hlo_module.main([*flags, str(path)]) == 255
    assert run_hlo_module.main(["--use_large_float_range", str(path)]) == 0
    capsys.readouterr()


def test_literals_are_printed(tanh: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_hlo_module.main(["--print_literals", "--random_init_input_literals=0", tanh]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "** argument 0: f32[3] {0, 0, 0}",
        "** result on cpu 0: f32[3] {0, 0, 0}",
        "** result on interpreter 0: f32[3] {0, 0, 0}",
    ]


def test_seeds(tanh: str, capsys: pytest.CaptureFixture[str]) -> None:
    def arguments(*flags: str) -> list[str]:
        run_hlo_module.main(["--print_literals", "--iterations=2", *flags, tanh])
        out = capsys.readouterr().out.splitlines()
        return [line for line in out if line.startswith("** argument")]

    same = arguments()
    assert same[0] == same[1] and arguments() == same
    different = arguments("--different_random_seeds")
    assert different[0] == same[0] and different[1] != same[1]
    assert arguments("--seed=1")[0] == different[1]


def test_several_files_and_standard_input(
    tanh: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TANH.encode())))
    assert run_hlo_module.main([tanh, "-", f"--input_module={tanh}"]) == 0
    assert "0/3 runs miscompared." in capsys.readouterr().err


def test_xla_flags_are_taken(tanh: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_hlo_module.main(["--xla_dmp_to=x", tanh])
    assert "did you mean --xla_dump_to?" in capsys.readouterr().err
    flags = ["--xla_disable_hlo_passes=cse,dce", "--xla_dump_hlo_as_text", "--noprint_literals"]
    assert run_hlo_module.main([*flags, tanh]) == 0
    out = capsys.readouterr().out
    assert out.startswith("*** Begin module_") and "** argument" not in out


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """A run of TANH as the dump flags write it."""
    flags = parse_flags(f"--xla_dump_to={tmp_path} --xla_dump_hlo_snapshots")
    executable = library.compile(parse_module(TANH), options=with_flags(CompileOptions(), flags))
    executable.execute([np.float32([0.5, 1, 0.25])])
    (path,) = tmp_path.glob("*.snapshot.0.pb")
    return str(path)


def test_a_snapshot_is_run_again(snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_hlo_module.main(["--print_literals", snapshot]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("** argument 0: f32[3] {0.5, 1, 0.25}\n")
    for origin in ("the snapshot", "interpreter"):
        assert f"** Results on cpu and {origin} are close enough. **" in err
    assert "0/1 runs miscompared." in err


def test_fake_data_instead_of_a_snapshots(
    snapshot: str, tanh: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_hlo_module.main(["--print_literals", "--force_fake_data", snapshot]) == 0
    out, err = capsys.readouterr()
    assert "{0.5, 1, 0.25}" not in out and "the snapshot" not in err
    run_hlo_module.main(["--print_literals", tanh])
    assert capsys.readouterr().out.splitlines()[0] == out.splitlines()[0]


def test_the_recorded_result_counts(
    snapshot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = snapshot_from_proto(Path(snapshot).read_bytes())
    path = tmp_path / "other.pb"
    path.write_bytes(snapshot_to_proto(replace(good, result=Literal(np.float32([9, 9, 9])))))
    for flags in ([], ["--reference_platform="]):
        assert run_hlo_module.main([*flags, str(path)]) == 255
        err = capsys.readouterr().err
        assert "** Results on cpu and the snapshot DIFFER" in err
        assert "1/1 runs miscompared." in err
        assert ("cpu and interpreter are close enough" in err) == (not flags)


def test_arguments_without_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.hlo_unoptimized_snapshot.pb"
    x = Literal(np.float32([0.5, 1, 0.25]))
    path.write_bytes(unoptimized_snapshot_to_proto(parse_module(TANH), [[x]]))
    assert run_hlo_module.main(["--print_literals", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "** argument 0: f32[3] {0.5, 1, 0.25}\n" in out and "the snapshot" not in err


def test_arguments_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    wrong = (Literal(np.float32([1, 2])),)
    path.write_bytes(snapshot_to_proto(Snapshot(parse_module(TANH), wrong)))
    message = r"holds arguments f32\[2\], its program takes f32\[3\]; --force_fake_data"
    with pytest.raises(command_line.UsageError, match=message):
        run_hlo_module.main([str(path)])
    assert run_hlo_module.main(["--force_fake_data", str(path)]) == 0


BAD = {
    "no file": ([], "no module given"),
    "missing file": (["missing.hlo"], "cannot read missing.hlo"),
    "no runs": (["--iterations=0", "x.hlo"], "--iterations=0: run at least once"),
}


@pytest.mark.parametrize("arguments, message", BAD.values(), ids=BAD)
def test_errors_of_use(arguments: list[str], message: str) -> None:
    with pytest.raises(command_line.UsageError, match=message):
        run_hlo_module.main(arguments)


def test_errors_of_syntax_show_the_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.hlo"
    path.write_text("ENTRY e {\n  ROOT r = f32[3] tahn(x)\n}")
    with pytest.raises(command_line.UsageError, match=r"bad.hlo: 2:19: (?s:.)*\^"):
        run_hlo_module.main([str(path)])


def test_as_a_process(tanh: str) -> None:
    command = [sys.executable, "-m", "xla_backend.tools.run_hlo_module"]
    good = subprocess.run([*command, tanh], capture_output=True, text=True)
    assert good.returncode == 0 and "0/1 runs miscompared." in good.stderr
    bad = subprocess.run([*command, "missing.hlo"], capture_output=True, text=True)
    assert bad.returncode == 1 and bad.stderr.count("\n") == 3
    assert "Traceback" not in bad.stderr


CHECKED = """func.func @main() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.add %0, %0 : tensor<2xi32>
  check.expect_eq_const %1, dense<[2, 4]> : tensor<2xi32>
  check.expect_eq_const %0, dense<[1, LAST]> : tensor<2xi32>
  return
}"""


@pytest.mark.parametrize("last, status", [(2, 0), (3, 255)])
def test_programs_that_check_themselves(
    last: int, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "checked.mlir"
    path.write_text(CHECKED.replace("LAST", str(last)))
    assert run_hlo_module.main([str(path)]) == status
    captured = capsys.readouterr()
    first, second = captured.out.splitlines()
    assert first == "check.expect_eq (line 4): pass"
    if status:
        assert second == "check.expect_eq (line 5): FAIL: element [1] is 2, expected 3"
    assert f"{1 if status else 2} of 2 checks passed." in captured.err


def test_checks_of_a_program_with_arguments_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "checked.mlir"
    path.write_text(CHECKED.replace("LAST", "2").replace("()", "(%x: tensor<2xi32>)", 1))
    with pytest.raises(command_line.UsageError, match="takes arguments"):
        run_hlo_module.main([str(path)])
