"""Copy insertion and buffer assignment: the copies that are needed, no others, and no
clobbering."""

import numpy as np
import pytest
from pass_checks import random_arguments

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import InputOutputAlias
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes import buffer_values
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.buffer_assignment import BufferKind, assign_buffers
from xla_backend.passes.buffer_sharing import SharingRules
from xla_backend.passes.buffer_values import BufferValues, conflicts_of, values_of
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.tools.arena_interpreter import ArenaInterpreter, MemoryFault

LOOP = """
HloModule m%ALIAS%

cond {
  t = (s32[], %SHAPES%) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(30)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], %SHAPES%) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[8] get-tuple-element(t), index=1
  b = f32[8] get-tuple-element(t), index=2
%BODY%
}

ENTRY main {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  zero = s32[] constant(0)
  x = f32[8] sine(p)
  y = f32[8] cosine(q)
  t = (s32[], %SHAPES%) tuple(zero, x, y)
  w = (s32[], %SHAPES%) while(t), condition=cond, body=body
  wa = f32[8] get-tuple-element(w), index=1
  wb = f32[8] get-tuple-element(w), index=2
  ROOT r = (f32[8], f32[8]) tuple(wa, wb)
}
"""


def loop(body: str) -> str:
    shapes = "f32[8], f32[8]"
    body += f"\n  ROOT r = (s32[], {shapes}) tuple(next, ra, rb)"
    return LOOP.replace("%SHAPES%", shapes).replace("%BODY%", body).replace("%ALIAS%", "")


def run(text: str):
    module = parse_module(text)
    args = random_arguments(module)
    expected = evaluate(module, args)
    build_pipeline(CompileOptions(verify=True)).run(module)
    assignment = assign_buffers(module)
    for e, g in zip(expected, ArenaInterpreter(module, assignment, args).run()):
        np.testing.assert_allclose(g, e, rtol=1e-5, atol=1e-6)
    array_copies = sum(
        node.opcode.value == "copy" and bool(node.shape.dimensions)
        for computation in module.computations
        for node in computation
    )
    return module, assignment, array_copies


# body -> copies of arrays needed
BODIES = {
    "elementwise in place": ("ra = f32[8] sine(a)\n rb = f32[8] add(b, b)", 0),
    "new value uses both": ("ra = f32[8] add(a, b)\n rb = f32[8] multiply(a, b)", 0),
    "invariant": ("ra = f32[8] add(a, b)\n rb = f32[8] copy(b)", 0),
    "swap": ("ra = f32[8] copy(b)\n rb = f32[8] copy(a)", 3),
    "shift": ("ra = f32[8] copy(b)\n rb = f32[8] sine(a)", 2),
    "update in place": ("ra = f32[8] dynamic-update-slice(a, u, i)\n rb = f32[8] sine(b)", 0),
    "update while the old value is wanted": (
        "ra = f32[8] dynamic-update-slice(a, u, i)\n v = f32[8] reverse(ra), dimensions={0}\n"
        " rb = f32[8] add(v, a)",
        2,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_loop_copies(name):
    body, copies = BODIES[name]
    if "(a, u, i)" in body:
        body = " one8 = f32[] constant(1)\n u = f32[1] broadcast(one8), dimensions={}\n" + body
    _, _, found = run(loop(body))
    assert found == copies


def test_outputs_that_are_parameters_constants_or_twice_the_same_are_copied():
    _, assignment, copies = run("""HloModule m

ENTRY main {
  p = f32[8] parameter(0)
  c = f32[2] constant({1, 2})
  s = f32[8] sine(p)
  ROOT r = (f32[8], f32[8], f32[8], f32[2]) tuple(p, s, s, c)
}
""")
    assert copies == 3
    assert assignment.temp_size == 0


def test_donated_parameter_is_written_in_place():
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  s = f32[8] add(p, q)
  ROOT r = (f32[8], f32[8]) tuple(s, %SECOND%)
}
"""
    module, assignment, copies = run(
        text.replace("%SECOND%", "s2").replace(
            "  ROOT", "  s2 = f32[8] reverse(q), dimensions={0}\n  ROOT"
        )
    )
    assert assignment.aliases == {0: 0}
    result = assignment.leaf_slices(module.entry.root)[0]
    assert result is not None and result.kind is BufferKind.PARAMETER
    assert copies == 0


def test_an_output_in_a_parameter_that_was_not_donated_is_a_fault():
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }

ENTRY main {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  ROOT s = f32[8] add(p, q)
}
"""
    module, assignment, _ = run(text)
    module.aliases = ()
    with pytest.raises(MemoryFault, match="output 0 took parameter 0, not donated to it"):
        ArenaInterpreter(module, assignment, random_arguments(module)).run()


def test_donation_is_given_up_rather_than_copied():
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  p = f32[8] parameter(0)
  s = f32[8] reverse(p), dimensions={0}
  ROOT r = (f32[8]) tuple(s)
}
"""
    module, assignment, copies = run(text)
    assert module.aliases == () and assignment.aliases == {}
    assert copies == 0


def test_temporaries_share_the_arena():
    lines = ["p = f32[1000] parameter(0)"]
    for i in range(10):
        source = f"s{i - 1}" if i else "p"
        lines.append(f"r{i} = f32[1000] reverse({source}), dimensions={{0}}")
        lines.append(f"s{i} = f32[1000] sort(r{i}), dimensions={{0}}, to_apply=less")
    lines.append("ROOT r = f32[1000] reverse(s9), dimensions={0}")
    text = (
        "HloModule m\n\nless {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
        " ROOT c = pred[] compare(a, b), direction=LT\n}\n\nENTRY main {\n"
        + "\n".join(lines)
        + "\n}\n"
    )
    _, assignment, _ = run(text)
    assert assignment.temp_size <= 2 * 4032


def test_what_leads_to_an_output_is_in_its_memory():
    """The numbers that are sorted are read once more, for the result that has their size."""
    module, assignment, _ = run(
        """HloModule m
        less {
          a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT l = pred[] compare(a, b), direction=LT
        }
        ENTRY main {
          p = f32[640] parameter(0)
          e = f32[640] tan(p)
          s = f32[640] sort(e), dimensions={0}, to_apply=less
          least = f32[1] slice(s), slice={[0:1]}
          one = f32[] reshape(least)
          all = f32[640] broadcast(one), dimensions={}
          ROOT r = f32[640] subtract(e, all)
        }"""
    )
    large = [
        n for n in module.entry.instructions if n.shape.is_array and n.shape.num_elements == 640
    ]
    kinds = [assignment.slices[n][0].kind for n in large]
    assert kinds.count(BufferKind.OUTPUT) == 2 and kinds.count(BufferKind.TEMP) == 1


def test_unscheduled_module_is_refused():
    module = parse_module("HloModule m\n\nENTRY main {\n ROOT p = f32[] parameter(0)\n}\n")
    with pytest.raises(HloError, match="no schedule"):
        assign_buffers(module)


def test_missing_copies_are_reported():
    module = parse_module("HloModule m\n\nENTRY main {\n ROOT p = f32[] parameter(0)\n}\n")
    module.is_scheduled = True
    with pytest.raises(HloError, match="run copy-insertion first"):
        assign_buffers(module)


def test_fill_is_written_twice_rather_than_copied():
    # Both carries start as zeros, which cse makes one array.
    text = loop("  ra = f32[8] add(a, b)\n  rb = f32[8] reverse(ra), dimensions={0}")
    text = text.replace("x = f32[8] sine(p)", "z = f32[] constant(0)\n  x = f32[8] broadcast(z)")
    text = text.replace("broadcast(z)", "broadcast(z), dimensions={}").replace(
        "y = f32[8] cosine(q)", "y = f32[8] broadcast(z), dimensions={}"
    )
    _, _, copies = run(text)
    assert copies == 0


def test_a_flag_that_ends_a_loop_is_its_result():
    """The result of the condition, a pred[] like the flag, may not lie on it."""
    state = "(s32[], pred[])"
    text = f"""HloModule m
cond {{
  t = {state} parameter(0)
  done = pred[] get-tuple-element(t), index=1
  ROOT c = pred[] not(done)
}}
body {{
  t = {state} parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  three = s32[] constant(3)
  done = pred[] compare(next, three), direction=GT
  ROOT r = {state} tuple(next, done)
}}
ENTRY main {{
  p = s32[] parameter(0)
  no = pred[] constant(false)
  t = {state} tuple(p, no)
  ROOT w = {state} while(t), condition=cond, body=body
}}
"""
    run(text)


def test_a_carry_that_the_body_does_not_read_outlives_the_condition():
    """An elementwise kernel of the condition reads it and must not write over it."""
    state = "(s32[], f32[8], f32[8])"
    text = f"""HloModule m
less {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }}
cond {{
  t = {state} parameter(0)
  x = f32[8] get-tuple-element(t), index=1
  last = f32[8] get-tuple-element(t), index=2
  sum = f32[8] add(x, last)
  sorted = f32[8] sort(sum), dimensions={{0}}, to_apply=less
  first = f32[1] slice(sorted), slice={{[0:1]}}
  least = f32[] reshape(first)
  limit = f32[] constant(40)
  ROOT c = pred[] compare(least, limit), direction=LT
}}
body {{
  t = {state} parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[8] get-tuple-element(t), index=1
  step = f32[] constant(5)
  steps = f32[8] broadcast(step), dimensions={{}}
  y = f32[8] add(x, steps)
  last = f32[8] reverse(x), dimensions={{0}}
  ROOT r = {state} tuple(next, y, last)
}}
ENTRY main {{
  p = f32[8] parameter(0)
  zero = s32[] constant(0)
  q = f32[8] sine(p)
  t = {state} tuple(zero, p, q)
  w = {state} while(t), condition=cond, body=body
  last = f32[8] get-tuple-element(w), index=2
  ROOT r = f32[8] sort(last), dimensions={{0}}, to_apply=less
}}
"""
    run(text)


SEVERAL_ROOTS = """
HloModule m

fused {{
  a = f32[1] parameter(0)
  b = f32[1] parameter(1)
  x = f32[2] parameter(2)
  {roots}
}}

ENTRY e {{
  a = f32[1] parameter(0)
  b = f32[1] parameter(1)
  x = f32[2] parameter(2)
  ROOT f = {shape} fusion(a, b, x), kind=kLoop, calls=fused
}}
"""
JOINED = "joined = f32[2] concatenate(a, b), dimensions={0}"
DOUBLED = "doubled = f32[2] add(x, x)"
NEGATIVE = "negative = f32[2] negate(x)"
TURNED = f"{NEGATIVE}  turned = f32[1,2] reshape(negative)"


@pytest.mark.parametrize(
    ("roots", "shape", "over_x"),
    [
        (f"{DOUBLED} {NEGATIVE} ROOT r = (f32[2], f32[2]) tuple(doubled, negative)",
         "(f32[2], f32[2])", [True, True]),
        # The pieces of a concatenation are written in nests of their own, before the sum reads.
        (f"{JOINED} {DOUBLED} ROOT r = (f32[2], f32[2]) tuple(joined, doubled)",
         "(f32[2], f32[2])", [False, True]),
        (f"{JOINED} {DOUBLED} ROOT r = (f32[2], f32[2]) tuple(doubled, joined)",
         "(f32[2], f32[2])", [True, False]),
        # Results of other dimensions are computed in other nests.
        (f"{DOUBLED} {TURNED} ROOT r = (f32[2], f32[1,2]) tuple(doubled, turned)",
         "(f32[2], f32[1,2])", [False, False]),
    ],
)  # fmt: skip
def test_an_output_is_not_written_over_what_another_loop_nest_reads(roots, shape, over_x):
    module = parse_module(SEVERAL_ROOTS.format(roots=roots, shape=shape))
    (fusion,) = [n for n in module.entry.instructions if n.opcode is Opcode.FUSION]
    rules = SharingRules()
    assert [rules.may_write_over(fusion, leaf, 2) for leaf in range(2)] == over_x


def test_what_copy_insertion_found_serves_the_assignment_once(monkeypatch):
    made = []
    analyse = BufferValues.__init__

    def counted(self, module):
        made.append(module)
        analyse(self, module)

    monkeypatch.setattr(BufferValues, "__init__", counted)

    def optimised():
        module = parse_module(loop("  ra = f32[8] add(b, b)\n  rb = f32[8] add(a, a)"))
        build_pipeline(CompileOptions()).run(module)
        made.clear()
        return module

    module = optimised()
    first = assign_buffers(module)
    assert not made
    assert assign_buffers(module).to_text() == first.to_text()
    assert len(made) == 1

    module = optimised()
    entry = module.entry
    entry.reorder(entry.instructions)
    assign_buffers(module)
    assert len(made) == 1

    module = optimised()
    module.aliases = (InputOutputAlias((0,), 0),)
    assign_buffers(module)
    assert len(made) == 1

    class Watcher(HloPass):
        name = "watcher"

        def run(self, module):
            return True

    module = optimised()
    Pipeline("p", [Watcher()]).run(module)
    assert module.analysis is None


ROTATING = """
  ra = f32[8] negate(b)
  rb = f32[8] add(a, a)"""


def test_a_module_is_looked_at_anew_only_where_it_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []

    class Counted(BufferValues):
        def __init__(self, module):
            looks.append(module)
            super().__init__(module)

    monkeypatch.setattr(buffer_values, "BufferValues", Counted)
    module = parse_module(loop(ROTATING))
    for computation in module.computations:
        computation.reorder(computation.post_order())
    found = conflicts_of(module)
    assert found and conflicts_of(module) is found and len(looks) == 1
    values_of(module)  # those of an analysis with conflicts are nobody's
    assert len(looks) == 2
    conflicts_of(module)
    module.aliases = (InputOutputAlias((0,), 0, ()),)
    conflicts_of(module)
    assert len(looks) == 4
    root = module.entry.root
    module.entry.reorder(module.entry.instructions)  # an edit
    assert module.entry.root is root
    conflicts_of(module)
    assert len(looks) == 5


def test_the_analysis_without_conflicts_is_that_of_assignment() -> None:
    module = parse_module("ENTRY main { p = f32[4] parameter(0)  ROOT a = f32[4] negate(p) }")
    assert conflicts_of(module) == []
    analysis = module.analysis.analysis
    assert values_of(module) is analysis and values_of(module) is not analysis
