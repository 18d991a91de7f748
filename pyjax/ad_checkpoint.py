"""Choosing what checkpoint saves: policies and names."""

from pyjax.api.checkpoint import checkpoint_name as checkpoint_name
from pyjax.api.checkpoint_policies import Offloadable as Offloadable
from pyjax.api.checkpoint_policies import Recompute as Recompute
from pyjax.api.checkpoint_policies import Saveable as Saveable
from pyjax.api.checkpoint_policies import checkpoint_policies as checkpoint_policies
from pyjax.api.saved_residuals import print_saved_residuals as print_saved_residuals
