// All-reduce, residual and RMSNorm of some tokens, by each kernel that makes them, each verified.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lang_bench.h"
#include "stretto/device/lang/kernels/all_reduce_norm.h"
#include "stretto/device/lang/kernels/scatter_norm_gather.h"

namespace stretto::bench {

inline constexpr int kMostOneShotTokens = 128;

class NormBench {
 public:
  NormBench(LangBench& bench, size_t max_bytes, size_t max_row_bytes);

  // Rows of `columns`; own rows' residuals are uploaded for this number of tokens.
  void set_shape(size_t tokens, size_t columns);

  Json time_nccl();  // NCCL's all-reduce, then the norm
  Json time_one_shot(int blocks);
  Json time_two_shot(int blocks);
  Json time_own_rows(int blocks);
  Json time_chunks(int blocks, uint64 rows_per_chunk);

 private:
  device::NormArgs<GpuBlock> norm(int rank) const;
  device::AllReduceNormArgs<GpuBlock> args(int rank) const;
  Json time(int blocks, const std::function<void(int)>& enqueue);
  // A few rows against double precision, on all ranks, with equal bits.
  void verify();
  std::vector<uint16_t> row_of(int rank, size_t row);

  LangBench& bench_;
  size_t ranks_, max_bytes_;
  PerRank input_, reduced_, residual_, own_residual_, new_residual_, output_, weight_, state_;
  size_t slots_, greetings_, shared_output_, signals_;
  std::unique_ptr<TeamKernel> add_norm_, chunks_;
  struct Specialised {
    std::unique_ptr<TeamKernel> one_shot, two_shot, own_rows;
  };
  std::map<int, Specialised> by_threads_;
  size_t tokens_ = 0, columns_ = 0;
  int threads_ = 0, copy_threads_ = 0;
  bool in_shared_output_ = false;
};

}  // namespace stretto::bench
