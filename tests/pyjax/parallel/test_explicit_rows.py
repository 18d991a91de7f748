"""What types say after hundreds of functions of arrays that are split along axes of type Explicit,
after their gradients, and under vmap, is what JAX says: explicit_rows.json is made by
explicit_rows.py, explicit_rows_different.json has what stays different, with the reason."""

from __future__ import annotations

import json

import pytest

import pyjax
from tests.pyjax.parallel.explicit_rows import PATH, Tracing, rows

RECORDED: dict[str, dict[str, str]] = json.loads(PATH.read_text())
# Reason -> row -> what differs there.
DIFFERENT: dict[str, dict[str, dict[str, str]]] = json.loads(
    PATH.with_name("explicit_rows_different.json").read_text()
)
ROWS = [f"{shapes}: {expression}" for shapes, expression in rows()]
GROUPS = sorted({name.partition(":")[0] for name in ROWS})


def check(shapes: str, kinds: tuple[str, ...]) -> None:
    tracing = Tracing(pyjax)
    wrong = []
    for row_shapes, expression in rows():
        if row_shapes != shapes:
            continue
        name = f"{shapes}: {expression}"
        wanted = dict(RECORDED[name])
        for listed in DIFFERENT.values():
            wanted.update(listed.get(name, {}))
        found = tracing.record(shapes, expression, kinds)
        wrong += [(name, k, wanted[k], found[k]) for k in found if found[k] != wanted[k]]
    assert not wrong, "\n".join(f"{n} [{k}]\n  wanted {a}\n  found  {b}" for n, k, a, b in wrong)


@pytest.mark.parametrize("shapes", GROUPS, ids=lambda shapes: shapes or "none")
def test_functions(shapes: str) -> None:
    check(shapes, ("f",))


@pytest.mark.slow
@pytest.mark.parametrize("shapes", GROUPS, ids=lambda shapes: shapes or "none")
def test_gradients_and_vmap(shapes: str) -> None:
    check(shapes, ("grad", "vmap"))


def test_everything_is_recorded() -> None:
    assert RECORDED.keys() == {*ROWS}
    for reason, listed in DIFFERENT.items():
        assert len(reason) > 20
        for name, found in listed.items():
            assert found.items().isdisjoint(RECORDED[name].items()), name
