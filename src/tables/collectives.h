// A plan's collectives as calls of NCCL, which moves contiguous memory.
#pragma once

#include <vector>

#include "launch/buffer_places.h"

namespace stretto::cuda {

struct NcclCall {
  enum class Kind : uint8_t {
    all_gather,
    reduce_scatter,
    all_reduce,
    broadcast,
    reduce,
    send,
    receive
  };
  Kind kind = Kind::all_reduce;
  DType dtype = DType::bf16;
  // broadcast, reduce; send, receive: the other rank. Counted from the first of the team.
  int root = 0;
  DevicePtr from = 0, to = 0;
  int64_t count = 0;  // all_gather, reduce_scatter: of each rank
  int team = 0;       // ranks of each team that makes it by itself; 0: all ranks make it

  bool operator==(const NcclCall&) const = default;
};

// One rank's part of a collective that it joins at `lane`, `position`, in a run on instance set
// `set` (num_sets()). Several calls belong into one NCCL group. All who join make the same: equal
// parts that lie next to each other everywhere are one call, ragged ones a broadcast or reduction
// each; of an all-to-all what each sends to and receives from every one. Throws UsageError as
// CollectiveParts does.
std::vector<NcclCall> nccl_calls(const Plan& plan, uint32_t lane, uint32_t position,
                                 const BufferPlaces& places, int set);

}  // namespace stretto::cuda
