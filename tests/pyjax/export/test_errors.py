"""What export, call and deserialize say when they cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import export
from pyjax.export import container

ONES = np.ones(3, np.float32)


def exported(platform: str = "cpu") -> export.Exported:
    def scale(x: Any, by: Any) -> Any:
        return {"r": x * by}

    return export.export(pyjax.jit(scale), platforms=[platform])(ONES, {"by": 2.0}["by"])


def export_of(function: Callable[..., Any], **options: Any) -> export.Exported:
    return export.export(pyjax.jit(function), **options)(ONES)


def after_callback(x: Any) -> Any:
    return pyjax.pure_callback(np.sin, x, x)


def after_print(x: Any) -> Any:
    pyjax.debug.print("{}", x)
    return x


def depends_on_platform(x: Any) -> Any:
    return pyjax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str, str]] = {
    # name: call, exception, what, fix
    "another shape": (
        lambda: exported().call(np.ones(4, np.float32), 2.0),
        ValueError,
        r"scale takes float32\[3\] as args\[0\], and is called with float32\[4\]",
        "export the function for this type",
    ),
    "another dtype": (
        lambda: exported().call(ONES.astype(int), 2.0),
        ValueError,
        r"scale takes float32\[3\] as args\[0\], and is called with int32\[3\]",
        "convert the argument",
    ),
    "another dtype of a number": (
        lambda: exported().call(ONES, 2),
        ValueError,
        r"scale takes float32\[\] as args\[1\], and is called with int32\[\]",
        "convert the argument",
    ),
    "another structure": (
        lambda: exported().call(ONES),
        ValueError,
        r"scale was exported for arguments of another structure: at args, children differ: "
        r"\['\[0\]', '\[1\]'\] and \['\[0\]'\]",
        "pass arguments like those that it was exported for",
    ),
    "keyword arguments": (
        lambda: exported().call(ONES, by=2.0),
        ValueError,
        r"another structure: at args, children differ",
        "pass arguments like those that it was exported for",
    ),
    "another platform": (
        lambda: exported("cuda").call(ONES, 2.0),
        ValueError,
        "scale was exported for cuda, and is called on cpu",
        r"export with platforms=\['cpu', ...\]",
    ),
    "unknown platform": (
        lambda: export_of(jnp.sin, platforms=["gpu"]),
        ValueError,
        "export: unknown platform 'gpu'",
        "write 'cuda' or 'rocm'",
    ),
    "a string of platforms": (
        lambda: export_of(jnp.sin, platforms="cpu"),
        TypeError,
        "platforms must be a sequence of names, got the string 'cpu'",
        r"write platforms=\['cpu'\]",
    ),
    "no platform": (
        lambda: export_of(jnp.sin, platforms=[]),
        ValueError,
        "export: platforms is empty",
        "leave platforms out",
    ),
    "a program for each platform": (
        lambda: export_of(depends_on_platform, platforms=["cpu", "tpu"]),
        NotImplementedError,
        "depends_on_platform is another program on tpu than on cpu",
        "export the function once for each platform",
    ),
    "not jitted": (
        lambda: export.export(jnp.zeros),
        ValueError,
        "export takes the result of jit, got <function zeros",
        r"write export\(jit\(f\)\)",
    ),
    "a callback": (
        lambda: export_of(after_callback),
        NotImplementedError,
        "after_callback calls back into Python, and cannot be exported",
        "take pure_callback, io_callback and debug.print out",
    ),
    "a print": (
        lambda: export_of(after_print),
        NotImplementedError,
        "after_print calls back into Python, and cannot be exported",
        "take pure_callback, io_callback and debug.print out",
    ),
    "no derivative": (
        lambda: pyjax.grad(lambda x: export.deserialize(export_of(jnp.sum).serialize()).call(x))(
            ONES
        ),
        ValueError,
        r"no derivative \(VJP\) of sum is available",
        "serialize it with vjp_order=1",
    ),
    "a type that is not registered": (
        lambda: export_of(lambda x: pyjax.tree_util.Partial(jnp.sin, x)).serialize(),
        ValueError,
        "a structure with Partial cannot be serialized",
        "register it with pyjax.export.register_pytree_node_serialization",
    ),
    "keys that cannot be written": (
        lambda: export_of(lambda x: {b"bytes": x}).serialize(),
        ValueError,
        "a dict with the key b'bytes' cannot be serialized",
        "use strings as keys",
    ),
    "no bytes": (
        lambda: export.deserialize("text"),  # type: ignore[arg-type]
        TypeError,
        "deserialize takes bytes, got str",
        "read the file in binary mode",
    ),
    "other bytes": (
        lambda: export.deserialize(b"ML\xefR and so on, as another library writes it"),
        ValueError,
        "these bytes are no serialized program of pyjax",
        "pass all bytes",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name: str) -> None:
    call, kind, what, fix = ERRORS[name]
    with pytest.raises(kind, match=what) as found:
        call()
    lines = str(found.value).splitlines()
    assert len(lines) >= 3, "what, where or why, and what to write instead"
    with pytest.raises(AssertionError, match=fix):
        raise AssertionError(lines[-1])


def test_errors_name_the_users_line() -> None:
    with pytest.raises(ValueError, match=r"test_errors.py:\d+ in test_errors_name_the_users_line"):
        exported().call(ONES, 2)


def test_custom_calls_need_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @tests.own(%x) : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    header, _ = container.read_records(export_of(jnp.negative).serialize())[0]
    blob = container.write_records([(header, text)], 1)
    with pytest.raises(ValueError, match=r"negative has custom calls that cannot .*: tests.own"):
        export.deserialize(blob)
    header["disabled_safety_checks"] = ["custom_call:tests.own"]
    allowed = export.deserialize(container.write_records([(header, text)], 1))
    assert allowed.disabled_safety_checks == (export.DisabledSafetyCheck.custom_call("tests.own"),)


def test_callbacks_are_refused_whatever_the_bytes_promise() -> None:
    text = """func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @pyjax_python_callback(%x) {backend_config = "1"}
        : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    header, _ = container.read_records(export_of(jnp.negative).serialize())[0]
    header["disabled_safety_checks"] = ["custom_call:pyjax_python_callback"]
    with pytest.raises(NotImplementedError, match="calls back into Python"):
        export.deserialize(container.write_records([(header, text)], 1))


def test_disabled_checks() -> None:
    platform = export.DisabledSafetyCheck.platform()
    call = export.DisabledSafetyCheck.custom_call("target")
    assert str(platform) == "platform"
    assert platform.is_custom_call() is None
    assert str(call) == "custom_call:target"
    assert call.is_custom_call() == "target"
    assert call == export.DisabledSafetyCheck.custom_call("target") != platform
    assert len({call, platform, export.DisabledSafetyCheck.platform()}) == 2
