"""ScatterPrologueFusion: light work on the indices and updates of a scatter becomes part of it."""

import numpy as np
import pytest
from pass_checks import check_pass

from xla_backend import compile, parse_hlo
from xla_backend.passes.scatter_prologue_fusion import ScatterPrologueFusion

CALLED = """
HloModule m
%add {
  %a = s32[] parameter(0)
  %b = s32[] parameter(1)
  ROOT %r = s32[] add(%a, %b)
}
%ones {
  %one = s32[] constant(1)
  ROOT %all = s32[6] broadcast(%one), dimensions={}
}
%doubled {
  %i = s32[6] parameter(0)
  ROOT %d = s32[6] add(%i, %i)
}
%heavy {
  %i = s32[6] parameter(0)
  %d = s32[6] divide(%i, %i)
  ROOT %e = s32[6] power(%d, %i)
}
%heavier {
  %i = s32[6] parameter(0)
  %d = s32[6] divide(%i, %i)
  ROOT %e = s32[6] power(%d, %i)
}
"""
SCATTER = """scatter(%x, %places, %u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add"""
ENTRY = """
ENTRY %main {{
  %x = s32[5] parameter(0)
  %i = s32[6] parameter(1)
  %u = s32[6] fusion({given}), kind=kLoop, calls={updates}
  %d = s32[6] fusion(%i), kind=kLoop, calls={places}
  %places = s32[6,1] reshape(%d)
  {root}%s = s32[5] {scatter}
  {more}
}}"""


def program(given="", updates="%ones", places="%doubled", root="ROOT ", more=""):
    parts = {"given": given, "updates": updates, "places": places, "root": root, "more": more}
    return CALLED + ENTRY.format(scatter=SCATTER, **parts)


def test_updates_and_places_join_the_scatter():
    check_pass(
        ScatterPrologueFusion(),
        program().replace(
            "HloModule m",
            """HloModule m
        // CHECK:      %fused_scatter
        // CHECK-DAG:    [[U:%[^ ]+]] = s32[6] broadcast(
        // CHECK-DAG:    [[P:%[^ ]+]] = s32[6,1] reshape(
        // CHECK:        ROOT {{.*}} scatter({{[^,]*}}, [[P]], [[U]])
        // CHECK:      ENTRY
        // CHECK-NOT:    scatter(
        // CHECK:        ROOT {{.*}} fusion({{.*}}), kind=kInput, calls=%fused_scatter""",
        ),
        exact=False,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"given": "%i", "updates": "%heavy", "places": "%heavier"},
        {
            "places": "%heavy",
            "root": "",
            "more": "ROOT %t = (s32[5], s32[6]) tuple(%s, %u)",
        },
    ],
    ids=["heavy", "others read it"],
)
def test_what_stays(changes):
    check_pass(ScatterPrologueFusion(), program(**changes), expect_change=False)


def test_places_of_windows_stay():
    """Each element of a window would compute where the window is."""
    text = (
        program(updates="%ones")
        .replace("s32[5]", "s32[5,2]")
        .replace("ROOT %all = s32[6]", "ROOT %all = s32[6,2]")
    )
    text = text.replace("%u = s32[6]", "%u = s32[6,2]")
    text = text.replace("update_window_dims={}", "update_window_dims={1}")
    check_pass(
        ScatterPrologueFusion(),
        text.replace(
            "HloModule m",
            """HloModule m
        // CHECK:      %fused_scatter
        // CHECK-NOT:    add(%
        // CHECK:        ROOT {{.*}} scatter(
        // CHECK:      ENTRY
        // CHECK:        calls=%doubled
        // CHECK:        calls=%fused_scatter""",
        ),
        exact=False,
    )


BY_ITSELF = """
add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}
ENTRY main {
  x = s32[N] parameter(0)
  one = s32[] constant(1)
  ones = s32[N] broadcast(one), dimensions={}
  y = s32[N] add(x, ones)
  two = s32[] constant(2)
  twos = s32[N] broadcast(two), dimensions={}
  updates = s32[N] multiply(y, twos)
  places = s32[N,1] reshape(y)
  ROOT s = s32[N] scatter(y, places, updates), update_window_dims={},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
}"""


@pytest.mark.parametrize("n", [9, 200_003])
def test_updates_made_of_what_is_updated(n):
    """The array is written in place, and read by what the scatter now computes: from a copy."""
    x = np.random.default_rng(0).integers(-1, 6, n).astype(np.int32)
    (got,) = compile(parse_hlo(BY_ITSELF.replace("[N", f"[{n}"))).execute([x])
    y = x + 1
    inside = (y >= 0) & (y < n)
    expected = y.copy()
    np.add.at(expected, y[inside], 2 * y[inside])
    np.testing.assert_array_equal(got, expected)
