"""Choosing what checkpoint saves: policies and names."""

from pyjax.api.checkpoint import checkpoint_name as checkpoint_name
from pyjax.api.checkpoint_policies import checkpoint_policies as checkpoint_policies
