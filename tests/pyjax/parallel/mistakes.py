"""Mistakes with arrays and programs over devices: what they are told. `test_mistakes.py` compares;
as a program this makes them all, on eight devices, and writes down what came (JSON).

A message has four parts: what happened, the user's line, why, and what to write instead.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.sharding import AxisType, Mesh, NamedSharding, reshard
from pyjax.sharding import PartitionSpec as P


@dataclass(frozen=True)
class Mistake:
    """`what`, `why`, `fix`: regular expressions of these parts of the message."""

    kind: str
    what: str
    why: str
    fix: str
    call: Callable[[Any], object]


class Setting:
    """What mistakes are made with."""

    def __init__(self) -> None:
        self.devices = pyjax.devices()
        self.mesh = Mesh(np.array(self.devices).reshape(2, 4), ("a", "b"))
        self.half = Mesh(np.array(self.devices[:4]), ("h",))
        self.data = np.arange(64, dtype=np.float32).reshape(8, 8)
        self.ones = np.ones(7, np.float32)

    def over(self, *entries: Any) -> NamedSharding:
        return NamedSharding(self.mesh, P(*entries))

    def over_half(self) -> NamedSharding:
        return NamedSharding(self.half, P("h"))

    def cut(self, *entries: Any) -> pyjax.Array:
        return pyjax.device_put(self.data, self.over(*entries))

    def mapped(self, f: Any, in_spec: str = "a", out_spec: str = "a", **how: Any) -> Any:
        how = {"mesh": self.mesh} | how
        return pyjax.shard_map(f, in_specs=P(in_spec), out_specs=P(out_spec), **how)


same = lambda x: x
twice = lambda x: 2 * x
UNEVEN = "dimension 0 of shape \\(7,\\) is split into 2 parts, but 7 is not divisible by 2"
PARTS = ("all devices have parts of one shape", "pad the array, use another mesh, or")
INCOMPATIBLE = ("all arrays of a program lie over the same devices", "make all meshes of the same")
UNBOUND = ("need an enclosing map over that axis", "vmap\\(f, axis_name='k'\\)")
GONE = ("its memory was given away", "keep the function's result instead, or do not donate")
STAYS = ("an array that was put somewhere is moved to other devices", "device_put")
NAMES = ("each axis has a name and a size", "as many names as sizes")


def donated(s: Setting, f: Any) -> None:
    x = s.cut("a")
    pyjax.jit(f, donate_argnums=0)(x)
    jnp.sin(x)


def not_usable(s: Setting) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pyjax.jit(lambda x: x.sum(), donate_argnums=0)(s.cut("a"))


def both_donated(s: Setting) -> None:
    x = s.cut("a")
    pyjax.jit(lambda x, y: (x + y, y), donate_argnums=(0, 1))(x, x)


MISTAKES: dict[str, Mistake] = {
    # -- shapes that do not divide ---------------------------------------------------------------
    "put, uneven": Mistake(
        "IndivisibleError", UNEVEN, *PARTS, lambda s: pyjax.device_put(s.ones, s.over("a"))
    ),
    "an argument, uneven": Mistake(
        "IndivisibleError", f"One of the arguments .*{UNEVEN}", *PARTS,
        lambda s: pyjax.jit(same, in_shardings=s.over("a"))(s.ones),
    ),
    "a result, uneven": Mistake(
        "IndivisibleError", f"One of the results .*{UNEVEN}", *PARTS,
        lambda s: pyjax.jit(same, out_shardings=s.over("a"))(s.ones),
    ),
    "a constraint, uneven": Mistake(
        "IndivisibleError", UNEVEN, *PARTS,
        lambda s: lax.with_sharding_constraint(jnp.ones(7), s.over("a")),
    ),
    "an array of callbacks, uneven": Mistake(
        "IndivisibleError", UNEVEN, *PARTS,
        lambda s: pyjax.make_array_from_callback((7,), s.over("a"), lambda index: s.ones[index]),
    ),
    "a block, uneven": Mistake(
        "ValueError", "argument x of type float32\\[7\\] is not evenly divisible: in_specs has P",
        "on blocks of one shape; the mesh is Mesh\\('a': 2", "pad the array, use another mesh, or",
        lambda s: s.mapped(same)(s.ones),
    ),
    "more examples than devices": Mistake(
        "ValueError", "requires 9 logical devices, but only 8 devices are available",
        "one example on each device", "use vmap to run several on one",
        lambda s: pyjax.pmap(same)(np.ones(9)),
    ),
    "two numbers of examples": Mistake(
        "ValueError", "pmap got inconsistent sizes for array axes to be mapped: \\[4, 2\\]",
        "its example of every mapped argument", "as many examples, or .*in_axes=None",
        lambda s: pyjax.pmap(lambda x, y: x + y)(np.ones(4), np.ones(2)),
    ),
    "a spec that is too long": Mistake(
        "ValueError", "only valid for values of rank at least 2, but .* of rank 1",
        "how one dimension is split", "Leave out entries",
        lambda s: pyjax.device_put(np.ones(8), s.over("a", "b")),
    ),
    # -- axes that there are not -----------------------------------------------------------------
    "a spec of another axis": Mistake(
        "ValueError", "Resource axis: k of P\\('k',\\) is not found in mesh: \\('a', 'b'\\)",
        "names axes of the mesh", "name one of them, or add the axis", lambda s: s.over("k"),
    ),
    "in_specs of another axis": Mistake(
        "ValueError", "in_specs is P\\('k',\\), which names 'k', but .* axes \\('a', 'b'\\) only",
        "the mesh is Mesh\\('a': 2", "name these axes in specs, or others in axis_names",
        lambda s: s.mapped(same, "k")(s.data),
    ),
    "out_specs of another axis": Mistake(
        "ValueError", "out_specs is P\\('k',\\), which names 'k'", "the mesh is Mesh\\('a': 2",
        "name these axes in specs", lambda s: s.mapped(same, "a", "k")(s.data),
    ),
    "a sum over another axis": Mistake(
        "NameError", "unbound axis name: k. Axis names bound here: a, b", *UNBOUND,
        lambda s: pyjax.jit(s.mapped(lambda x: lax.psum(x, "k")))(s.data),
    ),
    "a sum over another axis of pmap": Mistake(
        "NameError", "unbound axis name: k. Axis names bound here: i", *UNBOUND,
        lambda s: pyjax.pmap(lambda x: lax.psum(x, "k"), axis_name="i")(s.data),
    ),
    "a sum that names an axis twice": Mistake(
        "ValueError", "a collective over \\('a', 'a'\\) names an axis twice", "takes part once",
        "name each axis once", lambda s: s.mapped(lambda x: lax.psum(x, ("a", "a")))(s.data),
    ),
    "groups of positions along dimensions": Mistake(
        "ValueError", "psum over \\('a', 0\\) with axis_index_groups", "positions along named axes",
        "psum\\(x.sum\\(0\\), axis_name",
        lambda s: s.mapped(lambda x: lax.psum(x, ("a", 0), axis_index_groups=[[0, 1]]))(s.data),
    ),
    "a mean over dimensions": Mistake(
        "ValueError", "number of values of a sum over \\('a', 0\\)", "a number has no dimensions",
        "x.mean\\(0\\)", lambda s: s.mapped(lambda x: lax.pmean(x, ("a", 0)))(s.data),
    ),
    "an axis for two dimensions": Mistake(
        "DuplicateSpecError", "P\\('a', 'a'\\) has duplicate entries for `a`",
        "parts of one dimension", "another axis of the mesh, or None", lambda s: s.over("a", "a"),
    ),
    "no mesh in context": Mistake(
        "ValueError", "reshard got P\\('a',\\)", "name axes of a mesh", "set_mesh",
        lambda s: reshard(s.data, P("a")),
    ),
    # -- meshes of wrong numbers of devices ------------------------------------------------------
    "a mesh of too many": Mistake(
        "ValueError", "Number of devices 8 must be >= the product of mesh_shape \\(3, 4\\)",
        "Each place of a mesh is a device of its own", "pyjax.device_count\\(\\)",
        lambda s: pyjax.make_mesh((3, 4), ("a", "b")),
    ),
    "a mesh of too few": Mistake(
        "ValueError", "Number of devices 4 must be >= the product of mesh_shape \\(2, 4\\)",
        "Each place of a mesh", "Make the mesh smaller",
        lambda s: pyjax.make_mesh((2, 4), ("a", "b"), devices=s.devices[:4]),
    ),
    "sizes without names": Mistake(
        "ValueError", "make_mesh: 2 sizes for 1 axis names", *NAMES,
        lambda s: pyjax.make_mesh((2, 4), ("a",)),
    ),
    "names without sizes": Mistake(
        "ValueError", "AbstractMesh: 1 sizes for 2 axis names", *NAMES,
        lambda s: pyjax.sharding.AbstractMesh((2,), ("a", "b")),
    ),
    "dimensions without names": Mistake(
        "ValueError", "devices.ndim == 2 and len\\(axis_names\\) == 1", "is an axis of the mesh",
        "name as many axes", lambda s: Mesh(np.array(s.devices).reshape(2, 4), ("a",)),
    ),
    "a name for two axes": Mistake(
        "ValueError", "axis names must be distinct and not None, got \\('a', 'a'\\)",
        "which one they mean", "a name of its own",
        lambda s: Mesh(np.array(s.devices).reshape(2, 4), ("a", "a")),
    ),
    "a device for two places": Mistake(
        "ValueError", "cpu:0 is named 2 times among 2 devices", "runs one part of a program",
        "name each device once",
        lambda s: pyjax.device_put(
            np.ones(2), NamedSharding(Mesh(np.array(s.devices[:1] * 2), ("i",)), P("i"))
        ),
    ),
    # -- meshes that do not go together ----------------------------------------------------------
    "arguments of two meshes": Mistake(
        "ValueError", "arguments are committed to different devices: float32\\[8,8\\] on .*cpu:7",
        "stays there, and a program runs in one place", "Move one of them with pyjax.device_put",
        lambda s: pyjax.jit(jnp.add)(s.cut("a"), pyjax.device_put(s.data, s.over_half())),
    ),
    "an argument elsewhere": Mistake(
        "ValueError", "arguments are committed to different devices: .* on cpu:1",
        "stays there", "pyjax.device_put",
        lambda s: s.cut("a") + pyjax.device_put(s.data, s.devices[1]),
    ),
    "a constraint of another mesh": Mistake(
        "ValueError", "Received incompatible devices for jitted computation .*Mesh\\('h': 4",
        *INCOMPATIBLE,
        lambda s: pyjax.jit(lambda x: lax.with_sharding_constraint(x, s.over_half()))(s.cut("a")),
    ),
    "a constraint along the axis of vmap": Mistake(
        "ValueError", "vmap spmd_axis_name \\('a',\\) cannot appear in with_sharding_constraint",
        "cut along \\['a'\\] already", "use another mesh axis",
        lambda s: pyjax.vmap(
            lambda x: lax.with_sharding_constraint(x, s.over("a")), spmd_axis_name="a"
        )(s.data),
    ),
    "a map over another mesh": Mistake(
        "ValueError", "Received incompatible devices for jitted computation shard_map",
        *INCOMPATIBLE, lambda s: s.mapped(same)(pyjax.device_put(s.data, s.over_half())),
    ),
    "a map of another mesh inside": Mistake(
        "ValueError", "the mesh in context, AbstractMesh\\('a': 2.*is not the mesh that is passed",
        "would be taken for those of the other", "leave out mesh=",
        lambda s: s.mapped(s.mapped(same, "h", "h", mesh=s.half))(s.data),
    ),
    "arguments and results of two meshes": Mistake(
        "ValueError", "in_shardings and out_shardings are over different devices",
        "on those of one mesh together", "name the same devices, in the same order",
        lambda s: pyjax.jit(same, in_shardings=s.over("a"), out_shardings=s.over_half())(s.data),
    ),
    # -- shardings of donated arguments ----------------------------------------------------------
    "donated, and used again": Mistake(
        "RuntimeError", "Array has been deleted with shape=float32\\[8,8\\]", *GONE,
        lambda s: donated(s, twice),
    ),
    "donated to a map, and used again": Mistake(
        "RuntimeError", "Array has been deleted with shape=float32\\[8,8\\]", *GONE,
        lambda s: donated(s, s.mapped(twice)),
    ),
    "donated, and passed twice": Mistake(
        "JaxRuntimeError", "the same array, .* as argument 'x', which is donated, and as argument",
        "may still read the other one", "pass a copy for one of them", both_donated,
    ),
    "donated, and laid out otherwise": Mistake(
        "ValueError", "Sharding passed to jit does not match the sharding on the respective arg",
        *STAYS,
        lambda s: pyjax.jit(twice, donate_argnums=0, in_shardings=s.over("b"))(s.cut("a")),
    ),
    "donated for nothing": Mistake(
        "UserWarning", "Some donated buffers were not usable: float32\\[8,8\\]",
        "No result of <lambda> of the same shape and dtype", "do not donate them", not_usable,
    ),
}  # fmt: skip

# Messages of which the parts are not lines of their own.
IN_ONE_LINE = ("donated for nothing",)


def main() -> None:
    setting, found = Setting(), {}
    for name, mistake in MISTAKES.items():
        try:
            mistake.call(setting)
            found[name] = ["nothing", ""]
        except Exception as error:
            found[name] = [type(error).__name__, str(error)]
    assert AxisType.Auto in setting.mesh.axis_types
    print(json.dumps(found))


if __name__ == "__main__":
    main()
