// Puts and gets as a kernel calls them: by a thread, or by a warp or block together.
#include "fibre/engine.h"
#include "fibre/mutation.h"
#include "stretto/fibre/block.h"

namespace stretto::fibre {
namespace {

struct Slice {
  uint64_t begin = 0;
  uint64_t size = 0;
};

// What thread `index` of `count` moves of `bytes`: whole 16-byte pieces.
Slice slice_of(uint64_t bytes, uint64_t index, uint64_t count) {
  const uint64_t pieces = (bytes + 15) / 16;
  const uint64_t begin = std::min(bytes, pieces * index / count * 16);
  const uint64_t end = std::min(bytes, pieces * (index + 1) / count * 16);
  return {begin, end - begin};
}

// This thread's part of a transfer that its group makes together.
Slice group_slice(const Block& block, uint64_t num_bytes, Group group) {
  if (group == Group::kThread) return {0, num_bytes};
  const int size = group == Group::kBlock ? block.num_threads() : block.warp_size();
  const int first = block.thread_idx() / size * size;
  return slice_of(num_bytes, static_cast<uint64_t>(block.thread_idx() - first),
                  static_cast<uint64_t>(std::min(size, block.num_threads() - first)));
}

uint64_t key(const Address& address) {
  return reinterpret_cast<uintptr_t>(address.allocation) * 31 +
         static_cast<uint64_t>(address.offset) * 7 + static_cast<uint64_t>(address.rank);
}

Address plus(Address address, uint64_t bytes) {
  address.offset += static_cast<int64_t>(bytes);
  return address;
}

}  // namespace

void Block::agree(const char* name, const Address& dest, const Address& source, uint64 num_bytes,
                  int rank, Where where) {
  engine_.agree(thread_,
                {name, {key(dest), key(source), num_bytes, static_cast<uint64_t>(rank)}, where});
}

void Block::put_bytes(const Address& dest, const Address& source, uint64 num_bytes, int rank,
                      Group group, bool blocking, Where where) {
  if (group == Group::kBlock) agree("putmem_block", dest, source, num_bytes, rank, where);
  const Slice slice = group_slice(*this, num_bytes, group);
  engine_.put(thread_, folded(plus(dest, slice.begin)), folded(plus(source, slice.begin)),
              slice.size, rank, blocking, where);
}

void Block::get_bytes(const Address& dest, const Address& source, uint64 num_bytes, int rank,
                      Group group, bool blocking, Where where) {
  if (group == Group::kBlock) agree("getmem_block", dest, source, num_bytes, rank, where);
  const Slice slice = group_slice(*this, num_bytes, group);
  engine_.get(thread_, folded(plus(dest, slice.begin)), folded(plus(source, slice.begin)),
              slice.size, rank, blocking, where);
}

void Block::put_signal_bytes(const Address& dest, const Address& source, uint64 num_bytes,
                             const Address& signal, uint64 value, SignalOp op, int rank,
                             Group group, bool blocking, Where where) {
  if (group == Group::kBlock) agree("putmem_signal_block", dest, source, num_bytes, rank, where);
  const Slice slice = group_slice(*this, num_bytes, group);
  const Event written =
      engine_.put(thread_, folded(plus(dest, slice.begin)), folded(plus(source, slice.begin)),
                  slice.size, rank, blocking, where);
  const bool adds = op == SignalOp::kAdd;
  if (group == Group::kThread) {
    engine_.signal(thread_, folded(signal), value, adds, rank, {&written, 1}, where);
    return;
  }
  const bool whole_block = group == Group::kBlock;
  engine_.barrier(thread_, whole_block, false, where, written);
  if (thread_idx() % (whole_block ? num_threads() : warp_size()) == 0) {
    const std::vector<Event> all_written = std::move(thread_.brought);
    engine_.signal(thread_, folded(signal), value, adds, rank, all_written, where);
  }
}

}  // namespace stretto::fibre
