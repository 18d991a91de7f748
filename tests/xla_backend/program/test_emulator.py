"""The platform `emulator`: programs as they are scheduled for the CPU, in Python."""

import io
import os
import pdb
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from native_checks import arguments_of, module_of
from sample_programs import BODIES, CALLED

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Load, Loop, LoopKind, Store, walk
from xla_backend.kernels.races import OutOfBoundsError, RaceError
from xla_backend.program.ir import Launch

LARGE = "x = f32[600,512] parameter(0)\n ROOT r = f32[600,512] exponential(x)"


def emulated(body, platform="emulator", **options):
    options = CompileOptions(verify=True, **options)
    return xla_backend.compile(module_of(body, CALLED), platform, options)


PROGRAMS = [(platform, name) for platform in ("emulator", "gpu_emulator") for name in BODIES]


@pytest.mark.parametrize(("platform", "name"), PROGRAMS)
def test_gives_the_results_of_native_code(platform, name):
    module = module_of(BODIES[name], CALLED)
    arguments = arguments_of(module)
    native = xla_backend.compile(module).execute(arguments)
    for got, want in zip(emulated(BODIES[name], platform).execute(arguments), native, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_runs_the_schedule_of_a_gpu():
    """One grid of blocks, one loop of threads, no lanes of a CPU's vectors."""
    text = emulated(LARGE, "gpu_emulator").texts()["loops"]
    assert "in grid(" in text and "in threads(" in text


def test_runs_the_schedule_of_the_cpu():
    """Blocks and lanes are in its kernels, as they are in those of native code."""
    text = emulated(LARGE).texts()["loops"]
    native = xla_backend.compile(module_of(LARGE, CALLED), options=CompileOptions(verify=True))
    assert text == native.texts()["loops"]
    kernel = next(iter(emulated(LARGE).loaded.plan.program.kernels.values()))
    kinds = {s.kind for s in walk(kernel.stages) if hasattr(s, "kind")}
    assert {LoopKind.GRID, LoopKind.LANES} <= kinds


def test_state_is_kept_from_run_to_run():
    executable, native = (
        xla_backend.compile(module_of(BODIES["random"], CALLED), platform)
        for platform in ("emulator", "cpu")
    )
    first, second = executable.execute([]), executable.execute([])
    assert not np.array_equal(first[0], second[0])
    for got in (first, second):
        np.testing.assert_array_equal(got, native.execute([]))


def test_a_donated_argument_holds_the_result():
    text = """HloModule m, input_output_alias={ {}: (0, {}, must-alias) }
    ENTRY e { x = f32[4] parameter(0) one = f32[] constant(1)
      ones = f32[4] broadcast(one), dimensions={} ROOT r = f32[4] add(x, ones) }"""
    executable = xla_backend.compile(xla_backend.parse_hlo(text), "emulator")
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(executable.execute([x])[0], x + 1)
    np.testing.assert_array_equal(x, np.arange(4))


def _with_stores(executable, change):
    """The executable after `change(store)` of all stores of its only kernel."""
    (kernel,) = executable.loaded.plan.program.kernels.values()
    for statement in walk(kernel.stages):
        if isinstance(statement, Store):
            change(statement)
    return executable


def test_an_access_out_of_bounds_is_an_error():
    def one_further(store):
        store.index = store.index + 1

    executable = _with_stores(emulated(BODIES["kernel"]), one_further)
    with pytest.raises(OutOfBoundsError, match=r"element 24 of buffer out0 .* has 24 elements"):
        executable.execute([np.ones((4, 6), np.float32)])


def _as_in_the_first(executable, kind, statements, buffer=None):
    """The executable after accesses of some class in loops of a kind go where those of the first
    block (or round) go; in another `buffer`, if one is named."""
    (kernel,) = executable.loaded.plan.program.kernels.values()
    variables = {s.var for s in walk(kernel.stages) if isinstance(s, Loop) and s.kind is kind}
    for s in walk(kernel.stages):
        if isinstance(s, statements):
            for variable in variables & set(s.index.terms):
                s.index = s.index - Index.of(variable) * s.index.terms[variable]
            s.buffer = next((b for b in kernel.buffers if b.name == buffer), s.buffer)
    return executable


@pytest.mark.parametrize(
    ("kind", "statements", "buffer", "message"),
    [
        (LoopKind.GRID, Store, None, "written at [block=0, i=0] and at [block=1, i=0] by two"),
        (LoopKind.GRID, Load, "out0", "written at [block=0, i=0] and read at [block="),
        (LoopKind.SERIAL, Store, None, "written at [block=0, i=0] and at [block=0, i=1]"),
    ],
    ids=["two-blocks-write", "one-reads-what-another-writes", "two-rounds-write"],
)
def test_a_race_names_kernel_element_and_both_places(kind, statements, buffer, message):
    executable = _as_in_the_first(emulated(LARGE), kind, statements, buffer)
    whole = f"kernel 'exponential_fusion': element 0 of buffer out0 is {message}"
    with pytest.raises(RaceError, match=re.escape(whole)):
        executable.execute([np.ones((600, 512), np.float32)])


def test_accesses_that_are_never_made_may_be_anywhere():
    """Vectors that hold nothing of the second operand read it under a mask only."""
    body = """c = f32[] constant(49) x = f32[49] broadcast(c), dimensions={} p = f32[1] parameter(0)
      d = f32[50] concatenate(x, p), dimensions={0} ROOT r = f32[50] negate(d)"""
    (got,) = emulated(body).execute([np.ones(1, np.float32)])
    np.testing.assert_array_equal(got, [-49.0] * 49 + [-1.0])


def test_step_by_step():
    (x,) = arguments_of(module_of(BODIES["kernel"], CALLED))
    stepper = emulated(BODIES["kernel"]).loaded.stepper([x])
    statements = []
    for step in stepper.steps():
        assert isinstance(step, Launch)
        statements += stepper.interpreter(step).steps()
    np.testing.assert_allclose(stepper.results()[0], np.exp(x), rtol=1e-6)
    first = statements[0]
    assert isinstance(first.statement, Load)
    count = min(first.result.size, x.size)  # vectors may be longer than the array
    np.testing.assert_array_equal(np.ravel(first.result)[:count], np.ravel(x)[:count])


def test_pdb_stops_inside_a_kernel():
    """Commands as one would type them: a break at each statement, one of which is looked at."""
    commands = [
        "import xla_backend.kernels.interpreter as m",
        "break m.Interpreter._execute",
        "continue",
        "p type(s).__name__, self.kernel.name",
        "clear 1",
        "continue",
    ]
    said = io.StringIO()
    typed = io.StringIO("\n".join(commands) + "\n")
    debugger = pdb.Pdb(stdin=typed, stdout=said, nosigint=True, readrc=False)
    executable = emulated(BODIES["kernel"])
    (x,) = arguments_of(module_of(BODIES["kernel"], CALLED))
    before = sys.gettrace()
    try:
        (got,) = debugger.runcall(executable.execute, [x])
    finally:
        sys.settrace(before)
    assert "('Load', 'exponential_fusion')" in said.getvalue()
    np.testing.assert_allclose(got, np.exp(x), rtol=1e-6)


def test_pyjax_on_the_emulator():
    code = """
    import numpy as np
    import pyjax
    import pyjax.numpy as jnp

    assert pyjax.devices()[0].platform == "emulator"
    x = jnp.linspace(0.0, 1.0, 7)
    np.testing.assert_allclose(x[2:] + 1, np.linspace(0, 1, 7)[2:] + 1, rtol=1e-6)
    slope = pyjax.jit(pyjax.grad(lambda v: jnp.sum(jnp.sin(v) ** 2)))
    np.testing.assert_allclose(slope(x), np.sin(2 * np.asarray(x)), rtol=1e-5)
    carry, ys = pyjax.lax.scan(lambda c, v: (c + v, c * v), 0.0, x)
    np.testing.assert_allclose(carry, 3.5, rtol=1e-6)
    np.testing.assert_allclose(pyjax.vmap(jnp.sort)(jnp.ones((2, 3))), np.ones((2, 3)))
    np.testing.assert_allclose(jnp.linalg.inv(2 * jnp.eye(3)), np.eye(3) / 2, rtol=1e-6)
    print(pyjax.random.normal(pyjax.random.key(0), (2,)))
    """
    environment = {**os.environ, "PYJAX_PLATFORMS": "emulator"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_several_emulated_devices():
    code = """
    import numpy as np
    import pyjax
    import pyjax.numpy as jnp

    devices = pyjax.devices("gpu_emulator")
    assert [str(d) for d in devices] == ["gpu_emulator:0", "gpu_emulator:1"]
    x = pyjax.device_put(np.arange(5.0, dtype=np.float32), devices[1])
    y = pyjax.jit(lambda v: v * 2 + 1)(x)
    assert y.devices() == {devices[1]}
    np.testing.assert_array_equal(y, 2 * np.arange(5.0) + 1)
    which = pyjax.lax.platform_dependent(x, cpu=lambda v: v, cuda=lambda v: v + 1)
    np.testing.assert_array_equal(which, np.arange(5.0) + 1)
    """
    environment = {
        **os.environ,
        "PYJAX_PLATFORMS": "gpu_emulator",
        "PYJAX_NUM_CPU_DEVICES": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_of_emulated_devices():
    device = emulated(LARGE, "gpu_emulator").device
    assert (repr(device), str(device)) == ("GpuEmulatorDevice(id=0)", "gpu_emulator:0")
