"""explain: what the page holds, and the page in a real browser."""

from __future__ import annotations

import inspect
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from browser import Browser, open_browser

SHAPES = {"w1": (64, 64), "b1": (64,), "w2": (64, 10), "b2": (10,)}


def logits(params, image):  # type: ignore[no-untyped-def]
    hidden = jnp.tanh(image @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def example_loss(params, image, label):  # type: ignore[no-untyped-def]
    return -pyjax.nn.log_softmax(logits(params, image))[label]


def loss(params, images, labels):  # type: ignore[no-untyped-def]
    return pyjax.vmap(example_loss, in_axes=(None, 0, 0))(params, images, labels).mean()


@pytest.fixture(scope="module")
def page() -> str:
    params = {name: jnp.ones(shape) for name, shape in SHAPES.items()}
    images, labels = jnp.ones((8, 64)), jnp.zeros(8, int)
    return pyjax.explain(loss, params, images, labels).html


@pytest.fixture(scope="module")
def data(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def line_of(text: str) -> int:
    """Number of the first line of this file that contains `text`."""
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def test_the_page_stands_alone(page: str) -> None:
    assert page.startswith("<!doctype html>")
    assert not re.search(r'(src|href)="(?!data:)[^"#]', page)
    assert "@DATA@" not in page and "@SCRIPT@" not in page


def test_every_stage_is_there(data: dict[str, Any]) -> None:
    assert data["title"] == "loss"
    assert data["front"][0]["title"] == "jaxpr"
    assert any("tanh" in text for text, _ in data["front"][0]["lines"])
    names = [p["name"] for p in data["passes"]]
    assert names[0] == "as received" and "fusion" in names and "scheduler" in names
    for kernel in data["kernels"]:
        assert "def " in kernel["loop_ir"] and "define" in kernel["llvm_ir"]
        assert "ret" in kernel["assembly"]
    assert float(data["summary"]["passes"].split()[0]) > 0


def test_lines_are_linked_with_the_users(data: dict[str, Any]) -> None:
    tanh = [__file__, line_of("jnp.tanh(")]
    assert tanh in data["places"]
    place = data["places"].index(tanh)
    assert any(p == place and "tanh" in text for text, p in data["front"][0]["lines"])
    assert any(p == place and "tanh(" in text for text, p in data["lines"])
    assert any(place in kernel["places"] for kernel in data["kernels"])
    (source,) = (s for s in data["sources"] if s["file"] == __file__)
    assert "jnp.tanh(" in source["lines"][tanh[1] - source["first"]]


def test_lines_know_who_called_them(data: dict[str, Any]) -> None:
    assert len(data["callers"]) == len(data["lines"])
    number = next(i for i, (text, _) in enumerate(data["lines"]) if "tanh(" in text)
    assert data["callers"][number][:3] == [
        f"{__file__}:{line_of('jnp.tanh(')} in logits",
        f"called at {__file__}:{line_of('log_softmax(logits')} in example_loss",
        f"called at {__file__}:{line_of('vmap(example_loss')} in loss",
    ]


def test_differences_lead_from_each_pass_to_the_next(data: dict[str, Any]) -> None:
    passes = data["passes"]
    for before, after in itertools.pairwise(passes):
        rebuilt: list[int] = []
        for tag, a, b, c, d in after["diff"]:
            rebuilt += before["lines"][a:b] if tag == "equal" else after["lines"][c:d]
        assert rebuilt == after["lines"] != before["lines"]


def test_costs(data: dict[str, Any]) -> None:
    assert len(data["costs"]) == len(data["passes"][-1]["lines"])
    products = 2 * 8 * 64 * 64 + 2 * 8 * 64 * 10
    assert max(cost["flops"] for cost in data["costs"] if cost) >= products / 2
    assert data["passes"][-1]["bytes"] < data["passes"][0]["bytes"]
    assert all(kernel["cost"] for kernel in data["kernels"])


def test_text_of_the_program_cannot_end_the_script() -> None:
    def tricky(x):  # type: ignore[no-untyped-def]
        return x + 1  # </script><b>

    html = pyjax.explain(tricky, jnp.ones(3)).html
    assert html.count("</script>") == 2 and "<b>" not in html


def test_saving_and_showing(tmp_path: Path, page: str) -> None:
    explanation = pyjax.explain(pyjax.jit(jnp.sin), np.ones(3, np.float32))
    path = explanation.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == explanation.html
    assert explanation._repr_html_().startswith("<iframe srcdoc=")
    assert "save(path)" in repr(explanation)


def test_errors_are_those_of_tracing() -> None:
    with pytest.raises(pyjax.errors.TracerBoolConversionError):
        pyjax.explain(lambda x: 1.0 if x > 0 else 0.0, 1.0)


def test_explain_is_public() -> None:
    assert "explain" in dir(pyjax) and inspect.getdoc(pyjax.explain)


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(page: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    path = tmp_path_factory.mktemp("explain") / "page.html"
    path.write_text(page, encoding="utf-8")
    with open_browser() as browser:
        browser.open(path.as_uri())
        yield browser


@pytest.fixture(autouse=True)
def no_errors(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "browser" in request.fixturenames:
        assert request.getfixturevalue("browser").errors() == []


def test_the_page_draws(browser: Browser, data: dict[str, Any]) -> None:
    assert browser.run("return document.body.dataset.ready") == "true"
    assert len(browser.texts("#pass-list tbody tr")) == len(data["passes"])
    assert len(browser.texts("#kernel-list tbody tr")) == len(data["kernels"])
    assert any("tanh" in text for text in browser.texts("#source-text pre div"))
    assert any("tanh" in text for text in browser.texts("#front-text pre div"))


def test_a_source_line_marks_what_it_became(browser: Browser) -> None:
    browser.run("location.hash = ''")
    number = str(line_of("jnp.tanh("))
    script = """
      const links = [...document.querySelectorAll('#source-text a')];
      links.find((a) => a.textContent === arguments[0]).id = 'wanted';
    """
    browser.run(script, number)
    browser.click("#wanted")
    assert any("jnp.tanh(" in text for text in browser.texts("#source-text .on"))
    assert any("tanh" in text for text in browser.texts("#front-text .on"))
    assert any("%" in text for text in browser.texts("#pass-text .on"))
    assert f":{number} runs in" in browser.texts("#selection")[0]


def test_passes_and_modes_can_be_chosen(browser: Browser) -> None:
    browser.run("location.hash = ''")
    browser.click("#pass-list tbody tr:nth-child(2) a")
    title = browser.texts("#pass-title")[0]
    assert title == f"after {browser.texts('#pass-list tr.here a')[0]}"
    assert browser.texts("#pass-text .plus") or browser.texts("#pass-text .minus")
    browser.click("#pass-modes a:nth-child(3)")
    assert not browser.texts("#pass-text .plus") and browser.texts("#pass-text pre div")


def test_kernels_show_their_code(browser: Browser, data: dict[str, Any]) -> None:
    browser.run("location.hash = ''")
    browser.click("#kernel-list tbody tr:last-child a")
    name = data["kernels"][-1]["name"]
    assert browser.texts("#kernel-title")[0].startswith(f"{name}: %")
    for number, mark in ((1, "def "), (2, "define"), (3, "ret")):
        browser.click(f"#kernel-modes a:nth-child({number})")
        assert any(mark in text for text in browser.texts("#kernel-text pre div"))
    browser.click("#kernel-title a")
    shown = browser.texts("#pass-text b")
    assert shown and shown[0] == f"%{data['kernels'][-1]['instructions'][0]}"


def test_every_link_leads_somewhere(browser: Browser) -> None:
    """Each address on the page, and on the pages behind the first ones, draws all panes."""
    script = """
      location.hash = '';
      const seen = new Set(), queue = ['#'], bad = [];
      const panes = ['source-text', 'front-text', 'pass-text', 'kernel-text'];
      while (queue.length && seen.size < 400) {
        const hash = queue.shift();
        history.replaceState(null, '', hash);
        draw();
        for (const id of panes)
          if (!document.getElementById(id).textContent.trim()) bad.push(hash + ' leaves ' + id);
        const wanted = new URLSearchParams(hash.slice(1));
        const named = (wanted.get('instruction') ?? '').split('/').filter(Boolean);
        if (!named.every((name) => data.lines.some(([text]) => text.includes('%' + name))))
          bad.push(hash + ' names no instruction');
        if (wanted.get('kernel') && !data.kernels.some((k) => k.name === wanted.get('kernel')))
          bad.push(hash + ' names no kernel');
        for (const a of document.querySelectorAll('a')) {
          const href = a.getAttribute('href');
          if (!href.startsWith('#')) bad.push('outside: ' + href);
          else if (!seen.has(href)) { seen.add(href); queue.push(href); }
        }
      }
      return [seen.size, bad];
    """
    count, bad = browser.run(script)
    assert count > 50 and bad == []


def test_back_goes_back(browser: Browser) -> None:
    browser.run("location.hash = ''")
    before = browser.texts("#pass-title")
    browser.click("#pass-list tbody tr:nth-child(1) a")
    assert browser.texts("#pass-title") == ["as received"]
    browser.run("history.back()")
    browser.run("return new Promise((done) => setTimeout(done, 100))")
    assert browser.texts("#pass-title") == before
