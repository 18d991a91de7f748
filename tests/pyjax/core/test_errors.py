"""Errors of every kind are made in one place, with the user's line."""

from __future__ import annotations

import pytest

from pyjax.core.errors import AxisError, fail, new_error


def test_a_kind_of_python():
    with pytest.raises(ValueError) as info:
        fail(ValueError, "what", "why", "fix")
    what, where, why, fix = str(info.value).split("\n  ")
    assert (what, why, fix) == ("what", "why", "fix")
    assert "test_errors.py" in where and "test_a_kind_of_python" in where


def test_a_kind_of_ours_keeps_its_parts():
    error = new_error(AxisError, "what", None, "fix", where="line 3")
    assert type(error) is AxisError
    assert (error.what, error.where, error.why, error.fix) == ("what", "line 3", None, "fix")
    assert str(error) == "what\n  line 3\n  fix"
