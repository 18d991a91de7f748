"""What code is made for: an LLVM triple, a CPU and its features; the common ones by name.

Names only: what a target can do is worked out by the code generator (`llvm.target`).
"""

from __future__ import annotations

from xla_backend.process.values import Value


class Target(Value):
    """A machine that code is made for, in LLVM's names.

    Fields:
      triple: architecture, vendor, system and so the format of object files:
        "aarch64-unknown-linux-gnu", "arm64-apple-macosx11.0.0", "x86_64-pc-windows-msvc".
      cpu: which model; "" for the least that the architecture asks for.
      features: what it has beyond what the CPU's name implies, "+avx2,+fma".
    """

    triple: str
    cpu: str = ""
    features: str = ""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU, whose architecture is `cpu`."""
        return self.triple.startswith("nvptx64")


# Per architecture, the first word of a triple: the CPU and features every machine has. Fixed-width
# vectors are part of WebAssembly since its version 2.0.
_BASELINES = {
    "x86_64": ("x86-64", ""),
    "aarch64": ("generic", ""),
    "arm64": ("generic", ""),
    "wasm32": ("generic", "+simd128"),
    "nvptx64": ("sm_80", ""),
}
_LINUX = "x86_64-unknown-linux-gnu"
_CUDA = "nvptx64-nvidia-cuda"
_NAMED = {
    "x86-64": Target(_LINUX, "x86-64"),
    "x86-64-v2": Target(_LINUX, "x86-64-v2"),
    "x86-64-v3": Target(_LINUX, "x86-64-v3"),
    "x86-64-v4": Target(_LINUX, "x86-64-v4"),
    "aarch64": Target("aarch64-unknown-linux-gnu"),
    "wasm32": Target("wasm32-unknown-unknown"),
    **{name: Target(_CUDA, name) for name in ("sm_80", "sm_90", "sm_90a", "sm_100", "sm_120")},
}


def find_target(target: str | Target) -> Target:
    """The target that a name or a triple means, with its CPU filled in.

    Raises:
      ValueError: no such name, or an architecture that no code is made for.
      TypeError: it is no name, such as the number 90 for "sm_90".

    >>> find_target("x86-64-v2")
    Target(triple='x86_64-unknown-linux-gnu', cpu='x86-64-v2', features='')
    >>> find_target("wasm32-unknown-wasi").features
    '+simd128'
    """
    if isinstance(target, str):
        target = _NAMED.get(target) or Target(target)
    elif not isinstance(target, Target):
        meant = f"sm_{target}"
        instead = f"{meant!r}" if meant in _NAMED else f"one of {', '.join(_NAMED)}"
        raise TypeError(
            f"a target is a name or a Target(triple, cpu, features), and this is {target!r}: write "
            f"{instead}"
        )
    baseline = _BASELINES.get(target.triple.split("-", 1)[0])
    if baseline is None or "-" not in target.triple:
        raise ValueError(
            f"no code can be made for the target {target.triple!r}; pass one of "
            f"{', '.join(_NAMED)}, a triple such as 'aarch64-apple-macosx11.0.0' (of the "
            f"architectures {', '.join(_BASELINES)}), or Target(triple, cpu, features)"
        )
    if target.cpu:
        return target
    cpu, features = baseline
    return Target(target.triple, cpu, ",".join(filter(None, (features, target.features))))
