"""pyjax.test_util, monitoring, debug, core and extend."""

import subprocess
import sys

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import core, custom_jvp, debug, monitoring
from pyjax.experimental import io_callback
from pyjax.extend import core as extend_core
from pyjax.test_util import check_grads, check_jvp, check_vjp


def test_check_grads_accepts():
    def f(x, y, n):
        return {"a": jnp.sin(x) * y, "b": jnp.sum(x) ** 2 * n}

    check_grads(f, (jnp.array([0.3, 0.7]), 2.0, 3), order=2)
    check_grads(jnp.exp, (jnp.array([0.3 + 0.2j]),), order=2)
    with pyjax.enable_x64(True):
        check_grads(jnp.cos, (np.array([0.4, 1.1]),), order=3)
        check_jvp(jnp.tan, lambda x, v: pyjax.jvp(jnp.tan, x, v), (0.3,), rtol={np.float64: 1e-6})
        check_vjp(jnp.tan, lambda x: pyjax.vjp(jnp.tan, x), (0.3,))


@pytest.mark.parametrize("modes", [("fwd",), ("rev",)])
def test_check_grads_rejects(modes):
    @custom_jvp
    def wrong(x):
        return x * x

    wrong.defjvps(lambda g, ans, x: 2.2 * x * g)
    with pytest.raises(AssertionError):
        check_grads(wrong, (3.0,), order=1, modes=modes)

    @custom_jvp
    def wrong_second(x):
        return x * x

    wrong_second.defjvps(lambda g, ans, x: 2 * pyjax.lax.stop_gradient(x) * g)
    check_grads(wrong_second, (3.0,), order=1, modes=modes)
    with pytest.raises(AssertionError):
        check_grads(wrong_second, (3.0,), order=2, modes=modes)
    with pytest.raises(ValueError, match="modes"):
        check_grads(jnp.sin, (3.0,), 1, modes=("up",))


LISTENERS = [
    ("event_listener", "event_listener", "record_event", ()),
    (
        "event_duration_secs_listener",
        "event_duration_listener",
        "record_event_duration_secs",
        (2.0,),
    ),
    ("event_time_span_listener", "event_time_span_listener", "record_event_time_span", (1.0, 2.0)),
    ("scalar_listener", "scalar_listener", "record_scalar", (7,)),
]


@pytest.mark.parametrize("register, unregister, record, values", LISTENERS)
def test_monitoring(register, unregister, record, values):
    heard = []

    def listen(event, *args, **kwargs):
        heard.append((event, args, kwargs))

    getattr(monitoring, f"register_{register}")(listen)
    getattr(monitoring, record)("/e", *values, tag="x")
    assert heard == [("/e", values, {"tag": "x"})]
    getattr(monitoring, f"unregister_{unregister}")(listen)
    getattr(monitoring, record)("/e", *values)
    assert len(heard) == 1
    with pytest.raises(ValueError, match="not registered"):
        getattr(monitoring, f"unregister_{unregister}")(listen)


def test_clear_listeners():
    heard = []
    monitoring.register_scalar_listener(lambda *a, **k: heard.append(a))
    monitoring.clear_event_listeners()
    monitoring.record_scalar("/e", 1)
    assert heard == []


def test_debug_print(capsys):
    @pyjax.jit
    def f(x):
        debug.print("x={} twice={t}", x, t=2 * x)
        return x * x

    assert pyjax.grad(f)(3.0) == 6
    assert capsys.readouterr().out == "x=3.0 twice=6.0\n"
    pyjax.vmap(f)(jnp.arange(2.0))
    assert capsys.readouterr().out == "x=0.0 twice=0.0\nx=1.0 twice=2.0\n"
    with pytest.raises(ValueError, match="Unused"):
        debug.print("{}", 1, 2)
    with pytest.raises(IndexError):
        debug.print("{} {}", 1)
    with pytest.raises(TypeError, match="format string"):
        debug.print(3)
    debug.print("{}", 1, 2, skip_format_check=True)
    assert capsys.readouterr().out == "1\n"


def test_debug_callback():
    seen = []

    def f(x):
        debug.callback(lambda v, scale: seen.append(float(v) * scale), x, scale=10, ordered=True)
        return x + 1

    pyjax.jit(f)(2.0).block_until_ready()
    assert seen == [20]

    debug.callback()(lambda v: seen.append(float(v)), 5.0)
    assert seen == [20, 5]
    shardings = []
    debug.inspect_array_sharding(jnp.ones(2), callback=shardings.append)
    assert shardings[0].num_devices == 1


def test_core_names():
    closed = pyjax.make_jaxpr(lambda x: jnp.sin(x) + 1)(2.0)
    assert isinstance(closed, core.ClosedJaxpr) and isinstance(closed.jaxpr, extend_core.Jaxpr)
    (first, _) = closed.jaxpr.eqns
    assert first.primitive is extend_core.primitives.sin_p
    assert isinstance(closed.jaxpr.eqns[1].invars[1], core.Literal)
    assert isinstance(first.invars[0].aval, core.ShapedArray)
    (value,) = core.eval_jaxpr(closed.jaxpr, closed.consts, 2.0)
    np.testing.assert_allclose(value, np.sin(2) + 1, rtol=1e-6)
    core.check_jaxpr(closed.jaxpr)
    assert core.valid_jaxtype(1.0) and not core.valid_jaxtype("a")
    seen = []
    pyjax.jit(lambda x: seen.append(isinstance(x, core.Tracer)) or x)(1.0)
    assert seen == [True] and not isinstance(jnp.ones(1), core.Tracer)


def test_trace_state():
    outside = core.get_opaque_trace_state()
    assert outside == core.get_opaque_trace_state()
    inside = []

    def f(x):
        inside.append(core.get_opaque_trace_state())
        inside.append(core.unsafe_get_axis_names_DO_NOT_USE())
        return x

    pyjax.vmap(f, axis_name="i")(jnp.ones(2))
    assert inside[0] != outside and inside[1] == ["i"]
    assert core.find_top_trace(()) is core.find_top_trace((1,))
    assert not core.nonempty_axis_env_DO_NOT_USE()


def test_io_callback():
    seen = []

    def note(x):
        seen.append(float(x))
        return np.float32(x + 1)

    @pyjax.jit
    def f(x):
        return io_callback(note, pyjax.ShapeDtypeStruct((), jnp.float32), x, ordered=True) * 2

    assert f(3.0) == 8 and seen == [3]


def test_callbacks_fail_with_the_callers_error():
    def bad(x):
        raise ZeroDivisionError("from the callback")

    with pytest.raises(Exception, match="from the callback"):
        pyjax.jit(lambda x: pyjax.pure_callback(bad, pyjax.ShapeDtypeStruct((), jnp.float32), x))(
            1.0
        ).block_until_ready()


def test_backends_are_started_anew():
    """In a process of its own: the devices of this one have users."""
    code = """
import pyjax, pyjax.numpy as jnp
from pyjax.extend.backend import backends, clear_backends, get_backend
from pyjax.tools.as_jax.private_names import _StartedPlatforms

started = _StartedPlatforms()
assert not started and started.get("cpu") is None
f = pyjax.jit(lambda x: x + 1)
(before,) = pyjax.devices()
assert list(started) == ["cpu"] and started["cpu"] is before.client
assert f(1).device is before and get_backend() is before.client
try:
    pyjax.config.update("jax_num_cpu_devices", 3)
    raise AssertionError("changed")
except RuntimeError as error:
    assert "initialised already" in str(error)
clear_backends()
assert not started
pyjax.config.update("jax_num_cpu_devices", 3)
first, _, last = pyjax.devices()
assert first is not before and list(backends()) == ["cpu"]
assert f(1).device is first and (jnp.ones(2) + 1.0).device is first
assert f(pyjax.device_put(1, last)).device is last
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
