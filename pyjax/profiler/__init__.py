"""What a program does and when: traces for Perfetto and TensorBoard, and profiles of memory."""

from pyjax.profiler.annotations import StepTraceAnnotation as StepTraceAnnotation
from pyjax.profiler.annotations import TraceAnnotation as TraceAnnotation
from pyjax.profiler.annotations import annotate_function as annotate_function
from pyjax.profiler.memory import device_memory_profile as device_memory_profile
from pyjax.profiler.memory import save_device_memory_profile as save_device_memory_profile
from pyjax.profiler.profile_data import ProfileData as ProfileData
from pyjax.profiler.profile_data import ProfileEvent as ProfileEvent
from pyjax.profiler.profile_data import ProfilePlane as ProfilePlane
from pyjax.profiler.tracing import ProfileOptions as ProfileOptions
from pyjax.profiler.tracing import register_subprocess as register_subprocess
from pyjax.profiler.tracing import start_server as start_server
from pyjax.profiler.tracing import start_trace as start_trace
from pyjax.profiler.tracing import stop_server as stop_server
from pyjax.profiler.tracing import stop_trace as stop_trace
from pyjax.profiler.tracing import trace as trace
