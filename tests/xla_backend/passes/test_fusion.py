"""What is fused with what."""

import pytest
from pass_checks import check_pass

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.fusion import LoopFusion

ADD = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
"""


def fusions(body: str, prefix: str = "") -> list[str]:
    """Opcodes of each fusion's roots, in the entry's order; the module is checked on the way."""
    module = check_pass(
        LoopFusion(), f"HloModule m\n{prefix}\nENTRY main {{\n{body}\n}}\n", exact=False
    )
    found = []
    for node in module.entry.post_order():
        if node.opcode.value == "fusion":
            root = node.called[0].root
            roots = root.operands if root.opcode.value == "tuple" else [root]
            found.append("+".join(r.opcode.value for r in roots))
        else:
            assert not node.opcode.is_elementwise or node.opcode.value == "copy"
    return found


def test_chain_is_one_fusion():
    assert fusions("""
      p = f32[8] parameter(0)
      a = f32[8] exponential(p)
      b = f32[8] add(a, p)
      ROOT r = f32[8] tanh(b)""") == ["tanh"]


def test_cheap_producer_is_duplicated():
    assert fusions("""
      p = f32[8] parameter(0)
      a = f32[8] add(p, p)
      b = f32[8] sine(a)
      t = f32[8] transpose(b), dimensions={0}
      c = f32[4] slice(a), slice={[0:4]}
      ROOT r = (f32[8], f32[4]) tuple(t, c)""") == ["transpose", "slice"]


def test_expensive_producer_of_equal_consumers_makes_one_fusion_of_several_outputs():
    assert fusions("""
      p = f32[8] parameter(0)
      a = f32[8] exponential(p)
      b = f32[8] add(a, p)
      c = f32[8] multiply(a, a)
      ROOT r = (f32[8], f32[8]) tuple(b, c)""") == ["add+multiply"]


def test_expensive_producer_of_unlike_consumers_is_computed_once():
    assert fusions("""
      p = f32[8] parameter(0)
      a = f32[8] exponential(p)
      b = f32[8] add(a, p)
      c = f32[4] slice(a), slice={[0:4]}
      ROOT r = (f32[8], f32[4]) tuple(b, c)""") == ["exponential+add", "slice"]


def test_expensive_producer_is_not_recomputed_under_a_broadcast():
    assert fusions("""
      p = f32[8] parameter(0)
      a = f32[8] exponential(p)
      b = f32[100,8] broadcast(a), dimensions={1}
      q = f32[100,8] parameter(1)
      ROOT r = f32[100,8] add(b, q)""") == ["exponential", "add"]


def test_sibling_reduces_share_one_pass():
    assert fusions(
        """
      p = f32[8,8] parameter(0)
      z = f32[] constant(0)
      s = f32[8,8] multiply(p, p)
      a = f32[8] reduce(p, z), dimensions={1}, to_apply=add
      b = f32[8] reduce(s, z), dimensions={1}, to_apply=add
      ROOT r = (f32[8], f32[8]) tuple(a, b)""",
        ADD,
    ) == ["reduce+reduce"]


def test_softmax_is_five_fusions():
    assert (
        len(
            fusions(
                """
      p = f32[8,8] parameter(0)
      z = f32[] constant(0)
      m = f32[8] reduce(p, z), dimensions={1}, to_apply=add
      mb = f32[8,8] broadcast(m), dimensions={0}
      c = f32[8,8] subtract(p, mb)
      e = f32[8,8] exponential(c)
      s = f32[8] reduce(e, z), dimensions={1}, to_apply=add
      sb = f32[8,8] broadcast(s), dimensions={0}
      ROOT r = f32[8,8] divide(e, sb)""",
                ADD,
            )
        )
        == 4
    )


def test_no_cycle_through_a_reduce():
    assert fusions(
        """
      p = f32[8] parameter(0)
      z = f32[] constant(0)
      e = f32[8] exponential(p)
      s = f32[] reduce(e, z), dimensions={0}, to_apply=add
      b = f32[8] broadcast(s), dimensions={}
      ROOT r = f32[8] divide(e, b)""",
        ADD,
    ) == ["exponential", "reduce", "divide"]


def test_scalars_become_one_fusion():
    assert fusions("""
      i = s32[] parameter(0)
      x = f32[] parameter(1)
      one = s32[] constant(1)
      next = s32[] add(i, one)
      f = f32[] convert(i)
      y = f32[] multiply(x, f)
      w = f32[] sine(y)
      v = f32[] add(y, w)
      ROOT r = (s32[], f32[], f32[]) tuple(next, w, v)""") == ["add+sine+add"]


def test_in_place_update_reads_only_what_it_writes():
    # x[2] += 1 may read the window it writes; x[2] = x[1] must not be one fusion with the
    # reading of x[1].
    same = """
      x = f32[8] parameter(0)
      i = s32[] parameter(1)
      one = f32[1] parameter(2)
      w = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}
      u = f32[1] add(w, one)
      ROOT r = f32[8] dynamic-update-slice(x, u, i)"""
    assert fusions(same) == ["dynamic-update-slice"]
    other = same.replace("dynamic-slice(x, i)", "dynamic-slice(x, j)").replace(
        "one =", "j = s32[] parameter(3)\n one ="
    )
    assert len(fusions(other)) == 2


@pytest.mark.parametrize(
    "window, start, count",
    [
        ("[1:7]", 1, 1),
        ("[2:8]", 5, 1),  # the start is clamped to 2
        ("[0:6]", -1, 1),
        ("[0:6]", 1, 2),
        ("[0:8:2]", 0, 2),
    ],
)
def test_in_place_update_at_a_constant_place(window: str, start: int, count: int) -> None:
    taken = 4 if window.endswith(":2]") else 6
    text = f"""
      x = f32[8] parameter(0)
      v = f32[{taken}] parameter(1)
      i = s32[] constant({start})
      w = f32[{taken}] slice(x), slice={{{window}}}
      u = f32[{taken}] add(w, v)
      ROOT r = f32[8] dynamic-update-slice(x, u, i)"""
    assert len(fusions(text)) == count


def test_reshape_of_a_parameter_stays_free():
    assert fusions("""
      p = f32[2,4] parameter(0)
      a = f32[8] reshape(p)
      ROOT r = f32[8] tanh(a)""") == ["tanh"]


def test_nothing_to_fuse():
    check_pass(
        LoopFusion(),
        """
      HloModule m

      ENTRY main {
        p = f32[2,4] parameter(0)
        q = f32[4,2] parameter(1)
        ROOT r = f32[2,2] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      }""",
        expect_change=False,
    )


def test_cheap_outputs_are_computed_again_by_their_reader():
    # The normalised x is not kept for the second sum: x and the scale are in memory anyway.
    found = fusions(
        """
        x = f32[64,128] parameter(0)
        s = f32[64] parameter(1)
        g = f32[128] parameter(2)
        w = f32[128,128] parameter(3)
        sb = f32[64,128] broadcast(s), dimensions={0}
        gb = f32[64,128] broadcast(g), dimensions={1}
        n = f32[64,128] multiply(x, sb)
        y = f32[64,128] multiply(n, gb)
        d = f32[64,128] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        m = f32[64,128] multiply(d, n)
        ROOT r = f32[64,128] tanh(m)
        """
    )
    assert found == ["multiply", "tanh"]


def test_expensive_outputs_are_kept():
    found = fusions(
        """
        x = f32[64,128] parameter(0)
        w = f32[128,128] parameter(1)
        n = f32[64,128] tanh(x)
        y = f32[64,128] multiply(n, x)
        d = f32[64,128] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        m = f32[64,128] multiply(d, n)
        ROOT r = f32[64,128] tanh(m)
        """
    )
    assert found == ["tanh+multiply", "tanh"]


def test_what_an_array_is_updated_with_from_its_other_parts_is_one_array():
    """Not one for each slice: what is written over must have been read before."""
    assert fusions("""
      x = f32[10] parameter(0)
      a = f32[8] slice(x), slice={[0:8]}
      b = f32[8] slice(x), slice={[1:9]}
      c = f32[8] slice(x), slice={[2:10]}
      ab = f32[8] add(a, b)
      abc = f32[8] multiply(ab, c)
      one = s32[] constant(1)
      ROOT r = f32[10] dynamic-update-slice(x, abc, one)""") == ["multiply", "dynamic-update-slice"]


def test_what_an_array_is_updated_with_from_the_same_part_is_not():
    assert fusions("""
      x = f32[10] parameter(0)
      one = s32[] constant(1)
      a = f32[8] dynamic-slice(x, one), dynamic_slice_sizes={8}
      y = f32[8] parameter(1)
      b = f32[8] multiply(a, y)
      ROOT r = f32[10] dynamic-update-slice(x, b, one)""") == ["dynamic-update-slice"]


def test_a_diagonal_that_is_read_for_each_row_is_put_together_first():
    """Its elements lie far apart: in the loop each row would gather all of them again."""
    body = """
      p = f32[64,64] parameter(0)
      q = f32[4096] reshape(p)
      d = f32[64] slice(q), slice={[0:4096:65]}
      b = f32[64,64] broadcast(d), dimensions={1}
      ROOT r = f32[64,64] add(p, b)"""
    assert fusions(body) == ["slice", "add"]
    assert fusions(body.replace("0:4096:65", "64:128")) == ["add"]


def test_a_column_that_is_read_once_per_row_is_part_of_the_loop():
    assert fusions("""
      p = f32[64,8] parameter(0)
      c = f32[64,1] slice(p), slice={[0:64], [2:3]}
      s = f32[64] reshape(c)
      b = f32[64,8] broadcast(s), dimensions={0}
      ROOT r = f32[64,8] add(p, b)""") == ["add"]


def test_components_that_are_computed_are_joined_in_a_loop_of_their_own() -> None:
    """Where the target computes them together; inside of another loop each element would compute
    all of them."""
    text = """HloModule m
    ENTRY main {
      x = f32[50] parameter(0)
      y = f32[50] parameter(1)
      a = f32[50] add(x, y)
      b = f32[50] subtract(x, y)
      c = f32[50] multiply(a, b)
      d = f32[50,1] reshape(a)
      e = f32[50,1] reshape(c)
      v = f32[50,2] concatenate(d, e), dimensions={1}
      ROOT r = f32[50,3,2] broadcast(v), dimensions={0,2}
    }"""
    found = []
    for together in (False, True):
        module = parse_module(text)
        assert LoopFusion(together=together).run(module)
        found.append(sum(n.opcode is Opcode.FUSION for n in module.entry.instructions))
    assert found[1] == found[0] + 1


@pytest.mark.parametrize("dimensions, alone", [((1, 2), True), ((0, 1), False)])
def test_components_are_put_together_before_rows_of_them_are_added(
    dimensions: tuple[int, int], alone: bool
) -> None:
    """Loops over rows are not split into one for each component; those of columns are."""
    module = parse_module(f"""HloModule m
    add {{ x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }}
    ENTRY main {{
      x = f32[50,40] parameter(0)
      n = f32[50,40] negate(x)
      a = f32[50,40,1] reshape(x)
      b = f32[50,40,1] reshape(n)
      v = f32[50,40,2] concatenate(a, b), dimensions={{2}}
      zero = f32[] constant(0)
      ROOT r = f32[{50 if alone else 2}] reduce(v, zero),
        dimensions={{{dimensions[0]},{dimensions[1]}}}, to_apply=add
    }}""")
    assert LoopFusion(together=True).run(module)
    roots = {n.called[0].root.opcode for n in module.entry if n.opcode is Opcode.FUSION}
    assert (Opcode.CONCATENATE in roots) == alone


def test_places_of_a_gather_are_components_that_it_reads_one_by_one() -> None:
    """`x[i, j]`: places were written to memory, with their components next to each other."""
    module = parse_module("""HloModule m
    ENTRY main {
      x = f32[1000,1000] parameter(0)
      i = s32[5000] parameter(1)
      j = s32[5000] parameter(2)
      n = s32[] constant(1000)
      all = s32[5000] broadcast(n), dimensions={}
      o = s32[] constant(0)
      zeros = s32[5000] broadcast(o), dimensions={}
      below = pred[5000] compare(i, zeros), direction=LT
      moved = s32[5000] add(i, all)
      row = s32[5000] select(below, moved, i)
      left = pred[5000] compare(j, zeros), direction=LT
      shifted = s32[5000] add(j, all)
      column = s32[5000] select(left, shifted, j)
      rows = s32[5000,1] reshape(row)
      columns = s32[5000,1] reshape(column)
      places = s32[5000,2] concatenate(rows, columns), dimensions={1}
      ROOT g = f32[5000] gather(x, places), offset_dims={}, collapsed_slice_dims={0,1},
        start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}
    }""")
    assert LoopFusion(together=True).run(module)
    assert sum(n.opcode is Opcode.FUSION for n in module.entry.instructions) == 1


def test_places_that_are_numbers_are_computed_where_they_are_read() -> None:
    """`take(x, i)`: what the gather reads and what asks whether it is inside
    counted as two computations, so that half of them was written to memory."""
    assert fusions("""
      x = f32[1000] parameter(0)
      i = s64[5000] parameter(1)
      n = s64[] constant(1000)
      all = s64[5000] broadcast(n), dimensions={}
      o = s64[] constant(0)
      zeros = s64[5000] broadcast(o), dimensions={}
      below = pred[5000] compare(i, zeros), direction=LT
      moved = s64[5000] add(i, all)
      place = s64[5000] select(below, moved, i)
      m = s64[] constant(2147483647)
      most = s64[5000] broadcast(m), dimensions={}
      low = s64[5000] minimum(place, most)
      l = s64[] constant(-2147483648)
      least = s64[5000] broadcast(l), dimensions={}
      high = s64[5000] maximum(low, least)
      narrow = s32[5000] convert(high)
      places = s32[5000,1] reshape(narrow)
      g = f32[5000] gather(x, places), offset_dims={}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={1}
      p = s32[] constant(0)
      none = s32[5000,1] broadcast(p), dimensions={}
      inside = pred[5000,1] compare(places, none), direction=GE
      flat = pred[5000] reshape(inside)
      q = f32[] constant(nan)
      nan = f32[5000] broadcast(q), dimensions={}
      ROOT r = f32[5000] select(flat, g, nan)""") == ["select"]


def _rows_at_places(columns: int) -> str:
    return f"""
      x = f32[1000,{columns}] parameter(0)
      i = s64[5000] parameter(1)
      n = s64[] constant(1000)
      all = s64[5000] broadcast(n), dimensions={{}}
      o = s64[] constant(0)
      zeros = s64[5000] broadcast(o), dimensions={{}}
      below = pred[5000] compare(i, zeros), direction=LT
      moved = s64[5000] add(i, all)
      place = s64[5000] select(below, moved, i)
      m = s64[] constant(2147483647)
      most = s64[5000] broadcast(m), dimensions={{}}
      low = s64[5000] minimum(place, most)
      l = s64[] constant(-2147483648)
      least = s64[5000] broadcast(l), dimensions={{}}
      high = s64[5000] maximum(low, least)
      narrow = s32[5000] convert(high)
      places = s32[5000,1] reshape(narrow)
      g = f32[5000,{columns}] gather(x, places), offset_dims={{1}}, collapsed_slice_dims={{0}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}
      p = s32[] constant(0)
      none = s32[5000,1] broadcast(p), dimensions={{}}
      inside = pred[5000,1] compare(places, none), direction=GE
      flat = pred[5000] reshape(inside)
      wide = pred[5000,{columns}] broadcast(flat), dimensions={{0}}
      q = f32[] constant(nan)
      nan = f32[5000,{columns}] broadcast(q), dimensions={{}}
      ROOT r = f32[5000,{columns}] select(wide, g, nan)"""


@pytest.mark.parametrize("columns", [2, 4, 1000])
def test_places_of_rows_are_computed_where_they_are_read(columns: int) -> None:
    """`take(x, i, axis=0)`: each place is computed once for its row, and counted as if it were
    for each element, so that half of the places were written to memory."""
    assert fusions(_rows_at_places(columns)) == ["select"]


def _crop_of_padded(size: int) -> str:
    return f"""
      p = f32[{size},{size}] parameter(0)
      k = s32[] parameter(1)
      r = f32[{size},{size}] reverse(p), dimensions={{0}}
      a = f32[{2 * size},{size}] concatenate(p, r), dimensions={{0}}
      b = f32[{2 * size},{size}] reverse(a), dimensions={{1}}
      c = f32[{2 * size},{2 * size}] concatenate(a, b), dimensions={{1}}
      s = f32[{size},{size}] dynamic-slice(c, k, k), dynamic_slice_sizes={{{size},{size}}}
      ROOT e = f32[{size},{size}] negate(s)"""


def test_joins_of_joins_that_are_read_at_run_time_are_arrays():
    """Each element asks which operand it is of, and computes all: four here, nine of an image that
    is padded by reflection."""
    assert fusions(_crop_of_padded(16)) == ["concatenate", "negate"]


def test_small_joins_of_joins_are_computed_where_they_are_read():
    assert fusions(_crop_of_padded(4)) == ["negate"]


def test_joins_of_joins_whose_places_are_known_are_one_fusion():
    assert fusions("""
      p = f32[64,64] parameter(0)
      r = f32[64,64] reverse(p), dimensions={0}
      a = f32[128,64] concatenate(p, r), dimensions={0}
      b = f32[128,64] reverse(a), dimensions={1}
      c = f32[128,128] concatenate(a, b), dimensions={1}
      ROOT e = f32[128,128] negate(c)""") == ["negate"]
