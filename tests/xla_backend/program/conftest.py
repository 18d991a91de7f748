"""Makes the helper modules of this folder, and those of the CPU's tests, importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "targets" / "cpu")]
