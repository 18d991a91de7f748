"""What kind of program the library runs in. Layer: core."""

from __future__ import annotations

import sys


def in_ipython() -> bool:
    """Whether an IPython session runs, in a terminal or behind a notebook; that something has
    imported IPython does not count."""
    return "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None
