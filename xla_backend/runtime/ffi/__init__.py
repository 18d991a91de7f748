"""XLA's foreign function interface: functions of shared libraries as custom calls."""
