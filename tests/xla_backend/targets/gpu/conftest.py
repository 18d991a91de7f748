"""Tests of the GPU target share checks with those of the CPU."""

import sys
from pathlib import Path

here = Path(__file__).parent
sys.path[:0] = [str(here), str(here.parent / "cpu"), str(here.parents[1] / "program")]
