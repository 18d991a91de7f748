"""Options as they are listed: the reference page, the table of notebooks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyjax._config import config, listing
from pyjax._config.registry import all_options

PAGE = Path(__file__).resolve().parents[2] / "docs" / "options.md"


def test_every_option_is_in_one_area() -> None:
    listed = [option.name for options in listing.AREAS.values() for option in options]
    assert sorted(listed) == sorted(all_options())


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == listing.markdown(listing.AREAS), (
        "run: python -m pyjax config --markdown > docs/options.md"
    )


def test_the_page_says_all_there_is_to_say() -> None:
    page = PAGE.read_text(encoding="utf-8")
    sections = re.split(r"^### `(\w+)`$", page, flags=re.MULTILINE)[1:]
    found = dict(zip(sections[::2], sections[1::2]))
    assert set(found) == set(all_options())
    titles = ("Type", "Default", "Scope", "May change", "Environment", "Flag", "Since")
    for name, section in found.items():
        option = all_options()[name]
        assert option.help in " ".join(section.split())
        for title in titles:
            assert re.search(rf"^- {title}: .+$", section, re.MULTILINE), (name, title)
        assert ("pyjax only" in section) == option.ours
        assert ("- No effect: " in section) == (option.no_effect is not None)
        assert ("- Waits: " in section) == (option.waits_for is not None)
    assert f"{135} options of JAX, {len(found) - 135} of pyjax." in page


@pytest.mark.parametrize(
    "words, name",
    [("complex128", "jax_enable_x64"), ("GUMBEL tail", "jax_high_dynamic_range_gumbel")],
)
def test_search(words: str, name: str) -> None:
    found = listing.matching(listing.AREAS, words)
    assert [o.name for options in found.values() for o in options] == [name]
    assert listing.matching(listing.AREAS, words + " abacus") == {}


def test_text_has_values_and_who_set_them() -> None:
    with all_options()["jax_enable_x64"](True):
        lines = list(listing.text(listing.matching(listing.AREAS, "x64")))
    assert lines[1] == "  jax_enable_x64 = True (context manager in this thread)"
    assert "boolean; default False; of a thread; at any time; PYJAX_ENABLE_X64;" in lines[3]
    ours = "\n".join(listing.text(listing.matching(listing.AREAS, "jax_cpu_memory_limit")))
    assert "jax_cpu_memory_limit = -1 (default)  [pyjax only]" in ours


def test_notebooks_show_a_table() -> None:
    table = config._repr_html_()
    assert table.count("<tr>") == len(all_options()) + 1
    assert '<input type="search"' in table
    assert "&#x27;threefry2x32&#x27;" in table and "'threefry2x32'" not in table  # it is escaped
