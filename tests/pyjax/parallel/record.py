"""Records what JAX makes of programs with shard_map: `python tests/pyjax/parallel/record.py` where
JAX is installed writes recorded.json, which test_recorded.py compares.

The functions below are called with the library, here JAX.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("recorded.json")


class Setting:
    """The library, and what programs are made of."""

    def __init__(self, library: Any) -> None:
        self.np, self.lax, self.P = library.numpy, library.lax, library.P
        self.library = library
        mesh = library.sharding.AbstractMesh
        kinds = (library.sharding.AxisType.Auto,) * 2
        self.meshes = {1: mesh((4,), ("i",), kinds[:1]), 2: mesh((2, 2), ("i", "j"), kinds)}

    def over(self, f: Any, in_specs: Any, out_specs: Any, axes: int = 1, **how: Any) -> Any:
        mesh = self.meshes[axes]
        return self.library.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **how)


X = [0.5, -1.0, 2.0, 0.25, 1.5, -0.75, 3.0, 1.0]


def a_sum(s: Setting) -> Any:
    return s.over(lambda x: s.lax.psum(x, "i"), s.P("i"), s.P())


def a_sum_unchecked(s: Setting) -> Any:
    return s.over(lambda x: s.lax.psum(x, "i"), s.P("i"), s.P(), check_vma=False)


def a_mean(s: Setting) -> Any:
    return s.over(lambda x: s.lax.pmean(s.np.sin(x), "i") * x, s.P("i"), s.P("i"))


def mixed(s: Setting) -> Any:
    return s.over(lambda x: x * s.np.arange(2.0) + 1, s.P("i"), s.P("i"))


def the_largest(s: Setting) -> Any:
    return s.over(lambda x: s.lax.pmax(x, "i"), s.P(), s.P())


def a_place(s: Setting) -> Any:
    return s.over(lambda x: x * s.lax.axis_index("i"), s.P("i"), s.P("i"))


def a_cast(s: Setting) -> Any:
    return s.over(lambda x: s.lax.pcast(x, "i", to="varying"), s.P(), s.P("i"))


def a_loop(s: Setting) -> Any:
    def body(x: Any) -> Any:
        start = s.lax.pcast(s.np.zeros(()), "i", to="varying")
        return s.lax.scan(lambda c, y: (c + y, c * y), start, x)[1]

    return s.over(body, s.P("i"), s.P("i"))


def two_axes(s: Setting) -> Any:
    def body(x: Any) -> Any:
        return s.lax.psum(x, "i") + s.lax.psum(x, ("i", "j"))

    return s.over(body, s.P(("i", "j")), s.P("j"), axes=2)


def one_of_two_axes(s: Setting) -> Any:
    return s.over(lambda x: s.lax.psum(s.np.cos(x), "i"), s.P("i"), s.P(), axes=2, axis_names={"i"})


def a_slope(s: Setting) -> Any:
    f = s.over(lambda x: s.np.sin(x) * s.lax.psum(x, "i"), s.P("i"), s.P("i"))
    return s.library.grad(lambda x: f(x).sum())


def a_slope_unchecked(s: Setting) -> Any:
    f = s.over(lambda x: s.np.sin(x) * s.lax.psum(x, "i"), s.P("i"), s.P("i"), check_vma=False)
    return s.library.grad(lambda x: f(x).sum())


def a_slope_of_what_all_have(s: Setting) -> Any:
    f = s.over(lambda x: s.lax.psum(s.np.sin(x) * s.lax.axis_index("i"), "i"), s.P(), s.P())
    return s.library.grad(lambda x: f(x).sum())


def a_slope_inside(s: Setting) -> Any:
    def body(x: Any) -> Any:
        return s.library.grad(lambda w: (w * x).sum())(s.np.ones(2))

    return s.over(body, s.P("i"), s.P())


def a_curvature(s: Setting) -> Any:
    slope = a_slope(s)
    return s.library.grad(lambda x: (slope(x) ** 2).sum())


def parts(s: Setting) -> Any:
    return s.over(lambda x: s.lax.all_gather(x, "i", tiled=True, to="invarying"), s.P("i"), s.P())


def a_slope_of_parts(s: Setting) -> Any:
    f = parts(s)
    return s.library.grad(lambda x: (f(x) ** 3).sum())


def a_scattered_sum(s: Setting) -> Any:
    return s.over(lambda x: s.lax.psum_scatter(x, "i", tiled=True), s.P(), s.P("i"))


def an_exchange(s: Setting) -> Any:
    return s.over(lambda x: s.lax.all_to_all(x, "i", 0, 0, tiled=True), s.P(), s.P("i"))


def a_rotation(s: Setting) -> Any:
    steps = [(0, 1), (1, 2), (2, 3)]
    return s.over(lambda x: s.lax.ppermute(x, "i", steps), s.P("i"), s.P("i"))


def cut_by_vmap(s: Setting) -> Any:
    f = s.over(lambda x: x * 2, s.P("i"), s.P("i"), axes=2)
    return lambda x: s.library.vmap(f, spmd_axis_name="j")(x.reshape(2, 4))


def cut_by_vmap_twice(s: Setting) -> Any:
    f = s.over(lambda x, y: x + y.sum(), (s.P(), s.P("i")), s.P(), check_vma=False)
    return lambda x: s.library.vmap(f, (0, None), spmd_axis_name="i")(x, x)


PROGRAMS: list[Callable[[Setting], Any]] = [
    a_sum, a_sum_unchecked, a_mean, mixed, the_largest, a_place, a_cast, a_loop, two_axes,
    one_of_two_axes, a_slope, a_slope_unchecked, a_slope_of_what_all_have, a_slope_inside,
    a_curvature, parts, a_slope_of_parts, a_scattered_sum, an_exchange, a_rotation, cut_by_vmap,
]  # fmt: skip
# Their programs are the same equation by equation. The others differ in how constants are written,
# in the order of residuals, or in the collective that a function is made of.
SAME_TEXT = [
    a_sum, a_sum_unchecked, the_largest, a_cast, a_place, two_axes, one_of_two_axes, cut_by_vmap,
]  # fmt: skip


def text_of(library: Any, program: Any) -> str:
    """The jaxpr, in one line, with the members of sets in order."""
    text = " ".join(str(library.make_jaxpr(program)(library.numpy.array(X))).split())
    members = lambda found: ", ".join(sorted(found[1].split(", ")))
    return re.sub(r"(?<=frozenset\(\{)([^}]*)", members, text)


def main() -> None:
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    import jax

    setting = Setting(jax)
    kinds = (jax.sharding.AxisType.Auto,) * 2
    meshes = {
        1: jax.make_mesh((4,), ("i",), kinds[:1]),
        2: jax.make_mesh((2, 2), ("i", "j"), kinds),
    }
    found: dict[str, Any] = {}
    for make in PROGRAMS:
        setting.meshes = meshes  # JAX runs over devices only
        value = jax.jit(make(setting))(jax.numpy.array(X))
        found[make.__name__] = {"value": value.tolist()}
    setting = Setting(jax)
    for make in SAME_TEXT:
        found[make.__name__]["text"] = text_of(jax, make(setting))
    with jax._src.config.disable_vmap_shmap_error(True):
        setting.meshes = meshes
        value = cut_by_vmap_twice(setting)(jax.numpy.array(X))
        found[cut_by_vmap_twice.__name__] = {"value": value.tolist()}
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in found]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
