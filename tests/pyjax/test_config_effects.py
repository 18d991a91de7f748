"""What each option that acts must visibly do (those of jit itself are in test_jit.py)."""

from __future__ import annotations

import itertools
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from pyjax._config.registry import Source, all_options

import pyjax
import pyjax.numpy as jnp


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    yield
    for option in all_options().values():
        option.clear(Source.UPDATE)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "PYJAX_", "XLA_"))}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_enable_x64() -> None:
    assert jnp.arange(3).dtype == np.int32 and jnp.asarray(1.0).dtype == np.float32
    with pytest.warns(UserWarning, match="float64.*truncated|float64.*is not available"):
        assert jnp.zeros(2, np.float64).dtype == np.float32
    with pyjax.enable_x64(True):
        assert jnp.arange(3).dtype == np.int64
        assert jnp.asarray(1.0).dtype == np.float64
        assert jnp.zeros(2, np.float64).dtype == np.float64
        assert (jnp.asarray(1.0) + 1e-12) > 1


def test_numpy_rank_promotion() -> None:
    x, y = jnp.ones((2, 3)), jnp.ones(3)
    assert (x + y).shape == (2, 3)
    with pyjax.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match=r"(?s)\(2, 3\), \(3,\).*rank_promotion"):
            jnp.add(x, y)
    with pyjax.numpy_rank_promotion("warn"):
        with pytest.warns(UserWarning, match="rank_promotion"):
            jnp.add(x, y)


def test_numpy_dtype_promotion() -> None:
    x, y = jnp.ones(2, np.float32), jnp.ones(2, np.int32)
    assert (x + y).dtype == np.float32
    with pyjax.numpy_dtype_promotion("strict"):
        with pytest.raises(ValueError, match=r"(?s)int32.*float32|float32.*int32"):
            jnp.add(x, y)
        assert (x + 1.5).dtype == np.float32  # weakly typed scalars still mix


def test_default_matmul_precision_is_carried() -> None:
    f = lambda x: x @ x
    x = jnp.ones((2, 2))
    assert "HIGHEST" not in str(pyjax.make_jaxpr(f)(x)).upper()
    with pyjax.default_matmul_precision("highest"):
        assert "HIGHEST" in str(pyjax.make_jaxpr(f)(x)).upper()
        assert "precision = [HIGHEST, HIGHEST]" in pyjax.jit(f).lower(x).as_text()
    with pytest.raises(ValueError, match="default_matmul_precision"):
        with pyjax.default_matmul_precision("fantastic"):
            pass


@pytest.mark.parametrize("variable", ["PYJAX_PLATFORMS", "JAX_PLATFORMS", "JAX_PLATFORM_NAME"])
def test_platforms(variable: str) -> None:
    code = (
        "import pyjax, pyjax.numpy as jnp; "
        "print(pyjax.default_backend(), (jnp.arange(3) * 2).tolist())"
    )
    assert run_python(code, **{variable: "interpreter"}).stdout.split()[0] == "interpreter"
    assert run_python(code, **{variable: "cpu"}).stdout.strip() == "cpu [0, 2, 4]"
    failed = run_python(code, **{variable: "abacus"})
    assert failed.returncode != 0 and "unknown platform 'abacus'" in failed.stderr


def test_platforms_cannot_change_once_used() -> None:
    jnp.ones(1).block_until_ready()
    with pytest.raises(RuntimeError, match="initialised already"):
        pyjax.config.update("jax_platforms", "interpreter")


def test_several_cpu_devices_and_the_default_one() -> None:
    code = """
import pyjax, pyjax.numpy as jnp
print(pyjax.device_count(), jnp.ones(2).device.id)
with pyjax.default_device(pyjax.devices()[2]):
    x = jnp.ones(2)
    print(x.device.id, (x + 1).device.id)
y = pyjax.device_put(jnp.ones(2), pyjax.devices()[1])
print((y + 1).device.id, (y + jnp.ones(2)).device.id, pyjax.jit(lambda a: a * 2)(y).device.id)
try:
    y + pyjax.device_put(1.0, pyjax.devices()[3])
except ValueError as error:
    print("different devices" in str(error))
"""
    flag = "--xla_force_host_platform_device_count"
    for environment in (
        {"XLA_FLAGS": f"{flag}=4"},
        {"PYJAX_NUM_CPU_DEVICES": "4"},
        {"JAX_NUM_CPU_DEVICES": "4", "XLA_FLAGS": f"{flag}=2"},
    ):
        result = run_python(code, **environment)
        assert result.stdout.split("\n")[:4] == ["4 0", "2 2", "1 1 1", "True"], result.stderr


def test_number_of_cpu_devices_is_settled_with_the_first_use() -> None:
    before = """
import pyjax
pyjax.config.update("jax_num_cpu_devices", 3)
print(pyjax.device_count(), pyjax.local_device_count(), [d.id for d in pyjax.local_devices()])
"""
    assert run_python(before).stdout.strip() == "3 3 [0, 1, 2]"
    pyjax.devices()
    with pytest.raises(RuntimeError, match=r"(?s)jax_num_cpu_devices to 7.*initialised already"):
        pyjax.config.update("jax_num_cpu_devices", 7)


def test_logging_level_and_debug_modules() -> None:
    pyjax.config.update("jax_logging_level", "ERROR")
    assert logging.getLogger("pyjax").level == logging.ERROR
    pyjax.config.update("jax_logging_level", "NOTSET")
    pyjax.config.update("jax_debug_log_modules", "jax.runtime.dispatch,xla_backend")
    try:
        assert logging.getLogger("pyjax.runtime.dispatch").level == logging.DEBUG
        assert logging.getLogger("xla_backend").handlers
    finally:
        pyjax.config.update("jax_debug_log_modules", "")
    assert logging.getLogger("pyjax.runtime.dispatch").level == logging.NOTSET


def bad(x):
    if x > 0:
        return x
    return -x


def frames_of(mode: str) -> tuple[list[str], BaseException]:
    pyjax.config.update("jax_traceback_filtering", mode)
    try:
        pyjax.jit(bad)(1.0)
    except pyjax.errors.TracerBoolConversionError as error:
        return [f.name for f in traceback.extract_tb(error.__traceback__)], error
    raise AssertionError("no error")


def test_traceback_filtering() -> None:
    everything, _ = frames_of("off")
    quiet, error = frames_of("quiet_remove_frames")
    assert "bad" in quiet and "bad" in everything
    assert len(quiet) <= 4 < len(everything)
    assert any("internal frames" in note for note in error.__notes__)
    removed, error = frames_of("remove_frames")
    assert len(removed) <= 4 and error.__cause__ is not None
    assert len(traceback.extract_tb(error.__cause__.__traceback__)) > 4
    hidden, _ = frames_of("tracebackhide")
    assert len(hidden) == len(everything)
    assert frames_of("auto")[0] == quiet


def test_check_tracer_leaks() -> None:
    leaked = []

    def f(x):
        leaked.append(x + 1)
        return x

    with pyjax.check_tracer_leaks(True):
        with pytest.raises(Exception, match=r"(?i)leaked trace"):
            pyjax.jit(f)(1.0)
    assert pyjax.jit(lambda x: x)(1.0) == 1.0


def test_enable_checks_catches_a_broken_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyjax.core.avals import ShapedArray
    from pyjax.interpreters.rules import all_primitives

    answers = itertools.cycle([(3,), (99,)])  # a rule that contradicts itself
    broken = lambda x, **_: ShapedArray(next(answers), x.dtype)
    monkeypatch.setattr(all_primitives["sin"], "abstract_eval_rule", broken)
    pyjax.make_jaxpr(pyjax.lax.sin)(jnp.ones(3))
    next(answers)
    with pyjax.enable_checks(True):
        with pytest.raises(pyjax.errors.JaxprTypeError, match="sin"):
            pyjax.make_jaxpr(lambda x: pyjax.lax.sin(x))(jnp.ones(3))


def test_pprint_use_color(monkeypatch: pytest.MonkeyPatch) -> None:
    jaxpr = pyjax.make_jaxpr(jnp.sin)(1.0).jaxpr
    assert "\x1b[" in jaxpr.pretty_print(use_color=True)
    assert "\x1b[" not in jaxpr.pretty_print(use_color=False)
    assert "\x1b[" not in str(jaxpr)  # the output of the tests is no terminal
    for session, colored in ((None, False), (object(), True)):
        # That something imported IPython is not enough: a session must run.
        ipython = SimpleNamespace(get_ipython=lambda session=session: session)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
        assert ("\x1b[" in str(jaxpr)) == colored


def test_optimization_level() -> None:
    f = lambda x: (x * 1.0 + jnp.sin(x) * 0 + (x.T).T).sum()
    x = jnp.ones((8, 8))
    compiled = pyjax.jit(f).lower(x).compile().as_text()
    with pyjax._config.options.optimization_level("O0"):
        plain = pyjax.jit(f).lower(x).compile()
    assert len(plain.as_text()) > len(compiled)
    assert float(plain(x)) == float(f(x))


def test_high_dynamic_range_gumbel() -> None:
    key = pyjax.random.key(0)
    high = pyjax.random.gumbel(key, (4,), mode="high")
    low = pyjax.random.gumbel(key, (4,))
    with pyjax._config.options.high_dynamic_range_gumbel(True):
        np.testing.assert_array_equal(pyjax.random.gumbel(key, (4,)), high)
    assert not np.array_equal(low, high)


def test_enable_custom_prng() -> None:
    assert pyjax.random.PRNGKey(0).dtype == np.uint32
    with pyjax.enable_custom_prng(True):
        assert str(pyjax.random.PRNGKey(0).dtype) == "key<fry>"


def test_options_that_do_not_act_say_so() -> None:
    result = run_python("import pyjax", JAX_DYNAMIC_SHAPES="1")
    assert "jax_dynamic_shapes is set but has no effect" in result.stderr


def test_xla_flags_mistakes_are_errors_not_crashes() -> None:
    code = "import pyjax.numpy as jnp; jnp.ones(2) + 1"
    result = run_python(code, XLA_FLAGS="--xla_force_host_platform_device_cout=2")
    assert result.returncode == 1
    assert "did you mean --xla_force_host_platform_device_count?" in result.stderr
