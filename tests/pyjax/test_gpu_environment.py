"""Variables of JAX for the memory of GPUs."""

from __future__ import annotations

import pytest

from pyjax.runtime.devices import _gpu_options
from pyjax.runtime.gpu_environment import gpu_environment


@pytest.mark.parametrize(
    "variables, given",
    [
        ({}, {}),
        ({"XLA_PYTHON_CLIENT_MEM_FRACTION": ".5"}, {"memory_fraction": ".5"}),
        ({"XLA_CLIENT_MEM_FRACTION": "0.25"}, {"memory_fraction": "0.25"}),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "True"}, {"preallocate": True}),
        ({"XLA_PYTHON_CLIENT_PREALLOCATE": "0"}, {"preallocate": False}),
        ({"XLA_PYTHON_CLIENT_ALLOCATOR": "Platform"}, {"allocator": "platform"}),
        ({"XLA_PYTHON_CLIENT_ALLOCATOR": "", "XLA_CLIENT_MEM_FRACTION": ""}, {}),
    ],
)
def test_variables(variables: dict[str, str], given: dict[str, object]) -> None:
    assert gpu_environment(variables) == given


def test_bad_variables() -> None:
    with pytest.raises(ValueError, match="XLA_PYTHON_CLIENT_PREALLOCATE=maybe: write true or"):
        gpu_environment({"XLA_PYTHON_CLIENT_PREALLOCATE": "maybe"})
    both = {"XLA_CLIENT_MEM_FRACTION": "1", "XLA_PYTHON_CLIENT_MEM_FRACTION": "1"}
    with pytest.raises(ValueError, match="_MEM_FRACTION are both set; set one of them"):
        gpu_environment(both)


def test_they_reach_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    assert _gpu_options() == {"memory_fraction": "0.5", "preallocate": False}
