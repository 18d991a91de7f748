"""A process whose programs are on disk: what it loads, and that its results are the same bits."""

import json
import os
import subprocess
import sys

import pytest

# Names of programs, and their results.
PROGRAM = """
import hashlib, json, sys
import numpy as np
import pyjax
import pyjax.numpy as jnp
from pyjax import lax

x = np.linspace(-2, 2, 5000, dtype=np.float32)
a = np.arange(1600, dtype=np.float32).reshape(40, 40) % 7
table = np.arange(30000.0).astype(np.float32)
PROGRAMS = {
    "elementwise": lambda: pyjax.jit(lambda x: jnp.sin(x) * 2 + 1)(x[:100]),
    "fused": lambda: pyjax.jit(lambda x: jnp.exp(x).sum() + jnp.tanh(x).max())(x),
    "product": lambda: pyjax.jit(lambda a: jnp.tanh(a @ a.T))(a),
    "sort": lambda: pyjax.jit(lambda x: jnp.sort(-x))(x),
    "loop": lambda: pyjax.jit(lambda x: lax.fori_loop(0, 9, lambda i, c: c * 0.5 + i, x))(x),
    "moves": lambda: pyjax.jit(lambda a: a[3:9, ::2].T)(a),
    "constant": lambda: pyjax.jit(lambda x: x + table[:5000])(x),
    "closed over": lambda: pyjax.jit(lambda i: jnp.asarray(table)[i])(np.int32([7, 29999])),
    "random": lambda: pyjax.jit(lambda k: pyjax.random.normal(k, (100,)))(pyjax.random.key(3)),
    "eager": lambda: jnp.asarray(x) * 3,
    "large norm": lambda: pyjax.jit(jnp.linalg.norm)(np.resize(x, 1_000_000)),
    "segments": lambda: pyjax.jit(lambda x, i: jnp.zeros(50).at[i].add(x))(
        np.resize(x, 1_000_000), np.arange(1_000_000) % 50
    ),
    "eigenvalues": lambda: pyjax.jit(jnp.linalg.eigvalsh)(a + a.T),
    "library of the host": lambda: pyjax.jit(lambda a: lax.linalg.schur(a)[0])(a),
    "callback": lambda: pyjax.jit(
        lambda x: pyjax.pure_callback(lambda x: 2 * x, pyjax.ShapeDtypeStruct((9,), x.dtype), x)
    )(x[:9]),
}
found = {}
for name in sys.argv[1:] or PROGRAMS:
    found[name] = hashlib.sha256(np.asarray(PROGRAMS[name]()).tobytes()).hexdigest()
print(json.dumps([found, sorted(sys.modules)]))
"""
# Of these a process needs nothing whose programs are on disk.
COMPILER = (
    "xla_backend.codegen", "xla_backend.kernels.from_hlo", "xla_backend.kernels.schedule",
    "xla_backend.llvm.writer", "xla_backend.passes", "xla_backend.program.build",
    "xla_backend.spmd.pipeline", "xla_backend.targets.cpu.compiler",
    "xla_backend.targets.cpu.planned", "xla_backend.targets.cpu.routines.subjects",
    "llvmlite.binding", "scipy",
)  # fmt: skip


# Nor of these, if its programs are elementwise and for one device.
NOT_NEEDED = (
    "bz2", "ctypes.util", "difflib", "lzma", "pickletools", "random", "shutil", "subprocess",
    "sysconfig", "tempfile", "pyjax.core.jaxpr_text", "pyjax.core.pretty_printer", "pyjax.export",
    "xla_backend.dump.dumper", "xla_backend.hlo.printer",
    "xla_backend.hlo.proto", "xla_backend.hlo.shape_inference", "xla_backend.hlo.verifier",
    "xla_backend.kernels", "xla_backend.llvm.lljit", "xla_backend.program.ir",
    "xla_backend.program.serialize", "xla_backend.runtime.processes.crossing",
    "xla_backend.runtime.processes.exchanges", "xla_backend.stablehlo.ir",
    "xla_backend.targets.gpu",
)  # fmt: skip
# All modules of the library that such a process loads.
MOST_MODULES = 455
# Nor does the compiler need these for its first program, if that is elementwise.
NOT_COMPILED_WITH = (
    "difflib", "pkgutil", "xla_backend.hlo.printer", "xla_backend.hlo.shape_inference",
    "xla_backend.hlo.verifier", "xla_backend.kernels.verifier",
    "xla_backend.passes.row_fusion", "xla_backend.passes.sort_simplifier",
    "xla_backend.passes.while_loop_simplifier", "xla_backend.program.printer",
    "xla_backend.program.verifier", "xla_backend.targets.cpu.conv_rules",
    "xla_backend.targets.cpu.dot_rules", "xla_backend.targets.cpu.routines.product_contracts",
    "xla_backend.targets.cpu.sort_rules", "xla_backend.runtime.host_functions",
    "xla_backend.runtime.host_libraries.lapack_calls",
)  # fmt: skip
# All that it loads with an empty cache, but for library routines, which may have been made ahead.
MOST_MODULES_COMPILED = 600


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def run(directory, *names):
    environment = {**os.environ, "PYJAX_CACHE_DIR": str(directory)}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results, modules = json.loads(done.stdout.splitlines()[-1])
    return results, set(modules)


@pytest.fixture(scope="module")
def cold(directory):
    return run(directory)[0]


def test_the_compiler_is_not_loaded(cold, directory):
    others = ("callback", "library of the host", "eigenvalues")
    names = [name for name in cold if name not in others]
    results, modules = run(directory, *names)
    assert results == {name: cold[name] for name in names}
    assert not modules.intersection(COMPILER)


def test_an_elementwise_program_loads_little(cold, directory):
    results, modules = run(directory, "elementwise")
    assert results["elementwise"] == cold["elementwise"]
    assert not modules.intersection(NOT_NEEDED)
    own = [m for m in modules if m.partition(".")[0] in ("pyjax", "xla_backend")]
    assert len(own) <= MOST_MODULES


def test_the_first_program_loads_what_it_is_compiled_with(tmp_path):
    _, modules = run(tmp_path, "elementwise")
    assert "xla_backend.passes.standard" in modules
    assert not modules.intersection(NOT_COMPILED_WITH)
    own = [m for m in modules if m.partition(".")[0] in ("pyjax", "xla_backend")]
    assert len([m for m in own if ".routines." not in m]) <= MOST_MODULES_COMPILED


def test_programs_that_call_the_host_bring_what_they_call(cold, directory):
    results, modules = run(directory, "library of the host")
    assert results["library of the host"] == cold["library of the host"]
    assert "scipy" in modules and "xla_backend.targets.cpu.planned" not in modules
    assert run(directory, "callback")[0]["callback"] == cold["callback"]


def test_lapack_is_loaded_without_the_rest_of_scipy(cold, directory, tmp_path):
    for place in (directory, tmp_path):
        results, modules = run(place, "eigenvalues")
        assert results["eigenvalues"] == cold["eigenvalues"]
        assert "scipy" in modules and "scipy.linalg" not in modules


def test_the_compiler_needs_no_scipy(tmp_path):
    """It takes as long to load as all of the compiler."""
    _, modules = run(tmp_path, "fused", "product", "sort", "loop", "constant")
    assert "xla_backend.targets.cpu.planned" in modules
    assert not any(module.partition(".")[0] == "scipy" for module in modules)


def test_the_compiler_loads_neither_the_evaluator_nor_the_partitioner(tmp_path):
    """Nor what runs kernels in Python: a program for one device, without constants to fold, needs
    none of them."""
    _, modules = run(tmp_path, "product")
    assert "xla_backend.targets.cpu.planned" in modules
    not_needed = (
        "xla_backend.hlo.evaluator", "xla_backend.kernels.interpreter", "xla_backend.spmd.pipeline",
        "xla_backend.spmd.partitioner", "xla_backend.program.stepper",
    )  # fmt: skip
    assert not modules.intersection(not_needed)


def test_what_is_not_on_disk_is_compiled_beside_what_is(cold, directory, tmp_path):
    before = run(tmp_path, "sort")[0]
    results, modules = run(tmp_path)
    assert results == cold and before["sort"] == cold["sort"]
    assert "xla_backend.targets.cpu.planned" in modules
