"""The page: one HTML file with everything in it, made from a recording."""

from __future__ import annotations

import html
import json
from dataclasses import asdict
from importlib.resources import files

from xla_backend.tools.explorer.recording import Recording


def page(recording: Recording) -> str:
    """HTML text that needs nothing else: styles, script and data are inside."""
    assets = files(__package__) / "assets"
    template = (assets / "page.html").read_text(encoding="utf-8")
    # `<` would end the script element early, wherever it stands in the data.
    data = json.dumps(asdict(recording), separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "TITLE": html.escape(recording.title),
        "STYLE": (assets / "page.css").read_text(encoding="utf-8"),
        "SCRIPT": (assets / "page.js").read_text(encoding="utf-8"),
        "DATA": data,
    }
    for name, text in parts.items():  # the data last: they may hold any text
        template = template.replace(f"@{name}@", text)
    return template
