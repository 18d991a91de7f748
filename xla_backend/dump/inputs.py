"""What the compiler was given besides the module, as text protos: options and target."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from xla_backend.dump.text_format import Bare, flag_lines, message
from xla_backend.xla_flag_table import FLAGS


def compile_options_text(changed: Sequence[tuple[str, Any]], profile_version: int) -> str:
    """A CompileOptionsProto with every flag: the defaults, and those that were changed."""
    values = {name: default for name, _, default in FLAGS} | dict(changed)
    flags = "\n".join(flag_lines(values.items(), indent="    "))
    rest = message(
        {
            "num_replicas": 1,
            "num_partitions": 1,
            "device_assignment": {
                "replica_count": 1,
                "computation_count": 1,
                "computation_devices": {"replica_device_ids": 0},
            },
            "process_count": 1,
        },
        "  ",
    )
    return (
        "executable_build_options {\n  device_ordinal: -1\n  debug_options {\n"
        f"{flags}\n  }}\n{rest}}}\nprofile_version: {Bare(str(profile_version or -1))}\n"
    )


def topology_text(target: dict[str, str]) -> str:
    """Platform and machine: `target` has the triple, the CPU and its features."""
    return message(
        {
            "platform_name": "cpu",
            "platform_version": sys.platform,
            "platform_specific_topology": dict(target),
        }
    )
