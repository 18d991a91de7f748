"""The loop IR's tests share the checks of the native ones."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "targets" / "cpu"))
