"""Functions that say themselves how they are partitioned over devices."""

from pyjax.parallel.custom_partitioning import custom_partitioning as custom_partitioning
from pyjax.parallel.custom_partitioning import custom_partitioning_p as custom_partitioning_p
from pyjax.parallel.sharding_rules import BATCHING as BATCHING
from pyjax.parallel.sharding_rules import ArrayMapping as ArrayMapping
from pyjax.parallel.sharding_rules import CompoundFactor as CompoundFactor
from pyjax.parallel.sharding_rules import SdyShardingRule as SdyShardingRule
