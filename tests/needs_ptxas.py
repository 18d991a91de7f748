"""The mark of tests that need NVIDIA's assembler."""

from __future__ import annotations

import pytest

from xla_backend.targets.gpu.ptxas import find_ptxas

NEEDS_PTXAS = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas here")
