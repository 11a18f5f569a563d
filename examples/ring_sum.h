// An all-reduce of one's own as a ring, for plans (ring.graph). Rank r's part of the vectors begins
// at rank r, each rank that it comes to adds its term, and behind the last one it goes round once
// more as the sum. Each hop writes the vectors of a block into a slot of the next rank's, and
// raises that block's signal there.
#pragma once

#include "stretto/device/lang/edge_kernel.h"
#include "stretto/device/lang/kernels/call.h"
#include "stretto/device/lang/shmem.h"

using namespace stretto::device;

// a + b, element by element, in fp32 and rounded once.
template <class Format>
STRETTO_PRIMITIVE Vec16 sum_of(const Vec16& a, const Vec16& b) {
  float sums[Format::kElements] = {};
  Format::add(sums, a);
  Format::add(sums, b);
  return Format::round(sums);
}

// `calls`: how many there were before. Whether all that was awaited came.
template <class Format, class Block>
STRETTO_KERNEL bool go_round(Block& block, const EdgeArgs<Block>& args, uint64 calls) {
  Shmem shmem(block);
  const int me = shmem.my_pe(), ranks = shmem.n_pes(), next = (me + 1) % ranks;
  const int hops = 2 * (ranks - 1);
  // A block has the same vectors of every part on all ranks, and a signal of its own. A slot is for
  // one hop. No rank can come to that hop of the next call before its slot has been read: what it
  // would send there has gone through the rank that reads.
  const auto index = static_cast<uint64>(block.block_idx());
  const auto blocks = static_cast<uint64>(block.num_blocks());
  const uint64 each = (args.part + blocks - 1) / blocks;
  const auto signal = args.signals + index;

  for (int hop = 0; hop <= hops; ++hop) {
    if (hop > 0) {
      const uint64 raised = calls * static_cast<uint64>(hops) + static_cast<uint64>(hop);
      if (!shmem.signal_wait_until_block(signal, Compare::kGe, raised)) return false;
    }
    const int owner = (me - hop + 2 * ranks) % ranks;
    const auto come = args.slots + static_cast<uint64>(hop > 0 ? hop - 1 : 0) * args.part;
    const auto to = shmem.ptr(args.slots + static_cast<uint64>(hop) * args.part, next);
    const uint64 first = args.first(owner), size = args.size_of(owner);
    const uint64 end = (index + 1) * each < size ? (index + 1) * each : size;
    for (uint64 i = index * each + static_cast<uint64>(block.thread_idx()); i < end;
         i += static_cast<uint64>(block.num_threads())) {
      Vec16 value;
      if (hop < ranks) value = args.input[first + i];
      if (hop > 0) value = hop < ranks ? sum_of<Format>(come[i], value) : Vec16(come[i]);
      if (hop >= ranks - 1) args.output[first + i] = value;
      if (hop < hops) to[i] = value;
    }
    if (hop < hops) shmem.signal_op_block(signal, 1, SignalOp::kAdd, next);
  }
  return true;
}

template <class Format, class Block>
STRETTO_KERNEL void ring_sum(Block& block, const EdgeArgs<Block>& args) {
  const uint64 calls = begin_call(block, args.state).call;
  end_call(block, args.state, calls, go_round<Format>(block, args, calls));
}
