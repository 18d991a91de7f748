"""A program compiled before is taken from disk; the compiler leaves the garbage collector as it
was."""

import gc

import numpy as np
import pytest
from native_checks import module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.llvm import objects, partition
from xla_backend.llvm.target import host_target
from xla_backend.targets.cpu import compiler, kept_programs
from xla_backend.targets.cpu.compiler import compile_module

PROGRAM = """x = f32[100] parameter(0)
e = f32[100] exponential(x)
ROOT r = f32[100] add(e, x)"""


def objects_made(monkeypatch):
    """A list that gets the objects of every program compiled from now on."""
    made = []
    compile_objects = compiler._compile_objects

    def recording(*args, **kwargs):
        made.append(compile_objects(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(compiler, "_compile_objects", recording)
    return made


def test_second_compilation_needs_no_llvm(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    made = objects_made(monkeypatch)
    first = compile_module(module_of(PROGRAM))
    monkeypatch.setattr(objects, "_parse", lambda *_: pytest.fail("LLVM was run"))
    again = compile_module(module_of(PROGRAM))
    assert made[0] == made[1]
    x = np.linspace(-3, 3, 100, dtype=np.float32)
    assert again.run_arrays([x])[0].tobytes() == first.run_arrays([x])[0].tobytes()


def test_host_calls_do_not_make_another_program(tmp_path, monkeypatch):
    """Each compilation numbers its host calls anew; the code refers to them by symbol."""
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    program = """x = f16[5,3,3] parameter(0)
y = f16[5,3,3] cholesky(x), lower=true
ROOT z = f16[5,3,3] cholesky(y), lower=true"""
    first = compile_module(module_of(program))
    monkeypatch.setattr(objects, "_parse", lambda *_: pytest.fail("LLVM was run"))
    again = compile_module(module_of(program))
    root = np.arange(1, 6, dtype=np.float16)[:, None, None] * np.eye(3, dtype=np.float16)
    for executable in (first, again, first):
        np.testing.assert_array_equal(executable.run_arrays([root**4])[0], root)
    numbers = [x for x in again.library._keep if isinstance(x, int) and not hasattr(x, "owner")]
    assert len(set(numbers)) == 2


def test_other_target_is_another_entry(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    compile_module(module_of(PROGRAM))
    monkeypatch.setattr(objects, "_parse", lambda *_: pytest.fail("LLVM was run"))
    older = Target(host_target().triple, "x86-64")
    with pytest.raises(pytest.fail.Exception):
        compile_module(module_of(PROGRAM), CompileOptions(target=older))


def test_parts_give_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    body = "\n".join(
        f"x{i} = f32[{50 + i}] parameter({i})\nr{i} = f32[{50 + i}] tanh(x{i})" for i in range(6)
    )
    shapes = ", ".join(f"f32[{50 + i}]" for i in range(6))
    program = f"{body}\nROOT t = ({shapes}) tuple({', '.join(f'r{i}' for i in range(6))})"
    whole = compile_module(module_of(program))
    monkeypatch.setattr(partition, "_PART_CHARACTERS", 500)
    monkeypatch.setattr(partition, "_CPUS", 3)
    made = objects_made(monkeypatch)
    parts = compile_module(module_of(program))
    assert len(made[0]) == 3
    arguments = [np.linspace(-2, 2, 50 + i, dtype=np.float32) for i in range(6)]
    for a, b in zip(whole.run_arrays(arguments), parts.run_arrays(arguments)):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("enabled", [True, False])
def test_collector_is_left_as_it_was(enabled):
    try:
        gc.enable() if enabled else gc.disable()
        compile_module(module_of(PROGRAM))
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_keys_of_a_process_write_its_options_once(monkeypatch):
    """A program is looked for under its options and under those with first code, on its target and
    on levels of it; so is each that follows."""
    written = []
    parts = kept_programs._option_parts
    monkeypatch.setattr(
        kept_programs, "_option_parts", lambda options: written.append(options) or parts(options)
    )
    plain, other = CompileOptions(num_threads=3), CompileOptions(num_threads=4)
    first = plain._replace(first_code=True)
    here = host_target()
    targets = [here, here._replace(vector_bits=128)]
    key_of = kept_programs._made_with
    keys = [[key_of(o, "sources", t) for o in (plain, first, other) for t in targets] for _ in "ab"]
    assert keys[0] == keys[1] and len(written) == 6
    assert keys[0][:2] == keys[0][2:4] and len(set(keys[0])) == 4
    assert key_of(plain, "other sources", here) not in keys[0]
