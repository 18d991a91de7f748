"""The host's end of infeed, outfeed and host transfers: one set of queues for each device.

A program that runs an infeed reads what was put into `host_of(device).infeed`, oldest first; what
it sends with outfeed is appended to `host_of(device).outfeed`. Likewise `to_device[channel]` and
`from_device[channel]` for recv and send with `is_host_transfer=true`. An entry is the list of the
arrays of one transfer.

>>> import numpy as np
>>> host_of(0).infeed.append([np.ones(3, np.float32)])
>>> host_of(0).infeed.clear()
"""

from __future__ import annotations

from xla_backend.hlo.evaluator.transfers import Host

_hosts: dict[int, Host] = {}


def host_of(device: int = 0) -> Host:
    """The queues of a device, empty at first."""
    return _hosts.setdefault(device, Host())
