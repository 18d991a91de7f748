"""Where in the user's code operations come from."""

from pyjax.core.source_info import Frame as SourceInfo
from pyjax.core.source_info import current_source as current
from pyjax.core.source_info import name_scope as extend_name_stack
from pyjax.core.source_info import register_exclusion as register_exclusion
from pyjax.core.source_info import summarize_source as summarize

__all__ = ["SourceInfo", "current", "extend_name_stack", "register_exclusion", "summarize"]
