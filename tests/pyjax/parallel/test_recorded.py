"""shard_map computes, and writes, what JAX does: recorded.json is made by record.py."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import pyjax
from tests.pyjax.parallel import record

RECORDED: dict[str, dict[str, Any]] = json.loads(record.PATH.read_text())


@pytest.mark.parametrize("make", record.PROGRAMS, ids=lambda make: make.__name__)
def test_value(make: Any) -> None:
    program = make(record.Setting(pyjax))
    for run in (program, pyjax.jit(program)):
        found = np.asarray(run(pyjax.numpy.array(record.X)))
        np.testing.assert_allclose(found, RECORDED[make.__name__]["value"], rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("make", record.SAME_TEXT, ids=lambda make: make.__name__)
def test_text(make: Any) -> None:
    expected = RECORDED[make.__name__]["text"]
    assert record.text_of(pyjax, make(record.Setting(pyjax))) == expected


def test_what_the_check_of_specs_keeps_away() -> None:
    program = record.cut_by_vmap_twice(record.Setting(pyjax))
    with pytest.raises(ValueError, match="cannot appear in shard_map in_specs"):
        program(pyjax.numpy.array(record.X))
    with pyjax._config.options.disable_vmap_shmap_error(True):
        found = program(pyjax.numpy.array(record.X))
    assert found.tolist() == RECORDED["cut_by_vmap_twice"]["value"]


def test_everything_is_recorded() -> None:
    names = {make.__name__ for make in record.PROGRAMS} | {"cut_by_vmap_twice"}
    assert names == RECORDED.keys()
