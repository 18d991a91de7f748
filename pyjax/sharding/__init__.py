"""Where the parts of arrays lie: meshes of devices, and what they split. Public names only.
Functions that move arrays are of a higher layer, and load on first use."""

from typing import Any as _Any

from pyjax.sharding.manual_axes import AbstractDevice as AbstractDevice
from pyjax.sharding.manual_axes import ManualAxisType as ManualAxisType
from pyjax.sharding.mesh import AbstractMesh as AbstractMesh
from pyjax.sharding.mesh import AxisType as AxisType
from pyjax.sharding.mesh import Mesh as Mesh
from pyjax.sharding.mesh import get_abstract_mesh as get_abstract_mesh
from pyjax.sharding.mesh import get_mesh as get_mesh
from pyjax.sharding.mesh import set_mesh as set_mesh
from pyjax.sharding.mesh import use_abstract_mesh as use_abstract_mesh
from pyjax.sharding.partition_spec import PartitionSpec as PartitionSpec
from pyjax.sharding.shardings import NamedSharding as NamedSharding
from pyjax.sharding.shardings import Shard as Shard
from pyjax.sharding.shardings import Sharding as Sharding
from pyjax.sharding.shardings import SingleDeviceSharding as SingleDeviceSharding
from pyjax.sharding.shardings import make_single_device_sharding as make_single_device_sharding
from xla_backend.process.on_first_use import import_now as _import_now

_MOVING = frozenset({"auto_axes", "explicit_axes", "reshard"})


def __getattr__(name: str) -> _Any:
    if name in _MOVING:
        return getattr(_import_now("pyjax.parallel.reshard"), name)
    raise AttributeError(f"module 'pyjax.sharding' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MOVING})
