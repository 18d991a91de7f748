"""StableHLO: the textual dialect, both ways, and its conversion to and from HLO."""
