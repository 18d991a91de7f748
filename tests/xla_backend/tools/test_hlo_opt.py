"""hlo_opt as a person would use it."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest

from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.proto import hlo_proto_from_bytes, module_to_proto
from xla_backend.passes.registry import unregister_pass
from xla_backend.tools import hlo_opt
from xla_backend.tools.command_line import UsageError

TEXT = """HloModule chain

ENTRY e {
  x = f32[1000] parameter(0)
  one = f32[] constant(1)
  ones = f32[1000] broadcast(one), dimensions={}
  unused = f32[1000] sine(x)
  y = f32[1000] multiply(x, ones)
  ROOT r = f32[1000] tanh(y)
}
"""
USER_PASS = """
from xla_backend import register_pass
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass


class TanhToSine(HloPass):
    name = "tanh-to-sine"

    def run_on_computation(self, computation):
        for node in computation.post_order(Opcode.TANH):
            node.opcode = Opcode.SINE
            return True
        return False


register_pass(TanhToSine)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "chain.hlo"
    path.write_text(TEXT)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert hlo_opt.main(arguments) == 0
    return capsys.readouterr().out


def test_passes_run_in_the_order_given(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    folded = run(capsys, "--passes=algsimp,dce", file)
    assert "multiply" not in folded and "sine" not in folded and "tanh" in folded
    assert "multiply" in run(capsys, "--passes=dce", file)


STAGES = {
    "hlo": "is_scheduled=true",
    "hlo-backend": "fusion(",
    "buffer-assignment": "tanh",
    "program": "launch tanh_fusion(p0=arg0",
    "loops": "def tanh_fusion",
    "llvm": "define i32 @entry",
    "llvm-before-optimizations": "define i32 @entry",
    "asm": "kernel.tanh_fusion:",
    "html": "<!doctype html>",
}


@pytest.mark.parametrize("stage, mark", STAGES.items())
def test_stages(stage: str, mark: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert mark in run(capsys, "--platform=cpu", f"--stage={stage}", file)


def test_optimised_text_parses(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    parse_module(run(capsys, "--platform=cpu", file))


def test_a_scheduled_module_is_left_alone(file: str, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "scheduled.hlo"
    path.write_text(run(capsys, "--platform=cpu", file))
    assert hlo_opt.main(["--passes=dce", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == path.read_text() and "no pass was run" in captured.err


def test_several_modules_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.hlo"
    path.write_text(TEXT + "// -----\n" + TEXT.replace("chain", "other"))
    out = run(capsys, "--passes=dce", "--split-input-file", str(path))
    first, second = out.split("// -----\n")
    assert first.startswith("HloModule chain") and second.startswith("HloModule other")


def test_standard_input_and_output_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    path = tmp_path / "out.hlo"
    assert run(capsys, "--passes=dce", "-", "-o", str(path)) == ""
    assert "sine" not in path.read_text()


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    (names,) = run(capsys, "--list-passes").splitlines()
    assert {"algebraic-simplifier", "dce", "fusion"} <= set(names.split(","))
    listed = [line.split()[0] for line in run(capsys, "--list-stages").splitlines()]
    assert listed == list(hlo_opt.STAGES)


def test_passes_of_users(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(USER_PASS)
    try:
        out = run(capsys, f"--load={path}", "--passes=tanh-to-sine", file)
        assert "tanh" not in out
    finally:
        unregister_pass("tanh-to-sine")


@pytest.mark.parametrize("flags", [[], ["--passes=algsimp,dce"], ["--platform=cpu"]], ids=str)
def test_protobuf_out_and_in(
    flags: list[str], file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "chain.hlo.pb")
    assert run(capsys, "--emit-proto", *flags, file, "-o", path) == ""
    module = hlo_proto_from_bytes(Path(path).read_bytes())
    want = run(capsys, *flags, file) if flags else str(module_to_text(parse_module(TEXT)))
    assert module_to_text(module) == want
    # What was written is read again: packed or not, by its suffix or by name.
    packed, unnamed = tmp_path / "chain.hlo.pb.gz", tmp_path / "chain"
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    unnamed.write_bytes(Path(path).read_bytes())
    for arguments in ([path], [str(packed)], [str(unnamed), "--input_format=pb"]):
        again = str(tmp_path / "again.pb")
        assert run(capsys, "--emit-proto", *arguments, "-o", again) == ""
        assert module_to_text(hlo_proto_from_bytes(Path(again).read_bytes())) == want


def test_bytes_that_cannot_be_read(file: str, tmp_path: Path) -> None:
    contents = {
        "text.pb": (TEXT.encode(), "text.pb: no HloSnapshot: "),
        "proto.hlo": (module_to_proto(parse_module(TEXT)) + b"\xff", "no hlo text.*--input_format"),
        "cut.hlo.gz": (gzip.compress(TEXT.encode())[:-9], "cannot read .*cut.hlo.gz"),
        "bad.hlo.gz": (b"\x1f\x8bx", "cannot read .*bad.hlo.gz"),
    }
    for name, (data, message) in contents.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(UsageError, match=message):
            hlo_opt.main(["--passes=dce", str(path)])


BAD = {
    "proto on a screen": (["--emit-proto", "FILE"], "give -o FILE"),
    "proto of code": (
        ["--emit-proto", "--platform=cpu", "--stage=llvm", "FILE", "-o", "x.pb"],
        "does not go with --stage=llvm",
    ),
    "no module": (["--passes=dce"], "no module given"),
    "nothing to do": (["FILE"], "give --passes=a,b or --platform=cpu"),
    "unknown stage": (["--platform=cpu", "--stage=hlp", "FILE"], "no stage 'hlp'; there are asm"),
    "passes and a stage": (["--passes=dce", "--stage=llvm", "FILE"], "needs --platform=cpu alone"),
    "no such file": (["--passes=dce", "missing.hlo"], "cannot read missing.hlo"),
    "no folder": (["--passes=dce", "FILE", "-o", "/no/such/folder/x"], "cannot write"),
    "no file to load": (["--load=no.py", "--passes=dce", "FILE"], "cannot read no.py"),
}


@pytest.mark.parametrize("arguments, message", BAD.values(), ids=BAD)
def test_errors_of_use(arguments: list[str], message: str, file: str) -> None:
    with pytest.raises(UsageError, match=message):
        hlo_opt.main([a.replace("FILE", file) for a in arguments])


def test_one_proto_holds_one_module(tmp_path: Path) -> None:
    path = tmp_path / "two.hlo"
    path.write_text(f"{TEXT}// -----\n{TEXT}")
    with pytest.raises(UsageError, match="the input has 2"):
        hlo_opt.main(["--emit-proto", "--split-input-file", str(path), "-o", "x.pb"])


def test_as_a_process(file: str) -> None:
    command = [sys.executable, "-m", "xla_backend.tools.hlo_opt"]
    bad = subprocess.run(
        [*command, "--passes=dec", file], capture_output=True, text=True, check=False
    )
    assert bad.returncode == 1 and "'dec'" in bad.stderr and "dce" in bad.stderr
    assert "Traceback" not in bad.stderr
