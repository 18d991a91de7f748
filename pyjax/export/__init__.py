"""Programs that leave the process: export, serialise, load and call them elsewhere."""

from pyjax.export import library_types as _library_types  # registers them
from pyjax.export.exported import Exported as Exported
from pyjax.export.exported import deserialize as deserialize
from pyjax.export.exporting import default_export_platform as default_export_platform
from pyjax.export.exporting import export as export
from pyjax.export.safety import DisabledSafetyCheck as DisabledSafetyCheck
from pyjax.export.shape_specs import SymbolicScope as SymbolicScope
from pyjax.export.shape_specs import is_symbolic_dim as is_symbolic_dim
from pyjax.export.shape_specs import symbolic_args_specs as symbolic_args_specs
from pyjax.export.shape_specs import symbolic_shape as symbolic_shape
from pyjax.export.trees import (
    register_namedtuple_serialization as register_namedtuple_serialization,
)
from pyjax.export.trees import (
    register_pytree_node_serialization as register_pytree_node_serialization,
)
from pyjax.export.versions import (
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
)
from pyjax.export.versions import (
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
)
