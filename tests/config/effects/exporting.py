"""Options of exported programs, and of what they and lowered programs look like."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax.experimental.compilation_cache import compilation_cache
from pyjax.sharding import AxisType
from tests.config.effects.observe import error_of
from tests.config.effects.table import effect


def exported_negation() -> pyjax.export.Exported:
    return pyjax.export.export(pyjax.jit(jnp.negative))(jnp.ones(3))


@effect("jax_export_calling_convention_version", 10, default=(9, True), changed=(10, True))
def calling_convention_version() -> tuple[int, bool]:
    """What is recorded, and whether the text of the module says the same."""
    exported = pyjax.export.deserialize(exported_negation().serialize())
    version = exported.calling_convention_version
    return version, f"calling_convention_version = {version} :" in exported.mlir_module()


@effect(
    "jax_export_calling_convention_version",
    8,
    default="",
    changed=re.compile(r"ValueError: .* version 8, which is outside the range .* \[9\.\.10\]"),
    ways=("update", "flag"),
)
def unsupported_calling_convention() -> str:
    return error_of(exported_negation)


@effect("jax_export_ignore_forward_compatibility", True, default=(1, True), changed=(2, False))
def format_of_serialized() -> tuple[int, bool]:
    """The format, and whether the program can be read in the bytes."""
    blob = exported_negation().serialize()
    return blob[8], b"stablehlo.negate" in blob


@effect("jax2tf_associative_scan_reductions", True, default=(True, False), changed=(False, True))
def cumulative_reductions() -> tuple[bool, bool]:
    """Whether a program has windows, and whether it has slices of pairs; it gives the same."""
    x = jnp.arange(1.0, 6.0)
    running = pyjax.jit(lambda x: (jnp.cumsum(x), jnp.cumprod(x), pyjax.lax.cumlogsumexp(x)))
    sums, products, logarithms = running(x)
    assert sums.tolist() == [1, 3, 6, 10, 15]
    assert products.tolist() == [1, 2, 6, 24, 120]
    np.testing.assert_allclose(logarithms, np.logaddexp.accumulate(np.asarray(x)), rtol=1e-6)
    text = running.lower(x).as_text()
    return "reduce_window" in text, "stablehlo.slice" in text


@effect(
    "jax_use_shardy_partitioner",
    False,
    default=("sdy.sharding_constraint", '<@mesh, [{"rows"}, {}]>'),
    changed=("@Sharding", "{mesh['rows'=1,'columns'=1], [{'rows'}, {}]}"),
)
def sharding_dialect() -> tuple[str, str]:
    """How the constraint of a program is written; it gives the same."""
    mesh = pyjax.make_mesh((1, 1), ("rows", "columns"), (AxisType.Auto,) * 2)
    sharding = pyjax.NamedSharding(mesh, pyjax.P("rows"))
    laid_out = pyjax.jit(lambda x: pyjax.lax.with_sharding_constraint(x * 2, sharding) + 1)
    x = jnp.ones((2, 3))
    assert laid_out(x).tolist() == [[3] * 3] * 2
    text = laid_out.lower(x).as_text()
    if 'sdy.mesh @mesh = <["rows"=1, "columns"=1]>' in text:
        return re.findall(r"(sdy.sharding_constraint) %\d+ (<.*>) :", text)[0]
    return re.findall(r'custom_call (@Sharding)\(%\d+\) .*mhlo.sharding = "(.*?)"', text)[0]


@effect("jax_xla_profile_version", 3, default=("-1",), changed=("3",))
def recorded_profile_version(scratch: Path) -> tuple[str, ...]:
    folder = scratch / str(len(list(scratch.iterdir())))
    pyjax.jit(lambda x: x + 1).lower(jnp.ones(3)).compile({"xla_dump_to": str(folder)})
    (text,) = [path.read_text() for path in folder.rglob("*compile_options.textproto")]
    return tuple(re.findall(r"profile_version: (-?\d+)", text))


@effect(
    "jax_xla_profile_version",
    3,
    default=re.compile("[.]program$"),
    changed=re.compile("[.]program$"),
    ways=("update", "context"),
)
def program_of_profile_version(scratch: Path) -> str:
    """Under which name a program is on disk, however often it is compiled: another one."""
    before = compilation_cache.cache_status().directory
    compilation_cache.set_cache_dir(str(scratch / str(len(list(scratch.iterdir())))))
    try:
        for _ in range(2):
            pyjax.clear_caches()
            pyjax.jit(lambda x: jnp.tanh(x @ x.T))(jnp.ones((4, 6)))
        kept = Path(compilation_cache.cache_status().directory)
        (name,) = [path.name for path in kept.rglob("*.program")]
    finally:
        pyjax.config.update("jax_compilation_cache_dir", before)
    return name
