"""What has no threaded code."""

from __future__ import annotations


class NoThreadedCode(ValueError):
    """Something has no threaded code: its program waits for optimised code, as any did before."""
