"""print_environment_info: what a report of a problem should say."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np

from pyjax.runtime.devices import device_count, devices, local_device_count, process_count
from pyjax.version import __version__


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, devices and the machine; `pyjax doctor` says more.

    Args:
      return_string: return the text instead.

    >>> print_environment_info(return_string=True).splitlines()[0].startswith("pyjax:")
    True
    """
    kind = devices()[0].device_kind
    lines = [
        f"pyjax:  {__version__}",
        f"numpy:  {np.__version__}",
        f"python: {sys.version}",
        f"device info: {kind}-{device_count()}, {local_device_count()} local devices",
        f"process_count: {process_count()}",
        f"platform: {platform.uname()}",
    ]
    lines += [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(_OURS)]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None


_OURS = ("JAX_", "PYJAX_", "XLA_")
