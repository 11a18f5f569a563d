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

#include "stretto/device/lang/team.h"

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

  // --- teams (team.h)
  // The own number in a team and how many it has; -1 where there is none.
  STRETTO_PRIMITIVE int team_my_pe(const Team& team) const {
    return number_in(sized(team), block_.rank());
  }
  STRETTO_PRIMITIVE int team_n_pes(const Team& team) const {
    return team.size == 0 ? -1 : sized(team).size;
  }
  // What number `src_pe` of a team has in another, or -1.
  STRETTO_PRIMITIVE int team_translate_pe(const Team& src_team, int src_pe,
                                          const Team& dest_team) const {
    if (src_pe < 0 || src_pe >= team_n_pes(src_team)) return -1;
    return number_in(sized(dest_team), pe_of(src_team, src_pe));
  }
  // Numbers start, start + stride, ... of the parent. Returns 0, or -1 when they are not all of it;
  // the new team is team_invalid() then, and on a rank that is not in it. Sends nothing: who needs
  // the team calls it, when and as often as it likes.
  STRETTO_PRIMITIVE int team_split_strided(const Team& parent, int start, int stride, int size,
                                           Team* new_team) const {
    const int pes = team_n_pes(parent);
    const int last = start + (size - 1) * stride;
    *new_team = team_invalid();
    if (size < 1 || size > pes || start < 0 || start >= pes || last < 0 || last >= pes ||
        (stride == 0 && size > 1)) {
      return -1;
    }
    const Team made{pe_of(parent, start), stride * parent.stride, size};
    if (number_in(made, block_.rank()) >= 0) *new_team = made;
    return 0;
  }

  // --- meetings of block b of all ranks of a team; with no team, of all ranks
  // Before a call returns, what any of them did before it has happened. Two ranks' blocks b make
  // the calls that both take part in, of whatever teams, in the same order, over all kernels. Ranks
  // that meet with different teams, and one that is not of the team, are named.
  STRETTO_PRIMITIVE bool team_sync_block(const Team& team, Where where = Where::here()) {
    return meet(team, false, where);
  }
  STRETTO_PRIMITIVE bool sync_all_block(Where where = Where::here()) {
    return meet(team_world(), false, where);
  }
  // The same, and completes this block's puts, to all ranks.
  STRETTO_PRIMITIVE bool barrier_block(const Team& team, Where where = Where::here()) {
    return meet(team, true, where);
  }
  STRETTO_PRIMITIVE bool barrier_all_block(Where where = Where::here()) {
    return meet(team_world(), true, where);
  }

  // --- collectives of block b of all ranks of a team, likewise. `dest` must not be in use on any
  // of them, and `source` may be reused after the call.
  // `pe_root` is a number of the team.
  template <class P, class Q>
  STRETTO_PRIMITIVE bool broadcast_block(const Team& team, P dest, Q source, uint64 num_bytes,
                                         int pe_root, Where where = Where::here()) {
    const Team of = sized(team);
    if (number_in(of, block_.rank()) == pe_root) {
      for (int i = 1; i <= of.size; ++i) {
        block_.put(dest, source, num_bytes, pe_of(of, (pe_root + i) % of.size), Group::kBlock, true,
                   where);
      }
    }
    return barrier_block(team, where);
  }
  template <class P, class Q>
  STRETTO_PRIMITIVE bool broadcast_block(P dest, Q source, uint64 num_bytes, int pe_root,
                                         Where where = Where::here()) {
    return broadcast_block(team_world(), dest, source, num_bytes, pe_root, where);
  }
  // Every rank's source, in the team's order, `count` elements each.
  template <class T>
  STRETTO_PRIMITIVE bool fcollect_block(const Team& team, Pointer<T> dest, Pointer<T> source,
                                        uint64 count, Where where = Where::here()) {
    const Team of = sized(team);
    const int me = number_in(of, block_.rank());
    for (int i = 1; me >= 0 && i <= of.size; ++i) {
      block_.put(dest + count * static_cast<uint64>(me), source, count * sizeof(T),
                 pe_of(of, (me + i) % of.size), Group::kBlock, true, where);
    }
    return barrier_block(team, where);
  }
  template <class T>
  STRETTO_PRIMITIVE bool fcollect_block(Pointer<T> dest, Pointer<T> source, uint64 count,
                                        Where where = Where::here()) {
    return fcollect_block(team_world(), dest, source, count, where);
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
  STRETTO_PRIMITIVE Team sized(const Team& team) const {
    return {team.start, team.stride, team.size == kAllPes ? block_.num_ranks() : team.size};
  }

  // Word r of a block's is set by rank r: how often the two have met, and below it the mark of the
  // team in which they do. A rank is one meeting ahead of another at most, so that one of two which
  // meet with different teams sees it.
  STRETTO_PRIMITIVE bool meet(const Team& called, bool completes, Where where) {
    const Team team = sized(called);
    const int me = number_in(team, block_.rank());
    if (!block_.enter(team, me, where)) return false;
    const int first = block_.thread_idx();
    const int step = block_.num_threads();
    auto met = block_.sync_epochs() + block_.block_idx() * block_.num_ranks();
    auto signals = block_.sync_signals() + block_.block_idx() * block_.num_ranks();
    const uint64 mark = mark_of(team);
    const auto other = [&](int i) { return pe_of(team, (me + 1 + i) % team.size); };
    const auto meeting = [&](int pe) {
      return block_.load(met + pe, Order::kRelaxed, Scope::kBlock, where) + 1;
    };
    block_.sync(where);
    // One fence for all signals of a thread, and none in threads that have none.
    if (completes && first < team.size) block_.quiet(where);
    for (int i = first; i < team.size - 1; i += step) {
      const int pe = other(i);
      block_.signal(signals + block_.rank(), meeting(pe) << kMarkBits | mark, SignalOp::kSet, pe,
                    where, completes ? Order::kRelaxed : Order::kRelease);
    }
    bool failed = false;
    for (int i = first; i < team.size - 1; i += step) {
      const int pe = other(i);
      const uint64 now = meeting(pe);
      uint64 seen = 0;
      failed = !block_.wait_value(signals + pe, Compare::kGe, now << kMarkBits, seen, where, pe) ||
               failed;
      if (!failed && seen >> kMarkBits == now && seen != (now << kMarkBits | mark)) {
        block_.meets_other(team, pe, seen - (now << kMarkBits), where);
        failed = true;
      }
      block_.store(met + pe, now, Order::kRelaxed, Scope::kBlock, where);
    }
    failed = block_.sync_or(failed, where);
    block_.leave();
    return !failed;
  }

  Block& block_;
};

}  // namespace stretto::device
