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
  int root = 0;  // broadcast, reduce; send, receive: the other rank
  DevicePtr from = 0, to = 0;
  int64_t count = 0;  // all_gather, reduce_scatter: of each rank

  bool operator==(const NcclCall&) const = default;
};

// One rank's part of a collective that it joins at `lane`, `position`, in a run on instance set
// `set` (num_sets()). Several calls belong into one NCCL group. All ranks make the same ones: equal
// parts that lie next to each other everywhere are one call, ragged ones a broadcast or reduction
// each; of an all-to-all what each sends to and receives from every one. Throws UsageError as
// CollectiveParts does.
std::vector<NcclCall> nccl_calls(const Plan& plan, uint32_t lane, uint32_t position,
                                 const BufferPlaces& places, int set);

}  // namespace stretto::cuda
