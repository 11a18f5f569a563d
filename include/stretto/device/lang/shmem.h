// The OpenSHMEM layer, over any block context. Source of names, argument order and meaning:
// OpenSHMEM 1.5; of the `_warp` and `_block` forms: NVSHMEM 3, which has none for signals.
//
// Rules for all of it
// - A symmetric object is named by the own rank's address; `ptr` gives a peer's.
// - No suffix: one thread does it. `_warp`, `_block`: all its threads call with the same arguments.
// - Memory order is said with each group; what has none (ptr, p, g, atomics) orders nothing.
// - Every wait has a deadline. Waits return false when it has passed or another wait's has: the
//   data is then not there, and the kernel leaves.
// - `where` is filled in by the compiler; the emulator's reports name it.
#pragma once

#include "stretto/device/lang/words.h"

namespace stretto::device {

template <class Block>
class Shmem {
 public:
  template <class T>
  using Pointer = Ptr<Block, T>;

  STRETTO_PRIMITIVE explicit Shmem(Block& block) : block_(block) {}

  STRETTO_PRIMITIVE int my_pe() const { return block_.rank(); }
  STRETTO_PRIMITIVE int n_pes() const { return block_.num_ranks(); }

  // The address of `dest` at `pe` for loads and stores; null when `pe` is on another node.
  template <class P>
  STRETTO_PRIMITIVE P ptr(P dest, int pe, Where where = Where::here()) {
    return block_.peer(dest, pe, where);
  }

  // --- put and get
  // A put has read its source when it returns; `_nbi` only after quiet(). When it arrives is
  // another matter: order it by fence, quiet, or a signal of the same thread (`_block`: of any
  // thread, since the blocking form ends with a barrier). A get has arrived when it returns, `_nbi`
  // after quiet().
#define STRETTO_PUT_GET(SUFFIX, GROUP, BARRIER)                                                    \
  template <class P, class Q>                                                                      \
  STRETTO_PRIMITIVE void putmem##SUFFIX(P dest, Q source, uint64 num_bytes, int pe,                \
                                        Where where = Where::here()) {                             \
    block_.put(dest, source, num_bytes, pe, GROUP, true, where);                                   \
    BARRIER;                                                                                       \
  }                                                                                                \
  template <class P, class Q>                                                                      \
  STRETTO_PRIMITIVE void putmem_nbi##SUFFIX(P dest, Q source, uint64 num_bytes, int pe,            \
                                            Where where = Where::here()) {                         \
    block_.put(dest, source, num_bytes, pe, GROUP, false, where);                                  \
  }                                                                                                \
  template <class P, class Q>                                                                      \
  STRETTO_PRIMITIVE void getmem##SUFFIX(P dest, Q source, uint64 num_bytes, int pe,                \
                                        Where where = Where::here()) {                             \
    block_.get(dest, source, num_bytes, pe, GROUP, true, where);                                   \
    BARRIER;                                                                                       \
  }                                                                                                \
  template <class P, class Q>                                                                      \
  STRETTO_PRIMITIVE void getmem_nbi##SUFFIX(P dest, Q source, uint64 num_bytes, int pe,            \
                                            Where where = Where::here()) {                         \
    block_.get(dest, source, num_bytes, pe, GROUP, false, where);                                  \
  }                                                                                                \
  /* The signal is raised at `pe` after this call's data has arrived there. It does not wait for   \
     earlier non-blocking puts. */                                                                 \
  template <class P, class Q, class S>                                                             \
  STRETTO_PRIMITIVE void putmem_signal##SUFFIX(P dest, Q source, uint64 num_bytes, S sig_addr,     \
                                               uint64 signal, SignalOp sig_op, int pe,             \
                                               Where where = Where::here()) {                      \
    block_.put_signal(dest, source, num_bytes, sig_addr, signal, sig_op, pe, GROUP, true, where);  \
  }                                                                                                \
  template <class P, class Q, class S>                                                             \
  STRETTO_PRIMITIVE void putmem_signal_nbi##SUFFIX(P dest, Q source, uint64 num_bytes, S sig_addr, \
                                                   uint64 signal, SignalOp sig_op, int pe,         \
                                                   Where where = Where::here()) {                  \
    block_.put_signal(dest, source, num_bytes, sig_addr, signal, sig_op, pe, GROUP, false, where); \
  }
  STRETTO_PUT_GET(, Group::kThread, (void)0)
  STRETTO_PUT_GET(_warp, Group::kWarp, block_.sync_warp(where))
  STRETTO_PUT_GET(_block, Group::kBlock, block_.sync(where))
#undef STRETTO_PUT_GET

  // One word, by a plain store where `pe` is on the node (shmem_p).
  template <class T>
  STRETTO_PRIMITIVE void p(Pointer<T> dest, T value, int pe, Where where = Where::here()) {
    block_.peer(dest, pe, where)[0] = value;
  }
  // One word, read from `pe` (shmem_g).
  template <class T>
  STRETTO_PRIMITIVE T g(Pointer<T> source, int pe, Where where = Where::here()) {
    return block_.peer(source, pe, where)[0];
  }

  // --- signals
  // Releases: whoever sees the signal sees what this thread did before, and what a barrier ordered
  // before it; of non-blocking puts only what fence or quiet covered.
  template <class S>
  STRETTO_PRIMITIVE void signal_op(S sig_addr, uint64 signal, SignalOp sig_op, int pe,
                                   Where where = Where::here()) {
    block_.signal(sig_addr, signal, sig_op, pe, where);
  }
  // The same for what all threads of the block did before the call.
  template <class S>
  STRETTO_PRIMITIVE void signal_op_block(S sig_addr, uint64 signal, SignalOp sig_op, int pe,
                                         Where where = Where::here()) {
    block_.sync(where);
    if (block_.thread_idx() == 0) block_.signal(sig_addr, signal, sig_op, pe, where);
  }
  // The signal's value now; acquires nothing.
  template <class S>
  STRETTO_PRIMITIVE uint64 signal_fetch(S sig_addr, Where where = Where::here()) {
    return block_.load(sig_addr, Order::kRelaxed, Scope::kSystem, where);
  }
  // Acquires, for this thread. Prefer kGe on values that only grow: a kEq can be skipped over.
  template <class S>
  STRETTO_PRIMITIVE bool signal_wait_until(S sig_addr, Compare cmp, uint64 cmp_value,
                                           Where where = Where::here()) {
    return block_.wait_until(sig_addr, cmp, cmp_value, where);
  }
  // One thread polls; acquires for all, and all get the same answer.
  template <class S>
  STRETTO_PRIMITIVE bool signal_wait_until_block(S sig_addr, Compare cmp, uint64 cmp_value,
                                                 Where where = Where::here()) {
    bool failed = false;
    if (block_.thread_idx() == 0) failed = !block_.wait_until(sig_addr, cmp, cmp_value, where);
    return !block_.sync_or(failed, where);
  }

  // --- order and completion
  // Both cover every put of this rank that happens before the call, to any rank, and order later
  // signals and relaxed stores of this thread after them; both acquire what all relaxed loads of
  // the thread have seen, where a wait or an acquiring load acquires what it read itself.
  STRETTO_PRIMITIVE void fence(Where where = Where::here()) { block_.fence(where); }
  // Besides, sources of puts may be reused and destinations of gets read.
  STRETTO_PRIMITIVE void quiet(Where where = Where::here()) { block_.quiet(where); }

  // Block b of every rank meets block b of the others; before it returns, what any of them did
  // before has happened. A block calls it the same number of times on every rank, over all kernels.
  STRETTO_PRIMITIVE bool sync_all_block(Where where = Where::here()) { return meet(false, where); }
  // sync_all that also completes this block's puts.
  STRETTO_PRIMITIVE bool barrier_all_block(Where where = Where::here()) {
    return meet(true, where);
  }

  // --- collectives of block b of all ranks. `dest` must not be in use on any rank, and `source`
  // may be reused after the call.
  template <class P, class Q>
  STRETTO_PRIMITIVE bool broadcast_block(P dest, Q source, uint64 num_bytes, int pe_root,
                                         Where where = Where::here()) {
    if (block_.rank() == pe_root) {
      for (int i = 1; i <= block_.num_ranks(); ++i) {
        block_.put(dest, source, num_bytes, (pe_root + i) % block_.num_ranks(), Group::kBlock, true,
                   where);
      }
    }
    return barrier_all_block(where);
  }
  // Every rank's source, in rank order, `num_bytes` each.
  template <class T>
  STRETTO_PRIMITIVE bool fcollect_block(Pointer<T> dest, Pointer<T> source, uint64 count,
                                        Where where = Where::here()) {
    for (int i = 1; i <= block_.num_ranks(); ++i) {
      block_.put(dest + count * static_cast<uint64>(block_.rank()), source, count * sizeof(T),
                 (block_.rank() + i) % block_.num_ranks(), Group::kBlock, true, where);
    }
    return barrier_all_block(where);
  }

  // --- atomics on 32- and 64-bit words of any rank on the node; relaxed, system scope.
  template <class T>
  STRETTO_PRIMITIVE T atomic_fetch(Pointer<T> source, int pe, Where where = Where::here()) {
    return block_.load(block_.peer(source, pe, where), Order::kRelaxed, Scope::kSystem, where);
  }
  template <class T>
  STRETTO_PRIMITIVE void atomic_set(Pointer<T> dest, T value, int pe, Where where = Where::here()) {
    block_.store(block_.peer(dest, pe, where), value, Order::kRelaxed, Scope::kSystem, where);
  }
  template <class T>
  STRETTO_PRIMITIVE T atomic_fetch_add(Pointer<T> dest, T value, int pe,
                                       Where where = Where::here()) {
    return block_.fetch_add(block_.peer(dest, pe, where), value, Order::kRelaxed, Scope::kSystem,
                            where);
  }
  template <class T>
  STRETTO_PRIMITIVE void atomic_add(Pointer<T> dest, T value, int pe, Where where = Where::here()) {
    block_.fetch_add(block_.peer(dest, pe, where), value, Order::kRelaxed, Scope::kSystem, where);
  }
  template <class T>
  STRETTO_PRIMITIVE T atomic_swap(Pointer<T> dest, T value, int pe, Where where = Where::here()) {
    return block_.exchange(block_.peer(dest, pe, where), value, Order::kRelaxed, Scope::kSystem,
                           where);
  }
  template <class T>
  STRETTO_PRIMITIVE T atomic_compare_swap(Pointer<T> dest, T cond, T value, int pe,
                                          Where where = Where::here()) {
    return block_.compare_swap(block_.peer(dest, pe, where), cond, value, Order::kRelaxed,
                               Scope::kSystem, where);
  }

 private:
  STRETTO_PRIMITIVE bool meet(bool completes, Where where) {
    const int ranks = block_.num_ranks();
    const int first = block_.thread_idx();
    const int step = block_.num_threads();
    auto epochs = block_.sync_epochs() + block_.block_idx();
    auto signals = block_.sync_signals() + block_.block_idx() * ranks;
    block_.sync(where);
    const uint64 epoch = block_.load(epochs, Order::kRelaxed, Scope::kBlock, where) + 1;
    // One fence for all signals of a thread, and none in threads that have none.
    if (completes && first < ranks) block_.quiet(where);
    for (int i = first; i < ranks; i += step) {
      block_.signal(signals + block_.rank(), epoch, SignalOp::kSet, (block_.rank() + i) % ranks,
                    where, completes ? Order::kRelaxed : Order::kRelease);
    }
    bool failed = false;
    for (int i = first; i < ranks; i += step) {
      failed = !block_.wait_until(signals + i, Compare::kGe, epoch, where) || failed;
    }
    failed = block_.sync_or(failed, where);
    if (first == 0) block_.store(epochs, epoch, Order::kRelaxed, Scope::kBlock, where);
    return !failed;
  }

  Block& block_;
};

}  // namespace stretto::device
