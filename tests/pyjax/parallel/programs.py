"""Programs over meshes: each is written once, for the library and for the model of devices.

A program takes `w`, the functions that it calls, and blocks. Axis "j" is there on meshes with two
axes only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Spec = tuple[Any, ...]
I, J, IJ = ("i",), ("j",), (("i", "j"),)
ALL = (None,)


@dataclass(frozen=True)
class Program:
    """`f(w, *blocks)`; whole shapes and specs of the arguments, spec of the result.

    Attributes:
      two: it needs axis "j".   smooth: it has a derivative everywhere.
      proven: types prove that the result is the same along axes that its spec does not name.
    """

    name: str
    f: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    in_specs: Sequence[Spec]
    out_spec: Spec
    two: bool = False
    smooth: bool = True
    proven: bool = True

    def __str__(self) -> str:
        return self.name


def _rotation(w: Any, axis: str) -> list[tuple[int, int]]:
    n = w.axis_size(axis)
    return [(i, (i + 1) % n) for i in range(n)]


PROGRAMS = [
    Program("local", lambda w, x: w.sin(x) * x, [(8,)], [I], I),
    Program("a sum", lambda w, x: w.psum(w.sin(x), "i"), [(8,)], [I], ALL),
    Program("a product with the sum", lambda w, x: w.psum(x, "i") * w.sin(x), [(8,)], [I], I),
    Program("a sum of what all have", lambda w, x: w.psum(w.sin(x), "i"), [(3,)], [ALL], ALL),
    Program("a mean", lambda w, x: w.pmean(x * x, "i"), [(8,)], [I], ALL),
    Program(
        "what all have and a part", lambda w, x, y: w.sin(x * y), [(2, 4), (4,)], [ALL, ALL], ALL
    ),
    Program(
        "weights that all have", lambda w, x, y: w.sin(w.dot(x, y)), [(8, 3), (3,)], [I, ALL], I
    ),
    Program(
        "the sum of a loss",
        lambda w, x, y: w.psum(w.sin(w.dot(x, y)).sum(), "i"),
        [(8, 3), (3,)],
        [I, ALL],
        (),
    ),
    Program("all have the result", lambda w, x: w.sin(x), [(3,)], [ALL], I),
    Program("all parts, stacked", lambda w, x: w.all_gather(w.sin(x), "i") * 2.0, [(8,)], [I], I),
    Program(
        "all parts, joined",
        lambda w, x: w.all_gather(x * x, "i", axis=1, tiled=True),
        [(8, 3)],
        [I],
        I,
    ),
    Program(
        "all parts, the same everywhere",
        lambda w, x: w.sin(w.all_gather(x, "i", tiled=True, to="invarying")),
        [(8,)],
        [I],
        ALL,
    ),
    Program(
        "stacked parts, the same everywhere",
        lambda w, x: w.all_gather(w.sin(x), "i", axis=1, to="invarying"),
        [(8,)],
        [I],
        ALL,
    ),
    Program(
        "a scattered sum",
        lambda w, x: w.psum_scatter(w.sin(x), "i", tiled=True) * 2.0,
        [(4, 8)],
        [(None, "i")],
        I,
    ),
    Program(
        "a scattered sum without its dimension",
        lambda w, x: w.psum_scatter(
            w.tile(w.sin(x), w.axis_size("i")).reshape(w.axis_size("i"), -1), "i"
        ),
        [(8,)],
        [I],
        I,
    ),
    Program(
        "a rotation", lambda w, x: w.ppermute(w.sin(x), "i", _rotation(w, "i")), [(8,)], [I], I
    ),
    Program(
        "a permutation with a gap", lambda w, x: w.ppermute(x * x, "i", [(0, 0)]), [(8,)], [I], I
    ),
    Program(
        "a shuffle",
        lambda w, x: w.pshuffle(w.sin(x), "i", list(range(w.axis_size("i")))[::-1]),
        [(8,)],
        [I],
        I,
    ),
    Program("the first one's", lambda w, x: w.pbroadcast(w.sin(x), "i", 0), [(8,)], [I], I),
    Program(
        "an exchange",
        lambda w, x: w.all_to_all(w.sin(x), "i", 1, 0, tiled=True),
        [(4, 8)],
        [I],
        I,
    ),
    Program(
        "an exchange of whole slices",
        lambda w, x: w.all_to_all(x.reshape(w.axis_size("i"), -1), "i", 0, 1),
        [(16,)],
        [I],
        I,
    ),
    Program("its place", lambda w, x: x * x + w.axis_index("i"), [(8,)], [I], I),
    Program("the largest", lambda w, x: w.pmax(x, "i"), [(8,)], [I], ALL, smooth=False),
    Program("the smallest", lambda w, x: w.pmin(x, "i"), [(8,)], [I], ALL, smooth=False),
    Program(
        "gathered, which is the same",
        lambda w, x: w.all_gather(w.sin(x), "i", tiled=True),
        [(8,)],
        [I],
        ALL,
        proven=False,
    ),
    Program(
        "a loop with sums in it",
        lambda w, x: w.repeated(lambda c: w.psum(w.sin(c), "i") + x, x, 3),
        [(4,)],
        [I],
        I,
    ),
    Program(
        "a loop that begins with the same",
        lambda w, x: w.repeated(
            lambda c: w.sin(c) * x, w.pcast(w.psum(x, "i"), "i", to="varying"), 3
        ),
        [(4,)],
        [I],
        I,
    ),
    Program(
        "a loop of the same, with a rotation",
        lambda w, x, y: w.repeated(lambda c: w.sin(c) * w.psum((x * y).sum(), "i"), y, 2),
        [(4,), (1,)],
        [I, ALL],
        ALL,
    ),
    Program(
        "a branch for each device",
        lambda w, x: w.choose(w.above(x.sum(), 0.5), w.sin, lambda v: v * v, x),
        [(8,)],
        [I],
        I,
    ),
    Program(
        "devices that stop in different rounds",
        lambda w, x: w.until(lambda v: w.above(v.sum(), 3.0), lambda v: v * v + 1.0, x),
        [(4,)],
        [I],
        I,
        smooth=False,
    ),
    # -- two axes ---------------------------------------------------------------------------------
    Program(
        "a sum over one of two",
        lambda w, x: w.psum(w.sin(x), "j"),
        [(4, 6)],
        [("i", "j")],
        I,
        two=True,
    ),
    Program(
        "a sum over both",
        lambda w, x: w.psum(w.sin(x), ("i", "j")),
        [(4, 6)],
        [("i", "j")],
        ALL,
        two=True,
    ),
    Program(
        "one dimension along both",
        lambda w, x: x * x + w.axis_index(("i", "j")),
        [(8,)],
        [IJ],
        IJ,
        two=True,
    ),
    Program(
        "the other order",
        lambda w, x: w.sin(x) + w.axis_index("j"),
        [(8,)],
        [(("j", "i"),)],
        (("j", "i"),),
        two=True,
    ),
    Program(
        "transposed specs", lambda w, x: w.sin(x), [(4, 6)], [("i", "j")], ("i", "j"), two=True
    ),
    Program(
        "all parts along both",
        lambda w, x: w.all_gather(w.sin(x), ("i", "j"), tiled=True),
        [(8,)],
        [IJ],
        IJ,
        two=True,
    ),
    Program(
        "stacked parts along both",
        lambda w, x: w.all_gather(w.sin(x), ("i", "j")),
        [(8,)],
        [IJ],
        IJ,
        two=True,
    ),
    Program(
        "a sum scattered over both",
        lambda w, x: w.psum_scatter(w.sin(x), ("i", "j"), tiled=True),
        [(8, 4)],
        [(None, IJ[0])],
        IJ,
        two=True,
    ),
    Program(
        "a product of matrices in blocks",
        lambda w, x, y: w.psum(w.dot(x, y), "j"),
        [(4, 6), (6, 2)],
        [("i", "j"), ("j", None)],
        I,
        two=True,
    ),
    Program(
        "factors along different axes",
        lambda w, x, y: w.psum(w.sin(x), "i").sum() * y,
        [(8,), (8,)],
        [I, J],
        J,
        two=True,
    ),
]
