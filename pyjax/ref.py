"""pyjax.ref: mutable references to arrays."""

from pyjax.core.refs import AbstractRef as AbstractRef
from pyjax.core.refs import Ref as Ref
from pyjax.lax.refs.access import addupdate as addupdate
from pyjax.lax.refs.access import empty_ref as empty_ref
from pyjax.lax.refs.access import free_ref as free_ref
from pyjax.lax.refs.access import freeze as freeze
from pyjax.lax.refs.access import get as get
from pyjax.lax.refs.access import new_ref as new_ref
from pyjax.lax.refs.access import set as set
from pyjax.lax.refs.access import swap as swap
