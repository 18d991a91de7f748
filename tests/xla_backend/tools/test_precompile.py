"""Routines compiled ahead, by processes of their own."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from pyjax.tools.command_line import main
from xla_backend.llvm.installed_code import load_installed, pack_of
from xla_backend.llvm.target import host_target, make_target
from xla_backend.persistent import installed
from xla_backend.persistent.installed import Entry, write_pack
from xla_backend.targets.cpu.installed_programs import programs_pack_of
from xla_backend.targets.cpu.routines.installable import compiled_piece
from xla_backend.targets.cpu.routines.kept_objects import PARTS, kept_key
from xla_backend.tools import precompile
from xla_backend.tools.precompile import (
    PrecompileError,
    described_packs,
    found_packs,
    make_pack,
    make_programs_pack,
    used_here,
)

HOST = host_target()
GROUPS = ["workspace", "lane_groups", "moves"]


def test_a_pack_has_what_processes_look_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", str(tmp_path))
    stale = write_pack(tmp_path, "0123456789abcdef-0123456789abcdef", [])
    others = [tmp_path / "pack-12345.pack", tmp_path / "empty.pack"]  # as those of git
    others[0].write_bytes(b"PACK" + bytes(100))
    others[1].touch()
    told = []
    made = make_pack(HOST, tmp_path, GROUPS, [], 1, lambda *how_far: told.append(how_far))
    assert made.removed == [stale] and not stale.exists()
    assert all(other.exists() for other in others)
    assert made.path.stem == pack_of(HOST) and made.size == made.path.stat().st_size
    assert told == [(0, 3), (3, 3)] and made.entries > len(GROUPS)
    for group in GROUPS:
        found = load_installed(lambda target, group=group: kept_key(group, target, PARTS), HOST)
        assert found == compiled_piece(group, HOST).content


def test_what_is_there_and_for_whom(tmp_path):
    assert found_packs(tmp_path) == found_packs(tmp_path / "nowhere") == [] and not used_here([])
    write_pack(tmp_path, "0123456789abcdef-0123456789abcdef", [])
    (stale,) = found_packs(tmp_path)
    assert stale.use == "" and used_here([stale]) == ""
    write_pack(tmp_path, pack_of(HOST), [])
    assert {each.use for each in found_packs(tmp_path)} == {"", "host"}
    assert used_here(found_packs(tmp_path)) == "host"


@pytest.mark.skipif(not HOST.is_x86, reason="levels are of x86-64")
def test_packs_of_other_installations_stay(tmp_path, monkeypatch):
    """Several may share a directory."""
    monkeypatch.setattr(installed, "_OWNER", bytes(16))
    others = write_pack(tmp_path, "0123456789abcdef-0123456789abcdef", [])
    monkeypatch.undo()
    own = write_pack(tmp_path, "fedcba9876543210-0123456789abcdef", [])
    programs = write_pack(tmp_path, "programs-0123456789abcdef-0123456789abcdef", [])
    assert make_pack(HOST, tmp_path, []).removed == [own]
    assert others.exists() and programs.exists()
    assert make_programs_pack(HOST, tmp_path, tmp_path / "nothing").removed == [programs]
    assert others.exists() and {p.what for p in found_packs(tmp_path)} == {"routines", "programs"}


def test_what_doctors_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", "")
    assert {*described_packs().values()} == {"none: PYJAX_INSTALLED_DIR is empty"}
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", str(tmp_path))
    for text in described_packs().values():
        assert text == f"none: {tmp_path} has none; `pyjax precompile` makes them"
    write_pack(tmp_path, "0123456789abcdef-0123456789abcdef", [])
    assert "(1) are of other sources" in described_packs()["routines"]
    entry = Entry("ab" * 32, "classes", HOST.key, b"")
    path = write_pack(tmp_path, programs_pack_of(HOST), [entry])
    assert described_packs()["programs"] == f"for host: 1 entries, 0 KiB, {path}"
    monkeypatch.setattr(precompile, "programs_pack_of", lambda target: None)
    assert "source files changed" in described_packs()["programs"]


def test_code_can_be_made_for_levels_of_other_machines():
    assert precompile.target_named("x86-64-v3") == make_target(HOST.triple, "x86-64-v3")


def test_errors(tmp_path, monkeypatch):
    with pytest.raises(PrecompileError, match=r"'znver9'.*name one of host, x86-64, .*x86-64-v4"):
        precompile.target_named("znver9")
    (tmp_path / "file").touch()
    with pytest.raises(PrecompileError, match=r"cannot be written \(.*--into"):
        make_pack(HOST, tmp_path / "file", [])
    monkeypatch.setattr(precompile, "pack_of", lambda target: None)
    with pytest.raises(PrecompileError, match=r"source files changed .* run this again"):
        make_pack(HOST, tmp_path, [])


def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", str(tmp_path))
    assert main(["precompile", "--jobs", "-3"]) == 2
    assert "--jobs -3: at least one process" in capsys.readouterr().out
    assert main(["precompile", "--status"]) == 1
    assert "none; `pyjax precompile` makes them" in capsys.readouterr().out
    assert main(["precompile", "--list"]) == 0
    listed = capsys.readouterr().out.split()
    assert {"sort_f32", "gemm_f32.packed_even", "cumsum_f64"} <= {*listed}
    assert "gemm_u8_u8" not in listed
    assert main(["precompile", "--list", "--all"]) == 0
    assert "gemm_u8_u8" in capsys.readouterr().out.split()
    assert main(["precompile", "--cpu", "pentium"]) == 1
    assert "'pentium'" in capsys.readouterr().err
    monkeypatch.setattr("pyjax.tools.commands.precompile._pieces", lambda everything: GROUPS)
    called = "pyjax.tools.commands.precompile._call_operations"
    monkeypatch.setattr(called, lambda name, folder: None)
    assert main(["precompile", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "host: 3 of 3 groups of kernels" in said and "entries" in said and "MB" in said
    assert main(["precompile", "--status"]) == 0
    said = capsys.readouterr().out
    assert "routines used here: host" in said and "programs used here: host" in said
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", "")
    assert main(["precompile"]) == 2


@pytest.mark.skipif(os.name != "posix", reason="interrupts as of terminals")
def test_an_interrupt_ends_it(tmp_path):
    """With what is under way, and however many interrupts come."""
    command = [sys.executable, "-m", "pyjax", "precompile", "--into", str(tmp_path), "--jobs", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline()  # it has begun
        time.sleep(2)
        for _ in range(2):
            os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) != 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert not [*tmp_path.glob("*.pack")]


_OPERATIONS_ALONE = """
import sys
from pathlib import Path
from pyjax.tools.command_line import main
from xla_backend.tools import precompile
precompile.make_pack = lambda *_: precompile.Made(Path("nowhere"), 0, 0, 0.0, [])
sys.exit(main(["precompile", "--into", sys.argv[1]]))
"""


def _goes_on(group):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


@pytest.mark.skipif(os.name != "posix", reason="groups of processes")
def test_sigterm_leaves_no_folder(tmp_path):
    """Nor processes, while the operations are called that have a cache of their own."""
    made, temporary = tmp_path / "made", tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", _OPERATIONS_ALONE, str(made)],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not [*temporary.rglob("*.*")]:  # something is kept
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
        end = time.monotonic() + 60
        while time.monotonic() < end and _goes_on(process.pid):
            time.sleep(0.05)
        assert not _goes_on(process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not [*made.glob("*.pack")] and not [*temporary.iterdir()]
