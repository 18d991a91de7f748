"""Rules of custom_partitioning, as text and as objects, and what they are for shapes."""

import pytest

from pyjax.experimental.custom_partitioning import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from pyjax.parallel.sharding_rules import parse_rule

# text, parameters, shapes of operands and results -> their factors, sizes
RULES = [
    ("i k, k j -> i j", {}, [(4, 6), (6, 2)], [(4, 2)],
     ([((0,), (1,)), ((1,), (2,))], [((0,), (2,))], (4, 6, 2))),
    ("... i -> ... i", {}, [(2, 3, 4)], [(2, 3, 4)],
     ([((1,), (2,), (0,))], [((1,), (2,), (0,))], (4, 2, 3))),
    ("(a b) -> a b", {}, [(12,)], [(3, 4)], ([((0, 1),)], [((0,), (1,))], (3, 4))),
    ("(a b) -> (a b)", {"a": 2}, [(6,)], [(6,)], ([((0, 1),)], [((0, 1),)], (2, 3))),
    ("i j -> i", {"need_replication_factors": ("j",)}, [(2, 3)], [(2,)],
     ([((0,), ())], [((0,),)], (2, 3))),
    ("-> i", {}, [()], [(2,)], ([()], [((0,),)], (2,))),
]  # fmt: skip


@pytest.mark.parametrize("text, params, operands, results, want", RULES, ids=lambda x: str(x))
def test_factors(text, params, operands, results, want):
    found = parse_rule(text, **params).mappings(operands, results)
    sizes = dict(enumerate(found.sizes))
    renamed = _by_first_use(want)
    assert _by_first_use((found.operands, found.results, found.sizes)) == renamed
    assert len(sizes) == len(want[2])


def _by_first_use(found):
    """Factors numbered in the order in which they come."""
    order = {}
    operands, results, sizes = found

    def renumber(arrays):
        return [
            tuple(tuple(order.setdefault(f, len(order)) for f in dim) for dim in array)
            for array in arrays
        ]

    sides = renumber(operands), renumber(results)
    return *sides, {order[f]: size for f, size in enumerate(sizes) if f in order}


def test_objects_are_what_text_says():
    rule = SdyShardingRule(
        ((BATCHING, "i"), ArrayMapping(CompoundFactor("i", "j"))), (("i",),), j=2
    )
    assert repr(rule) == "SdyShardingRule('… i, (i j) -> i')"
    same = parse_rule("... i, (i j) -> i", j=2)
    shapes = [(5, 3), (6,)], [(3,)]
    assert rule.mappings(*shapes) == same.mappings(*shapes)


BAD = [
    ("i j", {}, "There is no -> in rule"),
    ("i -> j -> k", {}, "Two ->"),
    ("i* -> i", {}, "Dimensions are names"),
    ("(i -> i", {}, "Brackets do not match"),
    ("i) -> i", {}, "Brackets do not match"),
    ("((i j)) -> i", {}, "Brackets do not match"),
    ("(i) -> i", {}, "two or more names"),
    ("i ... -> i", {}, "stands in front"),
    ("i -> i", {"reduction_factors": ("k",)}, "Factor k in reduction_factors"),
    ("i -> i", {"k": 3}, "Factor k has a size"),
]


@pytest.mark.parametrize("text, params, message", BAD, ids=lambda x: str(x))
def test_what_is_no_rule(text, params, message):
    with pytest.raises(ValueError, match=message):
        parse_rule(text, **params)


def test_before_it_is_defined():
    f = custom_partitioning(lambda x: x)
    with pytest.raises(AttributeError, match="def_partition"):
        f(1.0)
