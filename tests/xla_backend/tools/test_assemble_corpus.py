"""The tool that assembles reference programs for GPUs."""

import json

import numpy as np
import pytest

from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.targets.gpu.ptxas import Resources
from xla_backend.tools import assemble_corpus
from xla_backend.tools.assemble_corpus import Summary, report

GOOD = "HloModule m\nENTRY e {\n x = f32[100] parameter(0)\n ROOT r = f32[100] tanh(x)\n}\n"
BAD = GOOD.replace("tanh", "tanhh")


def folder_of(path, **texts):
    (path / "ops").mkdir()
    for name, text in texts.items():
        (path / "ops" / f"{name}.hlo.txt").write_text(text)
        files = {"hlo.txt": f"{name}.hlo.txt", "npz": f"{name}.npz"}
        description = {"name": name, "family": "ops", "files": files, "inputs": [], "outputs": []}
        (path / "ops" / f"{name}.json").write_text(json.dumps(description))
        np.savez(path / "ops" / f"{name}.npz")
    return str(path)


@NEEDS_PTXAS
def test_programs_are_assembled_or_refused(tmp_path, capsys):
    folder = folder_of(tmp_path, good=GOOD, bad=BAD)
    assert assemble_corpus.main([folder, "--architectures", "sm_90,sm_120", "--only", "good"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "sm_90: 1/1 programs", "sm_120: 1/1 programs"
    ]  # fmt: skip
    assert assemble_corpus.main([folder, "--architectures", "sm_90"]) == 1
    said = capsys.readouterr().out
    assert "sm_90: 1/2 programs, 1 functions, 0 spill" in said
    assert "REFUSED bad: ParseError: " in said and "tanhh" in said


def test_spills_are_listed():
    summary = Summary(programs=2)
    summary.add("one", {"f": Resources(64, 0, 0, 0, 0, 0), "g": Resources(255, 8, 12, 24, 0, 0)})
    said = report({"sm_80": summary})
    assert "2/2 programs, 2 functions, 1 spill, at most 255 registers (one: g)" in said
    assert "SPILLS one: g: 8 bytes stored, 12 loaded, 255 registers" in said


def test_unknown_architectures_and_folders(tmp_path, capsys):
    with pytest.raises(SystemExit):
        assemble_corpus.main([str(tmp_path), "--architectures", "sm_70"])
    assert "choose from sm_80,sm_90,sm_90a,sm_100,sm_120" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        assemble_corpus.main([str(tmp_path)])
    assert "no program" in capsys.readouterr().err
