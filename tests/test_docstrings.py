"""Every public object has a docstring, with an example that runs."""

from __future__ import annotations

import builtins
import doctest
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from docs.docstring_text import as_markdown
from docs.public_names import Public, documented, public_modules, public_objects
from pyjax import lax

SHARDS = 8

# What examples take for granted, beside the names of the module that documents the object.
NAMESPACE = {"np": np, "jnp": jnp, "pyjax": pyjax, "lax": lax}


def names_for(public: Public, module: ModuleType) -> dict[str, Any]:
    """`round` and `sum` are Python's, but in the examples of the functions that are called so."""
    names = {**vars(module), **public_objects(module)}
    own = {public.name.rpartition(".")[2]: public.value}
    return {k: v for k, v in names.items() if not hasattr(builtins, k)} | NAMESPACE | own


@cache  # some register names, which stand for one thing in a process
def what_fails(public: Public) -> str:
    names = names_for(public, public_modules()[public.module])
    test = doctest.DocTestParser().get_doctest(public.doc, names, public.name, None, 0)
    assert test.examples, public.name
    wrong: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=wrong.append)
    return "".join(wrong)


def run_examples(found: Sequence[Public]) -> None:
    wrong = "".join(map(what_fails, found))
    assert not wrong, wrong


def test_every_public_object_has_a_docstring_with_an_example() -> None:
    assert not [public.name for public in documented() if ">>>" not in public.doc]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_examples_run(shard: int) -> None:
    run_examples(documented()[shard::SHARDS])


def test_a_wrong_example_is_found() -> None:
    def wrong() -> None:
        """One.

        >>> 1 + 1
        3
        """

    with pytest.raises(AssertionError, match="Expected"):
        run_examples([Public("pyjax.wrong", wrong, ())])


def test_docstrings_become_markdown() -> None:
    doc = (
        "x**2 for x < 0, `a*b` else.\n\n"
        "Args:\n  x: any\n    shape.\n  y: real.\n\n"
        ">>> f(1)\n2\n"
        "\nLast."
    )
    assert as_markdown(doc) == (
        "x\\*\\*2 for x \\< 0, `a*b` else.\n\n"
        "**Args**\n\n- x: any\n  shape.\n- y: real.\n\n"
        "```pycon\n>>> f(1)\n2\n```\n\nLast."
    )
