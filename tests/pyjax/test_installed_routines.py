"""Routines that come with the installation: a process with an empty cache compiles none of them,
and has the same bits. Packs of other sources, or of another processor, are not used."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyjax.native.entry_code import entry_code
from xla_backend.llvm.installed_code import load_installed, pack_of
from xla_backend.llvm.kept_code import OBJECT
from xla_backend.llvm.target import LEVELS, host_target, levels_of, make_target
from xla_backend.persistent.installed import Entry, write_pack
from xla_backend.targets.cpu.routines.installable import compiled_piece, pieces, runtime_entries
from xla_backend.targets.cpu.routines.subjects import groups_by_symbol

HOST = host_target()
LEVEL = next(iter(levels_of(HOST)), None)

# Prints what its programs compute, the groups of kernels that it took, and the functions that LLVM
# compiled, but for those of programs.
PROGRAM = """
import hashlib, json, re, sys
import numpy as np
import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from xla_backend.llvm import objects
from xla_backend.targets.cpu.routines import library

compiled, groups = [], set()
emit, build = objects._emit, library.KernelLibrary._build

def emit_and_note(text, *arguments, **options):
    compiled.extend(re.findall(r"^define [^@]*@(pyjax_[^( ]*)", text, re.M))
    return emit(text, *arguments, **options)

def build_and_note(self, group):
    groups.add(group)
    return build(self, group)

objects._emit, library.KernelLibrary._build = emit_and_note, build_and_note
x = np.sin(np.arange(3000, dtype=np.float32))
a = np.cos(np.arange(96 * 96, dtype=np.float32)).reshape(96, 96)
image = np.resize(a, (1, 9, 9, 20))
window = np.resize(a, (3, 3, 20, 24))
PROGRAMS = [
    lambda: pyjax.jit(jnp.sort)(x),
    lambda: pyjax.jit(jnp.argsort)(x),
    lambda: pyjax.jit(lambda x: lax.top_k(x, 9))(x),
    lambda: pyjax.jit(jnp.cumsum)(x),
    lambda: pyjax.jit(lambda a: a @ a)(a),
    lambda: pyjax.jit(lambda a: a[:8] @ a[0])(a),
    lambda: pyjax.jit(lambda a: a @ a)(jnp.asarray(a, jnp.bfloat16)),
    lambda: pyjax.jit(lambda a: a @ a)((a * 100).astype(np.int8)),
    lambda: pyjax.jit(lambda a: jnp.matmul(a, a.T, preferred_element_type=np.int32))(
        (a * 100).astype(np.int8)),
    lambda: jnp.asarray(a) @ a.T,
    lambda: pyjax.jit(jnp.fft.fft)(x.astype(np.complex64)),
    lambda: pyjax.jit(jnp.fft.rfft)(x[:1009]),
    lambda: pyjax.jit(lambda i, w: lax.conv_general_dilated(
        i, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))(image, window),
    lambda: pyjax.jit(jnp.linalg.cholesky)(a @ a.T + 96 * np.eye(96, dtype=np.float32)),
]
results = [hashlib.sha256(np.asarray(leaf).tobytes()).hexdigest()
           for program in PROGRAMS for leaf in pyjax.tree.leaves(program())]
print(json.dumps([results, sorted(groups), compiled, sorted(sys.modules)]))
"""
WRITERS = (
    "xla_backend.targets.cpu.routines.subjects",
    "xla_backend.targets.cpu.routines.bridge_functions",
)


def run(folder, installed, warning="error", **options):
    environment = {
        **os.environ,
        "PYJAX_CACHE_DIR": str(folder / "cache"),
        "PYJAX_INSTALLED_DIR": str(installed),
        **options,
    }
    command = [sys.executable, "-W", warning, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return *json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Results, groups, and what was compiled where nothing is installed."""
    results, groups, compiled, modules, _ = run(tmp_path_factory.mktemp("plain"), "")
    assert "pyjax_parallel_for" in compiled and set(WRITERS) < set(modules)
    owners = groups_by_symbol()
    assert set(groups) <= {owners.get(name) for name in compiled}
    return results, groups


def pack_in(folder, target, groups):
    entries = [*runtime_entries(target, [entry_code(target)])]
    entries += [compiled_piece(group, target) for group in groups]
    return write_pack(folder, pack_of(target), entries)


@pytest.fixture(scope="module")
def installed(plain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    pack_in(folder, HOST, plain[1])
    return folder


def test_nothing_of_the_sources_is_compiled(plain, installed, tmp_path):
    results, groups, compiled, modules, _ = run(tmp_path, installed)
    assert (results, groups) == plain
    assert not compiled and not set(WRITERS) & set(modules)


def test_they_are_no_cache(plain, installed, tmp_path):
    """Options that switch the cache off are about what programs leave on disk. Nothing is written
    beside what was read, and the directory need not be one that can be written."""
    installed.chmod(0o555)
    off = {"JAX_ENABLE_COMPILATION_CACHE": "0"}
    results, _, compiled, _, _ = run(tmp_path, installed, **off)
    installed.chmod(0o755)
    assert results == plain[0] and not compiled
    assert len(list(installed.iterdir())) == 1 and not (tmp_path / "cache").exists()


@pytest.mark.skipif(LEVEL is None, reason="this machine has no level of x86-64 with its facts")
def test_those_of_a_level_have_the_same_bits(plain, tmp_path):
    """A machine takes code of a level whose features it has."""
    pack_in(tmp_path / "level", LEVEL, plain[1])
    results, groups, compiled, _, _ = run(tmp_path, tmp_path / "level")
    assert (results, groups) == plain and not compiled


def test_packs_of_other_sources_or_processors_are_not_used(plain, installed, tmp_path):
    folder = tmp_path / "others"
    folder.mkdir()
    (pack,) = installed.iterdir()
    sources, _, rest = pack.name.partition("-")
    (folder / f"{sources[::-1]}-{rest}").write_bytes(pack.read_bytes())
    used = (HOST, *levels_of(HOST))
    foreign = [t for t in (make_target(HOST.triple, name) for name in LEVELS) if t not in used]
    for target in foreign[:1]:
        pack_in(folder, target, ["workspace"])
    results, _, compiled, _, _ = run(tmp_path, folder)
    assert results == plain[0] and "pyjax_parallel_for" in compiled


def test_damaged_packs_are_said_once_and_not_used(plain, installed, tmp_path):
    folder = tmp_path / "damaged"
    folder.mkdir()
    (pack,) = installed.iterdir()
    data = bytearray(pack.read_bytes())
    records = int.from_bytes(data[16:24], "little")
    for place in range(40 + 48 * records, len(data), 256):  # in all entries
        data[place] ^= 1
    (folder / pack.name).write_bytes(data)
    results, _, compiled, _, said = run(tmp_path, folder, warning="default")
    assert results == plain[0] and "pyjax_parallel_for" in compiled
    assert 1 <= said.count("it is compiled again") <= 4


def test_code_for_the_machine_itself_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_INSTALLED_DIR", str(tmp_path))
    targets = (HOST, *levels_of(HOST))
    key = lambda target: "ab" * 32
    for target in reversed(targets):
        entry = Entry(key(target), OBJECT, target.key, target.cpu.encode())
        write_pack(tmp_path, pack_of(target), [entry])
        assert load_installed(key, HOST) == target.cpu.encode()


def test_levels_have_the_same_facts_and_no_feature_that_is_lacking():
    triple = "x86_64-unknown-linux-gnu"
    levels = {name: make_target(triple, name) for name in LEVELS}
    # Vectors of another width are other code.
    assert all(levels_of(level) == () for level in levels.values())
    newest = make_target(triple, "znver5", "".join(f"+{f}," for f in LEVELS["x86-64-v4"]) + "+gfni")
    assert levels_of(newest) == (levels["x86-64-v4"],)
    older = make_target(triple, "haswell", "".join(f"+{f}," for f in LEVELS["x86-64-v3"]))
    assert levels_of(older) == (levels["x86-64-v3"],)
    lacking = make_target(triple, "odd", older.features.replace("+movbe,", "-movbe,"))
    assert levels_of(lacking) == ()
    assert levels_of(make_target("aarch64-unknown-linux-gnu", "apple-m1")) == ()


def test_most_kernels_are_compiled_ahead():
    some, everything = pieces(), pieces(everything=True)
    assert set(some) < set(everything) == set(groups_by_symbol().values())
    left_out = set(everything) - set(some)
    assert len(left_out) < len(everything) / 5
    assert all(group.split("_")[0] in ("gemm", "conv") for group in left_out)


@pytest.mark.slow
@pytest.mark.skipif(LEVEL is None, reason="this machine has no level of x86-64 with its facts")
def test_all_kernels_compile_for_a_level():
    for group in pieces(everything=True):
        assert len(compiled_piece(group, LEVEL).content) > 100


def _workers(pid: int) -> int:
    """How many processes a process has started."""
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_compilers_end_with_the_command(tmp_path):
    command = [sys.executable, "-m", "pyjax", "precompile", "--into", str(tmp_path), "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert b" groups of kernels" in process.stdout.readline()
        while _workers(process.pid) < 3:  # and multiprocessing's own
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        # There is more to read as long as one of them has the other end of the pipe.
        process.communicate(timeout=60)
    assert not list(tmp_path.glob("*.pack"))
