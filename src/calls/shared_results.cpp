#include "calls/shared_results.h"

#include "plan/shared_buffers.h"

namespace stretto::runtime {

std::vector<bool> written_by_others(const Plan& plan) {
  std::vector<bool> written = shared_buffers(plan);
  for (size_t b = 0; b < written.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    written[b] = written[b] && buffer.role == BufferRole::output && buffer.sharded_cols == 0;
  }
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      for (const Region& region : plan.reads(instr)) {
        if (region.rank != lane.rank) written[region.buffer] = false;
      }
    }
  }
  return written;
}

const fabric::Region& SharedResults::add(size_t num_bytes) {
  pieces_.push_back(
      std::make_unique<fabric::Region>(fabric_.allocate(num_bytes, "a caller's shared memory")));
  return *pieces_.back();
}

std::optional<SharedResults::Place> SharedResults::find(int rank, cuda::DevicePtr address,
                                                        uint64_t num_bytes) const {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const cuda::DevicePtr begin = pieces_[i]->local(rank);
    const uint64_t offset = address - begin;
    if (address < begin || offset > pieces_[i]->num_bytes()) continue;
    if (num_bytes <= pieces_[i]->num_bytes() - offset) return Place{i, offset};
  }
  return std::nullopt;
}

}  // namespace stretto::runtime
