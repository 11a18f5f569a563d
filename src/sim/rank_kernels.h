// What a plan's programs say of its kernels and streams, as far as times hang on it.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/of_tasks.h"
#include "stretto/plan.h"

namespace stretto::cuda {
struct RankProgram;
}  // namespace stretto::cuda

namespace stretto::sim {

// Read from what ranks enqueue (launch/rank_program.h), and from nowhere else. Plans that GPUs
// cannot run are cut into such kernels too.
class RankKernels {
 public:
  explicit RankKernels(const Plan& plan);

  // By lane, ascending: where it ends a GEMM kernel that has a kernel of movers right behind it,
  // ahead of the next boundary. All compute lanes of the rank go from one to the other there, also
  // those without a part in either.
  const std::vector<uint32_t>& ends(uint32_t lane) const { return ends_[lane]; }

  // Whether every rank's run is kernels of ours on one stream, none of them of movers behind a GEMM
  // kernel: then each starts early.
  bool is_one_stream() const { return is_one_stream_; }
  // Whether some rank has a stream of this kind.
  bool has_stream(LaneKind kind) const { return streams_ >> static_cast<unsigned>(kind) & 1; }

  // Of a partition that a kernel of partitions makes: by how many blocks; null: movers make it. So
  // it is with those that a dispatch's kernel makes: they take as long there (docs/notes/moe.md, "A
  // partition beside its rows").
  const int* partition_blocks(const Instr& route) const { return partition_blocks_.find(route); }

  // What the kernels between two boundaries are, of all ranks.
  struct Stretch {
    bool has_kernels = false, multiplies = false;
  };
  // By boundaries before it, up to the last one that has kernels.
  const std::vector<Stretch>& stretches() const { return stretches_; }

 private:
  void add(const Plan& plan, const cuda::RankProgram& program,
           const std::vector<uint32_t>& compute_lanes);

  std::vector<std::vector<uint32_t>> ends_;
  bool is_one_stream_ = true;
  uint32_t streams_ = 0;  // a bit for each kind of lane
  OfTasks<int> partition_blocks_;
  std::vector<Stretch> stretches_;
};

}  // namespace stretto::sim
