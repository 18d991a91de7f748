"""Options that distribute programs: what each does over eight devices, or where it is looked at.

`test_distribution_options.py` runs this as a program, which writes down what it sees (JSON).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pyjax
import pyjax.numpy as jnp
from pyjax.sharding import AxisType, Mesh, NamedSharding
from pyjax.sharding import PartitionSpec as P


class Seen(NamedTuple):
    """What is seen without the value and with it.

    Fields:
      at_start: it is read when devices are made, and so set in the environment of a process.
    """

    value: Any
    look: Callable[[], Any]
    default: Any
    changed: Any
    at_start: bool = False


def line() -> Mesh:
    return Mesh(np.array(pyjax.devices()), ("i",), (AxisType.Auto,))


def spread() -> pyjax.Array:
    return pyjax.device_put(np.arange(40.0, dtype=np.float32), NamedSharding(line(), P("i")))


def places(x: pyjax.Array) -> list[int]:
    return [shard.device.id for shard in x.addressable_shards]


def error_of(f: Callable[[], object]) -> str:
    try:
        f()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:60]
    return ""


def cut_twice() -> str:
    add = pyjax.shard_map(
        lambda x, y: x + y.sum(),
        mesh=line(),
        in_specs=(P(), P("i")),
        out_specs=P(),
        check_vma=False,
    )
    mapped = pyjax.vmap(add, in_axes=(0, None), spmd_axis_name="i")
    return error_of(lambda: mapped(jnp.ones((8, 2)), jnp.ones(8)))


def with_mesh() -> str:
    def enter() -> None:
        with line():
            pass

    return error_of(enter)


def random_numbers() -> bool:
    """Whether devices draw their parts by themselves; else each draws all of them."""
    draw = pyjax.jit(
        lambda key: pyjax.random.bits(key, (4096,)), out_shardings=NamedSharding(line(), P("i"))
    )
    text = draw.lower(pyjax.random.key(0)).compile().as_text()
    return "4096]" not in text.split("ENTRY")[1]


def written() -> list[str]:
    """How an argument, a result, a constraint or a mesh, and a body that sees parts are written, in
    the program and in what is exported."""
    body = pyjax.shard_map(lambda x: x + 1, mesh=line(), in_specs=P("i"), out_specs=P("i"))
    there = NamedSharding(line(), P("i"))
    f = pyjax.jit(lambda x: body(x * 2), in_shardings=there, out_shardings=there)
    lowered = f.lower(jnp.ones(8))
    text = lowered.as_text()
    assert str(lowered.compiler_ir()) == text
    exported = pyjax.export.export(f)(jnp.ones(8)).mlir_module()
    is_shardy = "sdy.sharding" in text
    assert ("sdy.mesh" in exported) == is_shardy
    first, *rest = [row for row in text.splitlines() if "@main" in row]
    assert not rest
    taken, _, given = first.partition("->")
    both = [re.search("sdy.sharding|mhlo.sharding", part) for part in (taken, given)]
    last = re.search("@Sharding|sdy.mesh", text)
    around = re.search("@SPMDFullToShardShape|sdy.manual_computation", text)
    found = [*both, last, around]
    return [match[0] for match in found if match]


def types_over_a_flat_mesh() -> list[str]:
    """Of an array, of a sum of two that name the axis of size 1 differently, and inside of
    shard_map, whose result is taken to be the same along that axis."""
    flat = Mesh(np.array(pyjax.devices()).reshape(8, 1), ("i", "one"), (AxisType.Explicit,) * 2)
    seen = []

    def body(x: pyjax.Array) -> pyjax.Array:
        total = pyjax.lax.psum(x, "one")
        cast = pyjax.lax.pcast(jnp.ones(2), ("i", "one"), to="varying")
        seen.extend(str(pyjax.typeof(v)) for v in (x, total, pyjax.lax.axis_index("one"), cast))
        return x

    with pyjax.set_mesh(flat):
        x = pyjax.device_put(np.arange(64.0, dtype=np.float32).reshape(8, 8), P("i", "one"))
        y = pyjax.device_put(np.ones((8, 8), np.float32), P(("i", "one")))
        seen.append(str(pyjax.typeof(x)))
        seen.append(error_of(lambda: seen.append(str(pyjax.typeof(x + y)))))
        same = pyjax.shard_map(body, in_specs=P("i", "one"), out_specs=P("i"))
        seen.append(error_of(lambda: np.testing.assert_array_equal(same(x), x))[:35])
    return seen


def casts() -> list[str]:
    """Of a sum with a constant, of one with what is cast, and of a collective of what is the same
    everywhere."""
    bodies = (
        lambda x: x + 1,
        lambda x: x + pyjax.lax.pcast(jnp.ones(1), "i", to="varying"),
        lambda x: x + pyjax.lax.pcast(pyjax.lax.pmax(jnp.ones(1), "i"), "i", to="varying"),
    )
    run = lambda body: pyjax.shard_map(body, mesh=line(), in_specs=P("i"), out_specs=P("i"))
    return [error_of(lambda body=body: run(body)(jnp.ones(8))) for body in bodies]


ON_DEVICES: dict[str, Seen] = {
    "jax_auto_pcast": Seen(
        False,
        casts,
        ["", "", ""],
        [
            "ValueError: add requires varying manual axes to match, but g",
            "",
            "ValueError: pmax requires varying manual axes to match, but ",
        ],
    ),
    "jax_num_cpu_devices": Seen(
        5, lambda: places(spread()), [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4], at_start=True
    ),
    "jax_pjrt_client_create_options": Seen(
        "device_count:4", lambda: len(places(spread())), 8, 4, at_start=True
    ),
    "jax_default_device": Seen(
        lambda: pyjax.devices()[6], lambda: (jnp.ones(2) + 1).device.id, 0, 6
    ),
    "jax_disable_vmap_shmap_error": Seen(
        True, cut_twice, "ValueError: vmap spmd_axis_name cannot appear in shard_map i", ""
    ),
    "jax_disallow_mesh_context_manager": Seen(
        True, with_mesh, "", "RuntimeError: the mesh context manager is disabled: `with me"
    ),
    "jax_use_shardy_partitioner": Seen(
        False,
        written,
        ["sdy.sharding", "sdy.sharding", "sdy.mesh", "sdy.manual_computation"],
        ["mhlo.sharding", "@Sharding", "@SPMDFullToShardShape"],
    ),
    "jax_remove_size_one_mesh_axis_from_type": Seen(
        True,
        types_over_a_flat_mesh,
        [
            "float32[8@i,8@one]",
            "ShardingTypeError: add got incompatible shardings for broadc",
            "float32[1,8]{V:(i,one)}",
            "float32[1,8]{V:i}",
            "int32[]{V:one}",
            "float32[2]{V:(i,one)}",
            "ValueError: shard_map of body: out_",
        ],
        [
            "float32[8@i,8]",
            "float32[8@i,8]",
            "",
            "float32[1,8]{V:i}",
            "float32[1,8]{V:i}",
            "int32[]",
            "float32[2]{V:i}",
            "",
        ],
    ),
    "jax_threefry_partitionable": Seen(False, random_numbers, True, False),
}

# Rows of tests/config/effects show them: one device of one process is enough, or they are of GPUs,
# or of several processes. Two are of programs of one device only, as they say.
ON_ONE = frozenset(
    """
    check_vma jax_backend_target jax_check_proxy_envs jax_cpu_collectives_implementation
    jax_cpu_enable_async_dispatch jax_cpu_enable_gloo_collectives
    jax_cpu_get_global_topology_timeout_minutes jax_cpu_memory_limit jax_cuda_memory_fraction
    jax_cuda_visible_devices jax_distributed_debug jax_enable_empty_arrays jax_gpu_group_products
    jax_first_code jax_mock_gpu_topology jax_native_dispatch jax_num_threads
    jax_pmap_no_rank_reduction jax_pmap_shmap_merge
    jax_platform_name jax_platforms jax_remove_custom_partitioning_ptr_from_cache_key
    jax_transfer_guard jax_transfer_guard_device_to_device jax_transfer_guard_device_to_host
    jax_transfer_guard_host_to_device jax_use_magma jax_xla_backend mock_num_gpu_processes
    """.split()
)

# The registry says why they do nothing.
INERT = frozenset(
    """
    jax_bcoo_cusparse_lowering jax_cpu_get_local_topology_timeout_minutes
    jax_enable_preemption_service jax_enable_recoverability
    jax_rocm_visible_devices jax_share_binary_between_hosts
    jax_share_binary_between_hosts_timeout_ms
    """.split()
)


def main(at_start: str | None = None) -> None:
    if at_start:
        print(json.dumps(ON_DEVICES[at_start].look()))
        return
    found = {}
    for name, seen in ON_DEVICES.items():
        before = getattr(pyjax.config, name)
        looks = [seen.look()]
        if not seen.at_start:
            value = seen.value() if callable(seen.value) else seen.value
            pyjax.config.update(name, value)
            looks.append(seen.look())
            pyjax.config.update(name, before)
            looks.append(seen.look())
        found[name] = looks
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
