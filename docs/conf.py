"""Settings of Sphinx: `make docs`. Pages of modules and notebooks are written before the build."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

import pyjax  # noqa: E402
from docs.notebook_pages import write_notebooks  # noqa: E402
from docs.reference_pages import write_reference  # noqa: E402

project = "pyjax"
version = release = pyjax.__version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # notebooks begin where their author likes
html_theme = "alabaster"
html_theme_options = {"description": "NumPy programs that compile", "page_width": "80em"}
python_use_unqualified_type_names = True
toc_object_entries = False
exclude_patterns: list[str] = []


def _write_pages(app: Any) -> None:
    write_reference(DOCS / "reference")
    write_notebooks(ROOT / "notebooks", DOCS / "notebooks", ROOT)


def _name_files_outside(app: Any, page: str, text: list[str]) -> None:
    """Links from docs/ to other files of the project have nothing to go to on pages."""
    if "/" not in page:
        text[0] = re.sub(r"\[([^\]]*)\]\(\.\./([^)]*)\)", r"\1 (`\2`)", text[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", _write_pages)
    app.connect("source-read", _name_files_outside)
