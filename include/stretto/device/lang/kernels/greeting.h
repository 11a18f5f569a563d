// What ranks tell each other once a call: that they are in it, and with which arguments.
//
// A greeting of every rank to every other is what makes the reuse of buffers by call number an
// order and not a matter of luck: who begins call e+2 has been greeted in call e+1 by all, hence
// all have ended call e. And ranks that call with different arguments find out before they wait for
// data that will never come.
//
// Greetings are relaxed. One says that all that the rank's stream did before this call has ended,
// which the begin of a kernel has performed; others rely on it in their next kernel, or to store
// over what was read before that (tile_greeting.h). Nobody reads data on its strength.
#pragma once

#include "stretto/device/lang/numbers.h"
#include "stretto/device/lang/shmem.h"

namespace stretto::device {

// No greeting has this word.
inline constexpr uint32 kNoGreeting = 0xffffffffu;

// Part of a greeting's same(): says that `rank` gives another number of this name, when it does.
template <class Block>
STRETTO_PRIMITIVE bool same_number(Block& block, int rank, const char* name, uint32 own,
                                   uint32 theirs) {
  if (own == theirs) return true;
  block.disagree(rank, name, 0, own, theirs);
  return false;
}

// Four numbers that all ranks must give alike, each below 2^32 - 1, and their names. A kernel with
// others has a greeting of its own, with the same two functions.
struct Greeting {
  STRETTO_PRIMITIVE Vec16 words() const { return {{first, second, third, fourth}}; }
  template <class Block>
  STRETTO_PRIMITIVE bool same(Block& block, int rank, const Vec16& theirs) const {
    return same_number(block, rank, first_name, first, theirs.word[0]) &&
           same_number(block, rank, second_name, second, theirs.word[1]) &&
           same_number(block, rank, third_name, third, theirs.word[2]) &&
           same_number(block, rank, fourth_name, fourth, theirs.word[3]);
  }
  uint32 first, second, third, fourth;
  const char* first_name;
  const char* second_name;
  const char* third_name;
  const char* fourth_name;
};

// By all threads of all blocks; the last one, which shares in nothing else that is shared
// out by warps (call.h), does it.
// `slots`: symmetric, num_ranks vectors of this call, all kNoGreeting.
template <class Block, class Numbers>
STRETTO_KERNEL void greet(Block& block, Ptr<Block, Vec16> slots, const Numbers& own) {
  if (block.block_idx() != block.num_blocks() - 1) return;
  const int ranks = block.num_ranks();
  const Vec16 words = own.words();
  for (int i = block.thread_idx(); i < ranks; i += block.num_threads()) {
    block.store(block.peer(slots, (block.rank() + 1 + i) % ranks) + block.rank(), words);
  }
}

// All threads of a block call it after greet(). False when a rank did not come or calls otherwise.
template <class Block, class Numbers>
STRETTO_KERNEL bool hear_in_block(Block& block, Ptr<Block, Vec16> slots, const Numbers& own) {
  bool good = true;
  for (int r = block.thread_idx(); r < block.num_ranks(); r += block.num_threads()) {
    Vec16 theirs;
    if (!block.wait_words_not(slots + r, kNoGreeting, theirs, Where::here(), r)) {
      good = false;
      break;
    }
    if (!own.same(block, r, theirs)) good = false;
  }
  return good;
}

// The same in the block that greets: true in the others.
template <class Block, class Numbers>
STRETTO_KERNEL bool hear_greetings(Block& block, Ptr<Block, Vec16> slots, const Numbers& own) {
  if (block.block_idx() != block.num_blocks() - 1) return true;
  return hear_in_block<Block>(block, slots, own);
}

// Where greet() was called: clears the slots of a call that all ranks have ended.
template <class Block>
STRETTO_KERNEL void clear_greetings(Block& block, Ptr<Block, Vec16> slots) {
  if (block.block_idx() != block.num_blocks() - 1) return;
  for (int r = block.thread_idx(); r < block.num_ranks(); r += block.num_threads()) {
    slots[r] = four_of(kNoGreeting);
  }
}

}  // namespace stretto::device
