"""Fingerprints: equal for equal programs whatever their names, different for all that counts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Hashable

import pytest

from xla_backend.hlo.fingerprint import OnlyHere, module_fingerprint
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module

TEXT = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4,6] parameter(0), metadata={op_name="x" source_file="f.py" source_line=3}
  z = f32[] constant(0)
  k = f32[6] constant({1, 2, 3, 4, 5, 6})
  r = f32[4] reduce(x, z), dimensions={1}, to_apply=add
  d = f32[4] dot(x, k), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[4,6] negate(x)
  c = f32[4] custom-call(d), custom_call_target="f", backend_config="12"
  ROOT t = (f32[4,6], f32[4], f32[4]) tuple(n, r, c) }"""

SAME = [
    ("HloModule m", "HloModule other"),
    ("r = ", "sum.7 = "),
    ("source_line=3", "source_line=4"),
    ('op_name="x" ', ""),
]
OTHER = [
    ("constant(0)", "constant(-0.0)"),
    ("constant(0)", "constant(nan)"),
    ("{1, 2, 3, 4, 5, 6}", "{1, 2, 3, 4, 5, 7}"),
    ("negate(x)", "abs(x)"),
    ("tuple(n, r, c)", "tuple(n, c, r)"),
    ("add(a, b)", "multiply(a, b)"),
    ("add(a, b)", "add(b, a)"),
    ("may-alias", "must-alias"),
    ("input_output_alias={ {0}: (0, {}, may-alias) }", "replica_count=2"),
    ('backend_config="12"', 'backend_config="13"'),
    ('custom_call_target="f"', 'custom_call_target="g"'),
    ("n = f32[4,6] negate(x)", 'n = f32[4,6] negate(x), frontend_attributes={a="1"}'),
    ("n = f32[4,6] negate(x)", "n = f32[4,6] negate(x), control-predecessors={r}"),
    ("f32[4,6]", "f64[4,6]"),
]


def changed(old: str, new: str) -> HloModule:
    text = TEXT.replace(old, new)
    if old == "r = ":
        text = text.replace("tuple(n, r, c)", "tuple(n, sum.7, c)")
    assert text != TEXT
    return parse_module(text)


@pytest.mark.parametrize(("old", "new"), SAME)
def test_what_does_not_count(old: str, new: str) -> None:
    assert module_fingerprint(changed(old, new)) == module_fingerprint(parse_module(TEXT))


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_what_counts(old: str, new: str) -> None:
    assert module_fingerprint(changed(old, new)) != module_fingerprint(parse_module(TEXT))


def test_every_pair_differs() -> None:
    found = {module_fingerprint(changed(old, new)) for old, new in OTHER}
    assert len(found) == len(OTHER)


def test_source_locations_if_asked_for() -> None:
    here = module_fingerprint(parse_module(TEXT), metadata=True)
    assert module_fingerprint(changed("source_line=3", "source_line=4"), metadata=True) != here
    assert module_fingerprint(parse_module(TEXT), metadata=True) == here


def test_pointers_of_custom_partitioning() -> None:
    texts = [TEXT.replace('"f"', '"CustomSPMDPartitioning"')]
    texts.append(texts[0].replace('"12"', '"99"'))
    first, second = map(parse_module, texts)
    assert module_fingerprint(first) != module_fingerprint(second)
    without = [module_fingerprint(m, pointers=False) for m in (first, second)]
    assert without[0] == without[1] != module_fingerprint(parse_module(TEXT), pointers=False)


class Config(str):
    """A string that means more than it says."""


def configured(config: Config) -> HloModule:
    module = parse_module(TEXT)
    assert module.entry is not None
    call = next(node for node in module.entry if node.opcode.value == "custom-call")
    call.attributes = type(call.attributes)("f", config)
    return module


def test_objects_of_this_process_are_refused() -> None:
    with pytest.raises(OnlyHere, match="Config"):
        module_fingerprint(configured(Config("12")))


def test_objects_of_this_process_are_given_to_who_asks() -> None:
    digests, objects = [], []
    for text in ("12", "99"):
        found: list[Hashable] = []
        digests.append(module_fingerprint(configured(Config(text)), objects=found))
        objects.append(found)
    assert objects == [["12"], ["99"]] and all(type(o) is Config for each in objects for o in each)
    plain: list[Hashable] = []
    assert digests[0] == digests[1] != module_fingerprint(parse_module(TEXT), objects=plain)
    assert plain == []


def test_equal_in_other_processes() -> None:
    program = (
        "import sys; from xla_backend.hlo.fingerprint import module_fingerprint as f\n"
        "from xla_backend.hlo.parser import parse_module\n"
        "print(f(parse_module(sys.stdin.read())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=TEXT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == module_fingerprint(parse_module(TEXT))
