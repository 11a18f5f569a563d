// Kernels that use each form of the device language's primitives and count what is wrong.
#pragma once

#include "lang_gpu_fixture.h"

namespace stretto::fabric {

STRETTO_ON_BOTH(
    kPrimitiveArgs, struct PrimitiveArgs {
      uint8* source;    // symmetric
      uint8* dest;      // symmetric: kForms rows a block
      uint64* inbox;    // symmetric: a form, block and thread
      uint64* message;  // local: a block and thread
      uint64* signals;  // symmetric: a form and block
      uint64* wide;     // symmetric: see the atomics
      uint32* narrow;   // symmetric
      uint32* seen;     // symmetric: a thread of all ranks
      uint64* wrong;    // local: a block
      int bytes;        // of source
      int rounds;
    };)

inline constexpr int kForms = 12, kRowBytes = 1024, kBytes = 1003, kRounds = 30, kSignalForms = 8;

inline constexpr const char* kPrimitivesCode = R"(
STRETTO_KERNEL void put_and_get(GpuBlock& block, const PrimitiveArgs& args) {
  Shmem shmem(block);
  const int next = (shmem.my_pe() + 1) % shmem.n_pes(), b = block.block_idx();
  const int shifts[] = {0, 8, 4, 1, 16, 2};
  const int shift = shifts[b];
  const uint64 bytes = args.bytes - shift;
  const uint8* const from = args.source + shift;
  const auto row = [&](int form) {
    return args.dest + (form * block.num_blocks() + b) * 1024 + shift;
  };
  if (block.thread_idx() == 9) {
    shmem.putmem(row(0), from, bytes, next);
    shmem.putmem_nbi(row(1), from, bytes, next);
    shmem.getmem(row(2), from, bytes, next);
    shmem.getmem_nbi(row(3), from, bytes, next);
    shmem.quiet();
  }
  if (block.thread_idx() >= 32) {
    shmem.putmem_warp(row(4), from, bytes, next);
    shmem.putmem_nbi_warp(row(5), from, bytes, next);
    shmem.getmem_warp(row(6), from, bytes, next);
    shmem.getmem_nbi_warp(row(7), from, bytes, next);
    shmem.quiet();
  }
  shmem.putmem_block(row(8), from, bytes, next);
  shmem.putmem_nbi_block(row(9), from, bytes, next);
  shmem.getmem_block(row(10), from, bytes, next);
  shmem.getmem_nbi_block(row(11), from, bytes, next);
  shmem.quiet();
  shmem.barrier_all_block();
}

STRETTO_KERNEL void put_with_signals(GpuBlock& block, const PrimitiveArgs& args) {
  Shmem shmem(block);
  const int me = shmem.my_pe(), ranks = shmem.n_pes(), b = block.block_idx();
  const int t = block.thread_idx(), threads = block.num_threads(), blocks = block.num_blocks();
  const int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
  const uint64 bytes = threads * 8;
  uint64* const message = args.message + b * threads;
  const auto inbox = [&](int form) { return args.inbox + (form * blocks + b) * threads; };
  const auto signal = [&](int form) { return args.signals + form * blocks + b; };
  const auto said = [&](int rank, int round) {
    return uint64((round * 100 + rank) * 100 + b) * threads + t;
  };
  for (int round = 1; round <= args.rounds; ++round) {
    message[t] = said(me, round);
    block.sync();
    if (t == 7) {
      shmem.putmem_signal(inbox(0), message, bytes, signal(0), round, SignalOp::kSet, next);
      shmem.putmem_signal_nbi(inbox(1), message, bytes, signal(1), 1, SignalOp::kAdd, next);
    }
    if (t >= 32) {
      shmem.putmem_signal_warp(inbox(2), message, bytes, signal(2), 1, SignalOp::kAdd, next);
      shmem.putmem_signal_nbi_warp(inbox(3), message, bytes, signal(3), round, SignalOp::kSet,
                                   next);
    }
    shmem.putmem_signal_block(inbox(4), message, bytes, signal(4), round, SignalOp::kSet, next);
    shmem.putmem_signal_nbi_block(inbox(5), message, bytes, signal(5), 1, SignalOp::kAdd, next);
    shmem.ptr(inbox(6), next)[t] = message[t];
    shmem.signal_op_block(signal(6), 1, SignalOp::kAdd, next);
    shmem.p(inbox(7) + t, message[t], next);
    block.sync();
    if (t == 3) shmem.signal_op(signal(7), round, SignalOp::kSet, next);
    for (int form = 0; form < 8; ++form) {
      uint64* const word = signal(form);
      bool came = true;
      if (form % 4 == 0) came = shmem.signal_wait_until_block(word, Compare::kGe, round);
      if (form % 4 == 1) came = shmem.signal_wait_until(word, Compare::kGt, round - 1);
      if (form % 4 == 2) came = shmem.signal_wait_until(word, Compare::kEq, round);
      if (form % 4 == 3) came = shmem.signal_wait_until(word, Compare::kNe, round - 1);
      if (!came) return;
      if (inbox(form)[t] != said(before, round) || shmem.signal_fetch(word) != round) {
        block.fetch_add(args.wrong + b, 1);
      }
    }
    shmem.quiet();
    if (!shmem.sync_all_block()) return;
  }
}

STRETTO_KERNEL void count(GpuBlock& block, const PrimitiveArgs& args) {
  Shmem shmem(block);
  const int me = shmem.my_pe(), ranks = shmem.n_pes(), b = block.block_idx();
  const int t = block.thread_idx(), threads = block.num_threads(), blocks = block.num_blocks();
  const int home = ranks - 1, next = (me + 1) % ranks, own = me * blocks + b;
  const uint32 number = own * threads + t + 1;
  uint64 *const total = args.wide, *const highest = args.wide + 1, *const last = args.wide + 2,
                *const olds = args.wide + 3, *const tickets = args.wide + 4;
  shmem.atomic_add(total, uint64(1), home);
  shmem.atomic_add(args.seen + shmem.atomic_fetch_add(args.narrow, 1u, home), 1u, 0);
  shmem.atomic_add(args.seen + shmem.atomic_fetch_add(tickets, uint64(1), home), 1u, 0);
  uint64 top = shmem.atomic_fetch(highest, home);
  while (top < number) {
    const uint64 old = shmem.atomic_compare_swap(highest, top, uint64(number), home);
    if (old == top) break;
    top = old;
  }
  uint32 top32 = shmem.atomic_fetch(args.narrow + 1, home);
  while (top32 < number) {
    const uint32 old = shmem.atomic_compare_swap(args.narrow + 1, top32, number, home);
    if (old == top32) break;
    top32 = old;
  }
  shmem.atomic_add(olds, shmem.atomic_swap(last, uint64(number), home), home);
  shmem.atomic_add(args.narrow + 3, shmem.atomic_swap(args.narrow + 2, number, home), home);
  if (t == 0) shmem.atomic_set(args.wide + 8 + own, uint64(number), next);
  if (t == 1) shmem.p(args.narrow + 8 + own, number, next);

  uint32* const near32 = shared<uint32>(block, 0);
  uint64* const near64 = shared<uint64>(block, 16);
  if (t < 4) near32[t] = 0, near64[t] = 0;
  block.sync();
  const uint32 old32 = block.exchange(near32, t + 1, Order::kRelaxed, Scope::kBlock);
  const uint64 old64 = block.exchange(near64, t + 1, Order::kRelaxed, Scope::kBlock);
  block.fetch_add(near32 + 1, old32, Order::kRelaxed, Scope::kBlock);
  block.fetch_add(near64 + 1, old64, Order::kRelaxed, Scope::kBlock);
  if (block.compare_swap(near32 + 2, 0, t + 1, Order::kRelaxed, Scope::kBlock) == 0) {
    block.fetch_add(near32 + 3, 1, Order::kRelaxed, Scope::kBlock);
  }
  if (block.compare_swap(near64 + 2, 0, t + 1, Order::kRelaxed, Scope::kBlock) == 0) {
    block.fetch_add(near64 + 3, 1, Order::kRelaxed, Scope::kBlock);
  }
  block.sync();
  const uint32 sum = threads * (threads + 1) / 2;
  if (near32[0] + near32[1] != sum || near64[0] + near64[1] != sum || near32[3] != 1 ||
      near64[3] != 1) {
    block.fetch_add(args.wrong + b, 1);
  }
  if (!shmem.barrier_all_block()) return;
  const uint32 first = own * threads + 1;
  if (shmem.g(args.narrow + 8 + own, next) != first + 1 ||
      shmem.atomic_fetch(args.wide + 8 + own, next) != first) {
    block.fetch_add(args.wrong + b, 1);
  }
}
)";

}  // namespace stretto::fabric
