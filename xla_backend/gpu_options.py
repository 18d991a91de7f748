"""GpuOptions: what a compilation for GPUs does otherwise than usual. Settings only; other targets
look at none of them."""

from __future__ import annotations

from xla_backend.process.values import Value


class GpuOptions(Value):
    """The `xla_gpu_*` flags of one compilation.

    Fields:
      deterministic: results have the same bits in each run; nothing is added up in the order in
        which threads come.
      autotune_level: 0: what is measured on the device elsewhere is decided by the sizes alone; 4:
        what is measured must compute what the others do.
      autotune_results, autotuned_before: files of what was measured, to write and to read before;
        "" for none.
      graphs: programs may become CUDA graphs.
      group_products: GPUs of compute capability 9.0 may multiply by groups of 128 threads (sm_90a);
        False: code for them is that for sm_90.
      all_reduce_bytes, all_gather_bytes, reduce_scatter_bytes: so much collectives of one kind may
        have together to be made one.   combined_collectives: how many operands such a one has at
        most.
      collective_timeout: seconds after which a run of several GPUs that is not over ends by an
        error; not positive: never.
      flush_denormals: subnormal numbers of f32 are zeros, as operands and as results.
      toolkit: folder of a CUDA toolkit, to look for its programs in first; "" for none.
      assembler_flags: of ptxas, in addition.
      refuse_spills: a kernel whose registers spill is an error.
      llvm_files, ptx_files: texts that take the place of what is generated for a module, where the
        file's name begins with that of the module's dumps.
    """

    deterministic: bool = False
    autotune_level: int = 4
    autotune_results: str = ""
    autotuned_before: str = ""
    graphs: bool = True
    group_products: bool = True
    all_reduce_bytes: int = 31457287
    all_gather_bytes: int = 31457287
    reduce_scatter_bytes: int = 31457287
    combined_collectives: int = 2048
    collective_timeout: int = -1
    flush_denormals: bool = False
    toolkit: str = ""
    assembler_flags: tuple[str, ...] = ()
    refuse_spills: bool = False
    llvm_files: tuple[str, ...] = ()
    ptx_files: tuple[str, ...] = ()
