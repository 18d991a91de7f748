"""Several pieces of object code as one entry on disk."""

import pytest

from xla_backend.llvm.kept_code import put_together, taken_apart


@pytest.mark.parametrize("parts", [[], [b"one"], [b"", b"two", b"\0three"]])
def test_several_objects_are_one_entry(parts):
    assert taken_apart(put_together(parts)) == parts
