"""explain for GPUs that are not here: launches, PTX and occupancy, and the page in a browser."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.tools.command_line import main
from pyjax.tools.explorer import explain_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from browser import open_browser


def softmax(x):  # type: ignore[no-untyped-def]
    return pyjax.nn.softmax(jnp.tanh(x), axis=-1).T


@pytest.fixture(scope="module")
def page() -> str:
    return explain_for("sm_90", softmax, np.ones((64, 96), np.float32)).html


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_what_the_page_holds(page: str) -> None:
    data = data_of(page)
    assert data["summary"]["target"] == "sm_90"
    assert re.fullmatch(r"[\d.]+ us", data["summary"]["estimated on H200"])
    assert [p["pipeline"] for p in data["passes"]].count("gpu") >= 1
    for kernel in data["kernels"]:
        assert "in threads(" in kernel["loop_ir"] and "ptx_kernel" in kernel["llvm_ir"]
        assert ".visible .entry" in kernel["assembly"]
        for launch in kernel["launches"]:
            assert launch["blocks"] >= 1 and launch["threads"] % 32 == 0


def test_the_page_draws(page: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    with open_browser() as browser:
        browser.open(path.as_uri())
        assert browser.run("return document.body.dataset.ready") == "true"
        heads = browser.texts("#kernel-list th")
        assert "registers" in heads and "occupancy" in heads and "PTX" in heads
        browser.click("#kernel-list tbody tr:last-child a")
        browser.click("#kernel-modes a:nth-child(3)")
        assert any(".visible .entry" in text for text in browser.texts("#kernel-text pre div"))
        assert browser.errors() == []


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "file.py", tmp_path / "out.html"
    file.write_text("import pyjax.numpy as jnp\ndef f(x):\n    return jnp.sin(x)\n")
    words = ["explain", f"{file}:f", "float32[64]", "-o", str(out)]
    assert main([*words, "--target", "sm_120"]) == 0
    assert data_of(out.read_text())["summary"]["target"] == "sm_120"
    assert main([*words, "--target", "sm_75"]) == 1
    assert "sm_80, sm_90, sm_90a, sm_100, sm_120" in capsys.readouterr().err


def test_targets_that_are_no_gpus() -> None:
    with pytest.raises(ValueError, match="'aarch64' is no GPU; write one such as 'sm_90'"):
        explain_for("aarch64", softmax, np.ones((2, 2), np.float32))
