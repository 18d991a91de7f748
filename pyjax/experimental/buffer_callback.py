"""Python functions that work on the buffers of programs."""

from pyjax.lax.buffer_callbacks import Buffer as Buffer
from pyjax.lax.buffer_callbacks import ExecutionContext as ExecutionContext
from pyjax.lax.buffer_callbacks import ExecutionStage as ExecutionStage
from pyjax.lax.buffer_callbacks import buffer_callback as buffer_callback

__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]
