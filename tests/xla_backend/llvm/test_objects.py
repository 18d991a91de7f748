"""Several pieces of object code as one entry on disk."""

import pytest

from xla_backend.llvm import objects


@pytest.mark.parametrize("parts", [[], [b"one"], [b"", b"two", b"\0three"]])
def test_several_objects_are_one_entry(parts):
    assert objects.taken_apart(objects.put_together(parts)) == parts
