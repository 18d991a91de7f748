"""pyjax.ad: where cotangents go (`vjp(f, x)[1].with_refs(...)`)."""

from pyjax.api.accumulators import DidntWant as DidntWant
from pyjax.api.accumulators import DontWant as DontWant
from pyjax.api.accumulators import GradRef as GradRef
from pyjax.api.accumulators import GradValue as GradValue
