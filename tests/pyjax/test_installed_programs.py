"""Eager operations that come with the installation, in processes with an empty cache."""

import json
import os
import subprocess
import sys

import pytest

from pyjax.tools import common_operations
from pyjax.tools.commands import precompile as command
from xla_backend.llvm.target import LEVELS, host_target, levels_of, make_target
from xla_backend.targets.cpu.installed_programs import programs_pack_of
from xla_backend.tools.precompile import make_programs_pack, runs_here

HOST = host_target()
LEVEL = next(iter(levels_of(HOST)), None)
# Names of operations, and their results; what was compiled for them.
COMPILED = """
import hashlib, json, sys
import numpy as np
import pyjax
import pyjax.numpy as jnp
import xla_backend.targets.cpu.kept_programs as kept
from xla_backend.targets.cpu.target_options import compile_as_for
from xla_backend.tools.precompile import target_named

if len(sys.argv) > 1:
    compile_as_for(target_named(sys.argv[1]))
compiled = []
for name in ("_compile_code", "_compile_elementwise"):
    def compile(module, *args, known=getattr(kept, name), **named):
        compiled.append(str(getattr(module, "name", module)))
        return known(module, *args, **named)
    setattr(kept, name, compile)
"""
PROGRAM = f"""{COMPILED}
x = jnp.asarray(np.linspace(0.5, 2, 10, dtype=np.float32))
results = [jnp.sin(x), x + x, x * 2.5, x.sum(), jnp.argmax(x), jnp.zeros(3), jnp.where(x > 1, x, 0)]
digests = [hashlib.sha256(np.asarray(r).tobytes()).hexdigest() for r in results]
loaded = "xla_backend.targets.cpu.class_compiler" in sys.modules
print(json.dumps([digests, compiled, loaded]))
"""
# Operators with numbers, derivatives and mapped functions: what is compiled for these.
USES = f"""{COMPILED}
x = jnp.arange(1.0, 8.0)
_ = x + 2.5, 2 * x, x / 3, 1 / x, x > 0.5, 2 - x, x % 2, jnp.arange(7) / 2
_ = jnp.exp(np.ones(11, np.float32)) if x.dtype == np.float32 else jnp.exp(np.ones(11))
_ = pyjax.grad(lambda v: (jnp.tanh(v) ** 2 * v).sum())(x)
_ = pyjax.vmap(lambda v: v * 2 + 1)(jnp.ones((8, 4)))
print(json.dumps(compiled))
"""


def run(cache, installed, *words, **options):
    environment = {
        **os.environ,
        "PYJAX_CACHE_DIR": str(cache),
        "PYJAX_INSTALLED_DIR": str(installed),
        "PYJAX_FIRST_CODE": "0",  # what is compiled is noted before the end
        **options,
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, *words],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Results, and the cache that they leave."""
    folder = tmp_path_factory.mktemp("plain")
    results, compiled, loaded = run(folder, "")
    assert compiled and loaded
    return results, folder


def test_they_are_found_with_an_empty_cache(plain, tmp_path):
    results, cache = plain
    made = make_programs_pack(HOST, tmp_path / "installed", cache)
    assert made.path.stem == programs_pack_of(HOST) and made.entries >= 6
    assert run(tmp_path / "cache", tmp_path / "installed") == [results, [], False]


@pytest.mark.skipif(LEVEL is None, reason="this machine has no level of x86-64 with its facts")
def test_those_of_a_level_have_the_same_bits(plain, tmp_path):
    assert runs_here(LEVEL)
    results, _, _ = run(tmp_path / "of level", "", LEVEL.cpu)
    assert results == plain[0]
    made = make_programs_pack(LEVEL, tmp_path / "installed", tmp_path / "of level")
    assert made.path.stem == programs_pack_of(LEVEL) and made.entries >= 6
    assert run(tmp_path / "cache", tmp_path / "installed") == [results, [], False]


def test_those_of_other_sources_options_or_switched_off_are_not_used(plain, tmp_path):
    results, cache = plain
    folder = tmp_path / "installed"
    path = make_programs_pack(HOST, folder, cache).path
    for options in ({"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}, {"JAX_ENABLE_X64": "1"}):
        assert run(tmp_path / str(len(options)), folder, **options)[1]
    assert run(tmp_path / "off", folder, JAX_ENABLE_COMPILATION_CACHE="0")[1]
    path.rename(path.with_name(f"programs-{'0' * 16}-{'0' * 16}.pack"))
    again, compiled, _ = run(tmp_path / "other", folder)
    assert again == results and compiled


def test_only_what_runs_here_is_called():
    assert runs_here(HOST)
    if HOST.is_x86:
        assert runs_here(make_target(HOST.triple, "x86-64"))
        assert not runs_here(make_target(HOST.triple, "no level"))
    assert "host" not in LEVELS


def test_a_cache_is_written_after_the_last_size():
    for sizes in (common_operations.VECTORS, common_operations.MATRICES):
        assert len(sizes) == len({*sizes}) and len(sizes).bit_count() == 1


def test_a_call_that_fails_ends_it(tmp_path):
    with pytest.raises(RuntimeError, match="calling the common operations ended with 1"):
        command._call_operations("no processor", str(tmp_path))


def test_calls_for_another_process_end_with_it(tmp_path):
    command = [sys.executable, "-m", "pyjax.tools.common_operations", "--attended"]
    environment = {**os.environ, "PYJAX_CACHE_DIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) as process:
        process.communicate(timeout=60)  # closes its standard input
    assert process.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True])
def test_all_operations_can_be_called(x64, tmp_path):
    options = ["--x64"] if x64 else []
    subprocess.run(
        [sys.executable, "-W", "error", "-m", "pyjax.tools.common_operations", *options],
        env={**os.environ, "PYJAX_CACHE_DIR": str(tmp_path)}, check=True,
    )  # fmt: skip
    environment = {
        **os.environ,
        "PYJAX_CACHE_DIR": str(tmp_path),
        "PYJAX_FIRST_CODE": "0",
        "JAX_ENABLE_X64": str(int(x64)),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", USES],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == []
