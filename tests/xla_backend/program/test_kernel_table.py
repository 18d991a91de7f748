"""Kernels of a program: equal ones are there once, whatever their names."""

from xla_backend.hlo.parser import parse_module
from xla_backend.kernels.ir import Kernel
from xla_backend.program.kernel_table import KernelTable

MODULE = """
twice { x = f32[8] parameter(0)
  ROOT r = f32[8] add(x, x) }
double { y = f32[8] parameter(0)
  ROOT s = f32[8] add(y, y) }
both { x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  ROOT r = f32[8] add(x, y) }
ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  a.1 = f32[8] fusion(p), kind=kLoop, calls=twice
  b = f32[8] fusion(p, q), kind=kLoop, calls=both
  c = f32[8] fusion(q), kind=kLoop, calls=double
  a.2 = f32[8] multiply(p, q)
  d = f32[8] multiply(a.1, a.1)
  e = f32[8] multiply(b, c)
  ROOT r = (f32[8], f32[8], f32[8]) tuple(a.2, d, e)
}
"""


class _Counting:
    """Schedules nothing, and counts how often it was asked to."""

    reduces_in_parts = True

    def __init__(self) -> None:
        self.scheduled: list[str] = []

    def kernel(self, kernel: Kernel) -> float:
        self.scheduled.append(kernel.name)
        return float(len(self.scheduled))

    def epilogue(self, kernel: Kernel, *, whole: bool) -> float:
        return self.kernel(kernel)


def test_equal_kernels_are_made_once() -> None:
    entry = parse_module(MODULE).entry
    assert entry is not None
    nodes = {node.name: node for node in entry}
    scheduler = _Counting()
    table = KernelTable(scheduler)
    names = ["a.1", "b", "c", "a.2", "d", "e"]
    found = {name: table.get(nodes[name]) for name in names}
    # `c` is `a.1` again. `b` and `d` look the same from afar, and are not: one reads two arrays,
    # the other one array twice.
    assert found["c"] is found["a.1"] and found["e"] is found["a.2"]
    assert scheduler.scheduled == ["a_1", "b", "a_2", "d"]
    assert list(table.kernels()) == scheduler.scheduled
    assert table.instructions == {
        "a_1": ["a.1", "c"],
        "b": ["b"],
        "a_2": ["a.2", "e"],
        "d": ["d"],
    }
    assert [found[name].cycles for name in names] == [1.0, 2.0, 1.0, 3.0, 4.0, 3.0]


def test_variants_and_names_are_told_apart() -> None:
    entry = parse_module(MODULE).entry
    assert entry is not None
    (node,) = (n for n in entry if n.name == "a.1")
    table = KernelTable(_Counting())
    plain, other = table.get(node), table.get(node, variant="other")
    assert (plain.kernel.name, other.kernel.name) == ("a_1", "a_1_1")
    assert table.get(node) is plain and table.get(node, variant="other") is other
