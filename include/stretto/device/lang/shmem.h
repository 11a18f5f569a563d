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

#include "stretto/device/lang/collectives.h"

namespace stretto::device {

// What p[i] is, for a function that has been told the line of its caller.
template <class T>
STRETTO_PRIMITIVE T& at(T* p, uint64 i, Where) {
  return p[i];
}

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
     earlier non-blocking puts. The source may be reused when it returns, `_nbi` after quiet();    \
     that the signal has come says so too, but only to who has seen it. */                         \
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

  // One word, by a plain store to a rank on the node (shmem_p). `value` is taken by the call; when
  // it arrives is as with a put.
  template <class T>
  STRETTO_PRIMITIVE void p(Pointer<T> dest, T value, int pe, Where where = Where::here()) {
    at(block_.peer(dest, pe, where), 0, where) = value;
  }
  // One word, read by a plain load from a rank on the node (shmem_g): it is there when it returns,
  // and whoever writes it must have been ordered before.
  template <class T>
  STRETTO_PRIMITIVE T g(Pointer<T> source, int pe, Where where = Where::here()) {
    return at(block_.peer(source, pe, where), 0, where);
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
  // Before a call returns, what any of them did before it has happened: what the calling threads
  // did, and what a barrier ordered before that. Two ranks' blocks b make the calls that both take
  // part in, of whatever teams, in the same order, over all kernels, and one at a time: threads or
  // warps of a block that call in turn need a barrier between. Ranks that meet for different
  // things, and one that is not of the team, are named.
  //
  // barrier also completes this rank's puts that happen before it, to all ranks.
  //
  // --- collectives likewise. `dest` must not be in use on any of the ranks before the call, and is
  // there for the calling threads after it; `source` may be reused then. Ranks that give different
  // sizes or roots are named before anything of it may be read.
  // broadcastmem: `num_bytes` of the root's, whose number in the team is `pe_root`. fcollect: every
  // rank's source, in the team's order, `count` elements each.
#define STRETTO_MEETINGS(SUFFIX, GROUP)                                                            \
  STRETTO_PRIMITIVE bool team_sync##SUFFIX(const Team& team, Where where = Where::here()) {        \
    return meet(block_, GROUP, sized(team), {Meet::kSync, 0, 0}, where);                           \
  }                                                                                                \
  STRETTO_PRIMITIVE bool sync_all##SUFFIX(Where where = Where::here()) {                           \
    return team_sync##SUFFIX(team_world(), where);                                                 \
  }                                                                                                \
  STRETTO_PRIMITIVE bool barrier##SUFFIX(const Team& team, Where where = Where::here()) {          \
    return meet(block_, GROUP, sized(team), {Meet::kBarrier, 0, 0}, where);                        \
  }                                                                                                \
  STRETTO_PRIMITIVE bool barrier_all##SUFFIX(Where where = Where::here()) {                        \
    return barrier##SUFFIX(team_world(), where);                                                   \
  }                                                                                                \
  template <class P, class Q>                                                                      \
  STRETTO_PRIMITIVE bool broadcastmem##SUFFIX(const Team& team, P dest, Q source,                  \
                                              uint64 num_bytes, int pe_root,                       \
                                              Where where = Where::here()) {                       \
    return broadcast_to_team(block_, GROUP, sized(team), dest, source, num_bytes, pe_root, where); \
  }                                                                                                \
  template <class P, class Q>                                                                      \
  STRETTO_PRIMITIVE bool broadcastmem##SUFFIX(P dest, Q source, uint64 num_bytes, int pe_root,     \
                                              Where where = Where::here()) {                       \
    return broadcastmem##SUFFIX(team_world(), dest, source, num_bytes, pe_root, where);            \
  }                                                                                                \
  template <class T>                                                                               \
  STRETTO_PRIMITIVE bool fcollect##SUFFIX(const Team& team, Pointer<T> dest, Pointer<T> source,    \
                                          uint64 count, Where where = Where::here()) {             \
    return collect_from_team<T>(block_, GROUP, sized(team), dest, source, count, where);           \
  }                                                                                                \
  template <class T>                                                                               \
  STRETTO_PRIMITIVE bool fcollect##SUFFIX(Pointer<T> dest, Pointer<T> source, uint64 count,        \
                                          Where where = Where::here()) {                           \
    return fcollect##SUFFIX(team_world(), dest, source, count, where);                             \
  }
  STRETTO_MEETINGS(, Group::kThread)
  STRETTO_MEETINGS(_warp, Group::kWarp)
  STRETTO_MEETINGS(_block, Group::kBlock)
#undef STRETTO_MEETINGS

  // --- atomics on 32- and 64-bit words of any rank on the node; relaxed, system scope.
  // Those that return the old value have happened when they return. `atomic_set` and `atomic_add`
  // arrive like a put. Operands are taken by the call, so nothing of the caller's need live on; the
  // word itself is symmetric memory, and every other access to it meanwhile must be atomic or
  // strong as well.
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

  Block& block_;
};

}  // namespace stretto::device
