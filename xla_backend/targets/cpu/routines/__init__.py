"""The run-time library of generated kernels: thread pool, GEMM, convolution, sort, scans, small
matrices, Fourier transforms.

Every kernel takes its sizes and strides at run time, is generated as LLVM text for this machine,
compiled once and kept on disk. `library.kernel_library()` gives symbol -> address (a lazy mapping:
the group a symbol belongs to is compiled on first lookup). All integers are i64 and all strides
count elements, unless said otherwise. Kernels may be called from several threads at once.

thread_pool
  void pyjax_parallel_for(void (*fn)(ptr ctx, i64 block), ptr ctx, i64 blocks)
        runs fn for blocks 0..blocks-1 on the pool, the caller included; nested or concurrent calls
        run serially on the calling thread. Aim at >= 10 us of work per block.
  void pyjax_parallel_for_polled(...)       the same, but signals stop it between blocks
  i32  pyjax_num_threads(void)
  void pyjax_set_num_threads(i32 n)         n >= 1; threads start on the first parallel call
  Python: thread_pool.set_num_threads(n), runtime.host_threads.num_threads()

python_calls
  i32  pyjax_host_call(ptr call, ptr buffers, ptr context)  runs a host call; nonzero: it raised
  i32  pyjax_poll(void)                     runs pending signal handlers; nonzero: the program ends

gemm     C[M,N] (+)= A[M,K] B[K,N]; rs/cs: row and column stride of A and B (any, so transposes are
         free); C has unit column stride and row stride ldc. flags bit 0: add to C, not write it
  void pyjax_gemm_<t>(M, N, K, ptr A, rsA, csA, ptr B, rsB, csB, ptr C, ldc, flags)
  void pyjax_gemm_batched_<t>(batch, M, N, K, ptr A, bsA, rsA, csA, ptr B, bsB, rsB, csB,
                              ptr C, bsC, ldc, flags)
         each also as ...<t>.<way>, which has one way of doing it (`gemm_paths`)
         <t>: f32, f64, and <in>_<out> (same signature; elements of A and B are <in>, of C <out>)
         for bf16_bf16 bf16_f32 f16_f16 f16_f32, s8_s8 s8_s32 u8_u8 u8_s32 s16_s16 s32_s32 s64_s64
         u16_u16 u32_u32 u64_u64, c64_c64 c128_c128
  void pyjax_gemm_fused_<t>(..., ptr epilogue, ptr data, batch, weight)     ...: as above
  void pyjax_gemm_fused_batched_<t>(batches, ..., ptr epilogue, ptr data, batch, weight,
                                    inner, osA, osB)
        batches come in groups of `inner`: bs is the step in a group, os from group to group;
        each block of C, once all of its sums are complete, is handed to
          epilogue(data, ptr block, ld, row_lo, rows, column_lo, columns, batch)
        by the thread that computed it; element (row_lo + i, column_lo + j) of C lies at
        block + i ld + j. C null (not where M or N is 1): the blocks lie in scratch memory and are
        gone after the call. weight: cost of the epilogue for one element, in multiply-adds

conv     void pyjax_conv_<t>(ptr x, ptr w, ptr out, ptr dims)     t: the kinds of pyjax_gemm_<t>
         dims: i64 array, see `conv` for the layout (any dimension order by strides; any window)

sort     void pyjax_sort_<t>(ptr in, ptr out, outer, n, inner, flags)
         void pyjax_argsort_<t>(ptr keys, ptr perm_s32, outer, n, inner, flags)      stable
         axis 1 of [outer, n, inner]; flags bit 0: descending, bit 1 (argsort): refine the
         permutation given in perm (of pyjax_argsort64_<t>: perm_s64).
         t: pred s8 u8 s16 u16 s32 u32 s64 u64 bf16 f16 f32 f64

selection
         void pyjax_select_<t>(ptr keys, ptr perm_s32, outer, n, first, flags)
         places of the `first` of each row of [outer, n] in sorted order; types, order and bit 0 of
         flags as for sort

cumulative
         void pyjax_<op>_<t>(ptr in, ptr out, outer, n, inner, flags)
         op: cumsum cumprod cummax cummin (cumlogsumexp for floats); scans axis 1 of
         [outer, n, inner]; flags bit 0: from the end

fft      void pyjax_fft_<t>(...), pyjax_rfft_<t>, pyjax_irfft_<t>,
         pyjax_packed_rfft_<t>, pyjax_packed_irfft_<t>                          see there

fft_rows void pyjax_chirp_fft_<t>(...), pyjax_chirp_rfft_<t>, pyjax_chirp_irfft_<t>,
         pyjax_chirp_real_<t>, pyjax_pairs_rfft_<t>, pyjax_pairs_irfft_<t>      see there

small_matrices
         void pyjax_cholesky_<t>(...), pyjax_lu_<t>, pyjax_triangular_<t>      see there

tridiagonal
         void pyjax_tridiagonal_<t>(...)                                       see there

small_eigen, small_reflectors, small_singular
         void pyjax_eigh_<t>(...), pyjax_geqrf_<t>, pyjax_orgqr_<t>, pyjax_ormqr_<t>, pyjax_svd_<t>
"""
