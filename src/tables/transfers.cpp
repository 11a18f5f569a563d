#include "tables/transfers.h"

namespace stretto::cuda {

std::vector<Transfer> transfers_of(const Plan& plan, const Instr& copy, const BufferPlaces& places,
                                   int set) {
  const Region& from = plan.reads(copy).front();
  const Buffer& from_buffer = plan.buffers[from.buffer];
  const DevicePtr from_begin = address_of(places, from.rank, from.buffer, set);
  std::vector<Transfer> transfers;
  for (const Placed& placed : placed_writes(plan, copy)) {
    const Region& to = placed.region;
    if (to.empty()) continue;
    const Buffer& buffer = plan.buffers[to.buffer];
    transfers.push_back(
        {from_begin + offset_of(from_buffer, from.row0 + placed.row, from.col0),
         address_of(places, to.rank, to.buffer, set) + offset_of(buffer, to.row0, to.col0),
         row_bytes_of(from_buffer), row_bytes_of(buffer),
         static_cast<uint64_t>(to.cols()) * static_cast<uint64_t>(num_bytes(buffer.dtype)),
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
