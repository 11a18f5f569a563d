// What instructions of a plan cost on a machine, before anything contends with them.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "plan/tile_task.h"
#include "sim/calibration.h"
#include "sim/chosen_experts.h"
#include "sim/of_tasks.h"
#include "sim/rank_kernels.h"
#include "stretto/machine.h"
#include "stretto/plan.h"

namespace stretto::sim {

// One microsecond at 1 GB/s moves a thousand bytes.
inline double move_us(double bytes, double gb_per_s) { return bytes / (gb_per_s * 1e3); }

inline bool only_moves(const Instr& instr) {
  return instr.kind() != nullptr && instr.kind()->cost.rate == Rate::moves;
}

// What one rank's task sends to another rank's memory, or pulls from it.
struct Flow {
  uint16_t from = 0, to = 0;
  double bytes = 0;
};

// What a copy or reduce moves.
struct Traffic {
  std::vector<Flow> flows;  // between ranks, one for each remote region
  double local_bytes = 0;   // read and written in this rank's memory
  double flow_bytes() const;
};

class Costs {
 public:
  Costs(const Plan& plan, const Machine& machine);

  const Machine& machine() const { return machine_; }
  const RankKernels& kernels() const { return kernels_; }

  // Full-speed time of a gemm: its MMAs, padded as the hardware pads them, but no less than its
  // share of reading the rank's inputs once; and the tile's overhead. Of a range of K it is that
  // range's share. Its sums stay in registers, and the tile's overhead is paid once, where ranges
  // follow one another on the lane that adds them; else they are stored before the block goes on.
  double gemm_us(const Instr& instr) const;
  // How many times as long a tile takes that begins so much later than the first of its wave.
  double slowdown_when_late(const Instr& gemm, double late_us) const;
  // Whether the task is done to a tile before it is stored, in the epilogue of the gemm before: its
  // remote writes are the tile's. So it is with what follows products, and with the sum over a
  // tile's ranges of K, which reads those that others have left.
  bool ends_tile(const Instr& instr) const {
    return instr.fused && (adds_ranges(instr) || follows_.find(instr) != nullptr);
  }
  // How much longer its block takes for what follows a product.
  double follow_us(const Instr& instr) const;
  // Whether the gemm's sums lie in memory until another lane adds them.
  bool leaves_sums(const Instr& gemm) const {
    return holds_ranges_[plan_.writes(gemm)[0].buffer] && parts_.find(gemm) == nullptr;
  }
  // Whether rows of the task's tile go to several places.
  bool stores_parts(const Instr& task) const;
  // Replaces `traffic` by what the task moves; of a gemm and what follows it only the remote
  // writes, and of sums and norms not what they have in registers.
  void traffic_of(const Instr& instr, int rank, Traffic& traffic) const;
  // Whether it has nothing to do in a run whose experts are all as likely.
  bool is_empty(const Instr& instr) const;
  // What a block takes, for a partition's tables, before it moves anything.
  double start_us(const Instr& instr) const;
  double bytes_read(const Instr& instr) const;
  // Whether a communication block completes the copy before it sends more.
  bool is_short_copy(const Instr& instr) const;
  double bytes_sent(const Instr& instr, int rank) const;  // to other ranks
  // Share of a warp's accesses that rows of the task's result fill.
  double row_fill(const Instr& instr) const;
  // From when all who join a collective are at it until it moves their bytes.
  double collective_launch_us(const Instr& instr, const Plan::Joined& joined) const;
  // Time in which NCCL, or the device language's kernels, then move them.
  double collective_us(const Instr& instr, const Plan::Joined& joined) const;
  double chosen_us(const Instr& instr) const;  // of one that goes by ids

  // GB/s of one of `blocks` blocks that push at once on a GPU; `peers` that the task writes to.
  double push_rate(int blocks, size_t peers) const;
  // GB/s at which one of `blocks` blocks that read and write their own memory does so; by itself it
  // would reach this share of what a block can.
  double memory_rate(int blocks, double share = 1) const;
  // GB/s of one copy-engine copy by itself, and of all copy engines of a GPU together.
  double copy_rate(double bytes) const;
  double all_copies_rate() const { return all_copies_rate_; }
  // GB/s that a GPU's port inside the node, or its share of the network, carries one way.
  double port_rate(bool network) const { return network ? machine_.network_gb_per_s : link_rate_; }
  // GB/s that nothing exceeds inside a node which brings so many bytes out of a GPU: its port, or
  // what was measured of NCCL with as many or fewer.
  double best_link_rate(double bytes) const;
  // From the end of the run before until blocks are at work.
  double launch_us() const {
    if (is_library_next(0)) return forks_ ? kForkUs : 0;  // the rest is in what its products take
    return kernels_.is_one_stream() ? machine_.chained_launch_us : machine_.launch_us;
  }
  // From the end of a rank's kernel until the blocks of the next one, behind so many boundaries,
  // are at work.
  double boundary_us(size_t behind) const {
    if (passes_behind_.contains(behind) || kernels_.is_one_stream()) {
      return machine_.chained_launch_us;
    }
    if (!starts_itself_ || !is_library_next(behind)) return machine_.launch_us;
    return forks_ ? kAwaitUs : 0;
  }
  // Whether the kernel behind so many boundaries is a library's.
  bool is_library_next(size_t behind) const {
    if (next_is_library_.empty()) return plan_.library_gemms;
    return behind < next_is_library_.size() && next_is_library_[behind];
  }
  // From the notify until the waiter sees it.
  double signal_us(int from, int to) const;

 private:
  // Of a gemm whose result is not stored as it is: all of K, and of columns, that its lane computes
  // of the tile. Of a sum over ranges of K: how many of them stay in registers.
  struct Part {
    int32_t k = 0, columns = 0;
    uint32_t in_registers = 0;
  };
  Part part_of(const Instr& gemm) const;
  bool adds_ranges(const Instr& reduce) const {
    return is_sum(reduce.op) && holds_ranges_[plan_.reads(reduce)[0].buffer];
  }
  double region_bytes(const Region& region) const;
  TaskShares shares_of(const Instr& instr) const;
  bool follows_entry(const Instr& instr) const;
  // What a product of routed rows reads that others of its rank may read too: rows of an entry, and
  // of every expert's matrix those of its columns. Of experts, only those with rows count.
  void add_inputs_of_entry(const Instr& instr, std::vector<Region>& regions) const;
  double mma_us(const Instr& instr) const;    // of a gemm whose clock nothing holds down
  double stages_us(const Instr& gemm) const;  // that its stages of K take at least
  void find_mma_cols();
  void find_parts();
  void share_inputs();
  void find_terms();
  // Of a product: whether its tiles are terms of a sum.
  bool makes_terms(const Instr& gemm) const {
    return makes_terms_[plan_.reads(gemm).back().buffer];
  }
  double collectives_us(int rank) const;  // of all that the rank takes part in
  void feed_power();
  void slow_by_reads();
  // How many times longer a library's product of gathered rows takes.
  double picked_times(int rank, const Instr& gemm) const;
  void find_products();
  void find_sent();
  // Of so many columns of weights.
  double few_rows_us(const Instr& gemm, int columns, double read_us, double multiply_us) const;
  // The share of its terms that links carry behind the product; none where a product sends none.
  std::optional<double> left_behind(const Instr& collective) const {
    if (collective.num_reads == 0) return std::nullopt;
    return left_behind_[plan_.reads(collective)[0].buffer];
  }
  void find_next_kernels();

  const Plan& plan_;
  const Machine& machine_;
  const RankKernels kernels_;
  const ChosenExperts chosen_;
  int64_t mma_cols_ = 1;  // multiples of columns that tiles are padded to
  double link_rate_ = 0;
  bool starts_itself_ = false;  // a library's product behind a boundary, in the time it takes
  bool forks_ = false;          // cuBLAS alone multiplies, and kernels of movers run beside it
  std::vector<bool> next_is_library_;  // by boundaries: the kernel behind, where some are
  // Where kernels of a library, or of few rows, and passes are all: boundaries that a pass is
  // behind.
  std::set<size_t> passes_behind_;
  double all_copies_rate_ = 0;
  std::vector<double> busy_;           // by rank: share of the SMs that have tiles, over all waves
  std::vector<double> power_;          // by rank: share of the rate that power leaves
  std::vector<double> library_power_;  // the same of cuBLAS
  std::vector<bool> makes_terms_;      // by buffer: weights
  OfTasks<double> slowed_by_reads_;    // of gemms that read much: how many times as long they take
  OfTasks<double> library_us_;         // of gemms that a library multiplies
  // By buffer that the kernel of few rows would write.
  std::vector<std::optional<double>> left_behind_;
  std::vector<double> times_sent_;
  // By buffer, of plans whose collectives' data is its own signal.
  std::vector<bool> gathered_, by_library_;
  std::vector<double> inputs_us_;    // by rank: a tile's share of reading all distinct inputs once
  std::vector<int> blocks_at_once_;  // by rank: gemms
  std::vector<bool> holds_ranges_;   // by buffer: sums of ranges of K
  OfTasks<char> follows_;            // what follows products
  OfTasks<Part> parts_;              // fused tasks, and gemms that they go on with
  std::vector<double> push_one_, push_many_;  // by number of blocks, GB/s of one of them
};

}  // namespace stretto::sim
