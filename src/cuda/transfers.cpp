#include "cuda/transfers.h"

namespace stretto::cuda {

std::vector<Transfer> transfers_of(const Plan& plan, const Instr& copy, const BufferPlaces& places,
                                   int set) {
  const Region& from = plan.reads(copy).front();
  const auto pitch = [&](const Region& region) {
    const Buffer& buffer = plan.buffers[region.buffer];
    return static_cast<uint64_t>(buffer.cols) * static_cast<uint64_t>(num_bytes(buffer.dtype));
  };
  const auto address = [&](const Region& region, int32_t row) {
    const auto& copies = places[region.rank][region.buffer];
    const auto size = static_cast<uint64_t>(num_bytes(plan.buffers[region.buffer].dtype));
    return copies[static_cast<size_t>(set) % copies.size()] +
           static_cast<uint64_t>(row) * pitch(region) + static_cast<uint64_t>(region.col0) * size;
  };
  std::vector<Transfer> transfers;
  for (const Placed& placed : placed_writes(plan, copy)) {
    const Region& to = placed.region;
    if (to.empty()) continue;
    const auto size = static_cast<uint64_t>(num_bytes(plan.buffers[to.buffer].dtype));
    transfers.push_back({address(from, from.row0 + placed.row), address(to, to.row0), pitch(from),
                         pitch(to), static_cast<uint64_t>(to.cols()) * size,
                         static_cast<uint64_t>(to.rows())});
  }
  return transfers;
}

void enqueue_transfer(const Stream& stream, const Transfer& transfer) {
  if (transfer.row_bytes == transfer.from_pitch && transfer.row_bytes == transfer.to_pitch) {
    check(driver().copy_async(transfer.to, transfer.from, transfer.row_bytes * transfer.rows,
                              stream.handle()),
          "copy by a copy engine");
    return;
  }
  Copy2D copy{};
  copy.from_type = copy.to_type = kMemoryUnified;
  copy.from = transfer.from;
  copy.to = transfer.to;
  copy.from_pitch = transfer.from_pitch;
  copy.to_pitch = transfer.to_pitch;
  copy.row_bytes = transfer.row_bytes;
  copy.rows = transfer.rows;
  check(driver().copy_2d_async(&copy, stream.handle()), "copy by a copy engine");
}

}  // namespace stretto::cuda
