// What ranks whose kernels share tiles must agree on (greeting.h).
#pragma once

#include "stretto/device/lang/channel.h"
#include "stretto/device/lang/kernels/call.h"
#include "stretto/device/lang/kernels/greeting.h"

namespace stretto::device {

// Five numbers and their names: two of the kernel's own, the tiles' rows, how tiles are counted,
// and the number of the run. The last two are compared in 16 bits.
struct TileGreeting {
  template <class Block>
  STRETTO_PRIMITIVE static TileGreeting of(const BlockChannel<Block>& channel, uint64 first,
                                           const char* first_name, uint64 second,
                                           const char* second_name, uint64 count,
                                           const char* count_name) {
    const bool table = static_cast<bool>(channel.producer.low);
    const auto tile_rows = static_cast<uint32>(channel.producer.tile_rows);
    const uint64 epoch = channel.epoch[0];
    return {static_cast<uint32>(first),
            static_cast<uint32>(second),
            table ? 0u : tile_rows,  // 0: by table
            static_cast<uint32>(count % kCounts),
            static_cast<uint32>(epoch % kCounts),
            first_name,
            second_name,
            count_name};
  }
  STRETTO_PRIMITIVE Vec16 words() const {
    return {{first, second, tile_rows, count << 16 | epoch}};
  }
  template <class Block>
  STRETTO_PRIMITIVE bool same(Block& block, int rank, const Vec16& theirs) const {
    return same_number(block, rank, first_name, first, theirs.word[0]) &&
           same_number(block, rank, second_name, second, theirs.word[1]) &&
           same_number(block, rank, "tile_rows", tile_rows, theirs.word[2]) &&
           same_number(block, rank, count_name, count, theirs.word[3] >> 16) &&
           same_number(block, rank, "epoch", epoch, theirs.word[3] & 0xffffu);
  }
  static constexpr uint64 kCounts = 0xffff;  // so that no word is kNoGreeting
  uint32 first, second, tile_rows, count, epoch;
  const char* first_name;
  const char* second_name;
  const char* count_name;
};

// All of a call's exchange, by all threads of all blocks before the kernel's work. True: all ranks
// are in this call with the same numbers, and what their streams did before it has happened.
// `slots`: symmetric, kNoGreeting at first: 3 x num_ranks. `state`: call.h.
template <class Block>
STRETTO_KERNEL bool greet_all(Block& block, const CallShare& share, Ptr<Block, Vec16> slots,
                              const TileGreeting& own) {
  const auto ranks = static_cast<uint64>(block.num_ranks());
  greet<Block>(block, slots + share.now * ranks, own);
  if (share.call > 0) clear_greetings<Block>(block, slots + share.before * ranks);
  const bool heard = hear_in_block<Block>(block, slots + share.now * ranks, own);
  if (block.thread_idx() < block.num_ranks()) block.fence();  // acquires what the greetings release
  return !block.sync_or(!heard);
}

}  // namespace stretto::device
