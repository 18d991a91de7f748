"""Variables of the environment that no option has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.test_files import run_in

TYPO = "the environment variable PYJAX_ENABLE_X65 is no option of pyjax. Did you mean"


@pytest.mark.parametrize(
    ("variable", "warning"),
    [
        ("PYJAX_ENABLE_X65", TYPO + " 'jax_enable_x64'?"),
        ("PYJAX_QQQQ", "the environment variable PYJAX_QQQQ is no option of pyjax.\n"),
        ("PYJAX_ENABLE_X64", None),
        ("PYJAX_CHECK_VMA", None),
        ("PYJAX_CACHE_DIR", None),
        ("JAX_ENABLE_X65", None),  # another library's: it may know more options
    ],
)
def test_a_name_with_our_prefix_that_no_option_has(
    variable: str, warning: str | None, tmp_path: Path
) -> None:
    done = run_in(tmp_path, "import pyjax", **{variable: "0"})
    assert done.returncode == 0, done.stderr
    assert (warning in done.stderr) if warning else not done.stderr
