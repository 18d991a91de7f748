"""Index expressions: simplification, and agreement with plain arithmetic."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from xla_backend.kernels.index import FloorDiv, Index, Mod, Var, delinearize, linearize


def value(index, env):
    total = index.constant
    for atom, c in index.terms.items():
        if isinstance(atom, Var):
            total += c * env[atom]
        else:
            inner = value(atom.index, env)
            total += c * (
                inner // atom.divisor if isinstance(atom, FloorDiv) else inner % atom.divisor
            )
    return total


def test_split_and_join_cancel():
    i, j = Var("i", 6, 1), Var("j", 35, 2)
    linear = linearize([Index.of(i), Index.of(j)], [6, 35])
    parts = delinearize(linear, [2, 3, 7, 5])
    assert linearize(parts, [2, 3, 7, 5]) == linear
    assert delinearize(linear, [6, 35]) == (Index.of(i), Index.of(j))


def test_text():
    i, j = Var("i", 6, 1), Var("j", 4, 2)
    assert str(Index({i: 4, j: 1}, -2)) == "4*i + j - 2"


@st.composite
def expressions(draw):
    variables = [
        Var(f"i{k}", draw(st.integers(2, 5)), k + 1) for k in range(draw(st.integers(1, 3)))
    ]
    index = Index(
        {v: draw(st.sampled_from([1, 2, 3, 4, 6, 12])) for v in variables}, draw(st.integers(0, 9))
    )
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["//", "%", "+", "*"]))
        number = draw(st.integers(2, 6))
        if kind == "//":
            index = index // number
        elif kind == "%":
            index = index % number
        elif kind == "+":
            index = index + Index({draw(st.sampled_from(variables)): number}, number)
        else:
            index = index * number
    return variables, index


@settings(max_examples=150, deadline=None)
@given(expressions(), st.integers(2, 7))
def test_arithmetic(case, divisor):
    """Every simplified quotient and remainder has the value of the plain one, and lies in its
    bounds."""
    variables, index = case
    quotient, remainder = index // divisor, index % divisor
    rejoined = quotient * divisor + remainder
    for values in itertools.product(*[range(v.extent) for v in variables]):
        env = dict(zip(variables, values))
        plain = value(index, env)
        assert value(quotient, env) == plain // divisor
        assert value(remainder, env) == plain % divisor
        assert value(rejoined, env) == plain
        for part in (index, quotient, remainder):
            low, high = part.bounds
            assert low <= value(part, env) <= high


def test_atoms_are_values():
    i = Var("i", 7, 1)
    assert FloorDiv(Index.of(i), 2) == FloorDiv(Index.of(i), 2)
    assert Mod(Index.of(i), 2) != Mod(Index.of(i), 3)
