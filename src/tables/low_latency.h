// A plan's collectives as calls of the device language's kernels, whose data says itself that it
// has come (stretto/device/lang/kernels/): for few rows, where NCCL's start is most of its time.
#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "launch/buffer_places.h"
#include "stretto/device/run_rows.h"
#include "stretto/schedule.h"

namespace stretto::cuda {

// One rank's part. Rank r's rows are elements [r * part, (r + 1) * part) of `count`; the last ones
// may be fewer, or none. Of an all-reduce `part` is all of them.
struct LowLatencyCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  DType dtype = DType::bf16;
  DevicePtr from = 0, to = 0;  // 0: of a rank without rows, where it has nothing there
  int64_t part = 0, count = 0;
  // Where the rows of a call stand in the rank's memory, of `row` elements each; part and count are
  // then of as many as there may be at the most. 0: all of them.
  DevicePtr rows_at = 0;
  int64_t row = 0;
  // Of an all_reduce_norm, whose sum goes to `to`.
  DevicePtr residual = 0, weights = 0, normed = 0;
  int64_t row_elements = 0;
  float eps = 0;
  // Of a dispatch or combine. `from` are rows that it reads, `to` rows that it writes.
  struct Chosen {
    uint32_t tokens = 0, block_tokens = 0, top_k = 0, experts = 0;
    bool notes_ids = false, notes_weights = false;  // ranks have those of own tokens alone
    bool of_all_experts = false;                    // each rank has a part of every expert
    bool has_wide_ids = false, by_choice = false, round_trip = false, counts_bad_ids = false;
    DevicePtr ids = 0, weights = 0, row_of_choice = 0;
    DevicePtr all_ids = 0, all_weights = 0, counts = 0;
    DevicePtr bad_ids = 0;     // where the rank counts those that are no expert's
    bool looks_early = false;  // of sums: as SumChosenArgs::looks_early

    bool operator==(const Chosen&) const = default;
  } chosen = {};
  // Of a dispatch whose kernel makes the partition of what it brings (joined_partitions.h).
  struct Routed {
    int32_t first_expert = 0, experts = 0;  // of the rank
    int32_t entry_rows = 0, entries = 0;    // 0: it makes none
    DevicePtr choices = 0, experts_of_entries = 0, rows = 0, counts = 0;

    bool operator==(const Routed&) const = default;
  } routed = {};
  size_t kernel = 0;  // of the graph's, which makes it (Instr::kernel()); 0: one of the project's

  bool operator==(const LowLatencyCall&) const = default;
};

// Of 16 bytes, in so many elements.
inline int64_t vectors_of(const LowLatencyCall& call, int64_t elements) {
  return elements * num_bytes(call.dtype) / kLowLatencyBytes;
}

// Ids of the collectives that only receive what a product of few rows sends.
std::set<int32_t> receiving_collectives(const Plan& plan);

// Of `sms` of a GPU those that a rank's collectives may take: movers of other products have theirs
// until all that they do is done.
int sms_of_collectives(const Plan& plan, int rank, int sms);

// The kind and sizes of the collective of which `instr` is a part, the same on all ranks.
LowLatencyCall low_latency_sizes(const Plan& plan, const Instr& instr);
// Of the partition that its kernel makes, a route.
LowLatencyCall::Routed routed_sizes(const Plan& plan, const Instr& route);
// A rank's part of the collective at `lane`, `position`, in a run on instance set `set`. The plan
// has low_latency_collectives, and why_no_low_latency() is empty; or a kernel of the graph's makes
// it, and why_no_edge_calls() is.
LowLatencyCall low_latency_call(const Plan& plan, uint32_t lane, uint32_t position,
                                const BufferPlaces& places, int set);
LowLatencyCall::Routed routed_call(const Plan& plan, const Instr& route, const BufferPlaces& places,
                                   int set);

// Why the kernels cannot make the plan's collectives, of runs of fewer rows where it serves; empty
// when they can.
std::string why_no_low_latency(const Plan& plan, bool serves = false);

// The call of a run of fewer of the plan's `most` rows: the rows of an owner are then fewer, and
// follow the owner's before at once.
LowLatencyCall with_rows(LowLatencyCall call, const device::RunRows& run, int64_t most);
// The same of a run whose rows stand in memory; `run` has as many as there may be.
LowLatencyCall with_rows_at(LowLatencyCall call, DevicePtr rows_at, const device::RunRows& run,
                            int64_t most);

}  // namespace stretto::cuda
