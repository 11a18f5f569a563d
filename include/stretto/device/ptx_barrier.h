// mbarriers in shared memory, cluster barriers and register budgets (sm_90).
//
// An mbarrier completes a phase when its arrivals, and the bytes expected of TMA, have come. A
// waiter names the parity of the phase it waits for; a fresh barrier answers parity 1 at once.
#pragma once

#include "stretto/device/ptx_memory.h"

namespace stretto::device {

// Places in a ring and the parity of its barriers' current phase.
struct RingPosition {
  uint32 slot = 0, parity = 0;
  template <uint32 kSlots>
  STRETTO_DEVICE void advance() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// A barrier of some of a block's warps, `threads` in all; number 0 is the whole block's.
STRETTO_DEVICE void group_barrier(uint32 number, uint32 threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

STRETTO_DEVICE void barrier_init(uint32 barrier, uint32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to TMA and to the other blocks of the cluster.
STRETTO_DEVICE void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

STRETTO_DEVICE void barrier_arrive(uint32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

STRETTO_DEVICE void barrier_arrive_many(uint32 barrier, uint32 arrivals) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(arrivals)
               : "memory");
}

// Arrives at the same barrier of block `cluster_rank` of this cluster. Orders nothing in that block
// but asynchronous reads that this thread has seen complete: a release at cluster scope would stall
// on a fence of the whole GPU at every stage.
STRETTO_DEVICE void barrier_arrive_at(uint32 barrier, uint32 cluster_rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(cluster_rank)
      : "memory");
}

STRETTO_DEVICE void barrier_arrive_expect(uint32 barrier, uint32 num_bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(num_bytes)
               : "memory");
}

// Arrives once this thread's copy_async() so far have come.
STRETTO_DEVICE void barrier_arrive_after_copies(uint32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// True when the phase of this parity has completed. May pause the thread for a while before it says
// no.
STRETTO_DEVICE bool barrier_try_wait(uint32 barrier, uint32 parity) {
  uint32 done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// The same without pausing.
STRETTO_DEVICE bool barrier_test(uint32 barrier, uint32 parity) {
  uint32 done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Waits inside one block or cluster end unless the kernel itself is wrong: every wait on a peer has
// its own deadline, of an hour at most, and then lets the pipeline run on. So this deadline is
// later than any of those, and it traps.
inline constexpr int64 kBarrierTimeoutNs = 4'000'000'000'000;

template <class Try, class... At>
STRETTO_DEVICE void wait_by(Try try_wait, At... at) {
  if (try_wait(at...)) return;
  const uint64 start_ns = global_time_ns();
  while (!try_wait(at...)) {
    const auto waited_ns = static_cast<int64>(global_time_ns() - start_ns);
    if (waited_ns > kBarrierTimeoutNs) asm volatile("trap;");
  }
}
STRETTO_DEVICE void barrier_wait(uint32 barrier, uint32 parity) {
  wait_by(barrier_try_wait, barrier, parity);
}

// For a counter of this GPU to come to `count`; what was told with it is there then.
STRETTO_DEVICE void await_count(const uint32* word, uint32 count) {
  wait_by([](const uint32* at, uint32 least) { return load_relaxed_sys(at) >= least; }, word,
          count);
  load_acquire_gpu(word);
}

// Besides, what send_vector() of other blocks brought is there for this thread.
STRETTO_DEVICE bool barrier_try_wait_for_sent(uint32 barrier, uint32 parity) {
  uint32 done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
STRETTO_DEVICE void barrier_wait_for_sent(uint32 barrier, uint32 parity) {
  wait_by(barrier_try_wait_for_sent, barrier, parity);
}

STRETTO_DEVICE uint32 cluster_rank() {
  uint32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

STRETTO_DEVICE uint32 cluster_blocks() {
  uint32 blocks;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
  return blocks;
}

// Orders no memory accesses but barriers made visible by fence_barrier_init().
STRETTO_DEVICE void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

// Besides, what threads of the cluster wrote to shared memory before is there for all of them.
STRETTO_DEVICE void cluster_sync_shared() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

// Its halves, between which a thread does what others need not wait for. What it has read of other
// blocks' shared memory before is read.
STRETTO_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
STRETTO_DEVICE void cluster_await() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Where block `cluster_rank` of this cluster has what this block has at `address`; of a word in
// shared memory, as an address like any other.
STRETTO_DEVICE uint32 shared_address_in(uint32 cluster_rank, uint32 address) {
  uint32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(cluster_rank));
  return there;
}

STRETTO_DEVICE const int32* generic_in_cluster(uint32 cluster_rank, const int32* word) {
  const int32* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(word), "r"(cluster_rank));
  return there;
}

// Four words to an address of another block's (shared_address_in()), whose barrier counts their
// bytes and shows them to who waits for it.
STRETTO_DEVICE void send_vector(uint32 address, uint32 barrier, uint32 a, uint32 b, uint32 c,
                                uint32 d) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%2, %3, %4, %5}, "
      "[%1];" ::"r"(address),
      "r"(barrier), "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

STRETTO_DEVICE Vec16 load_cluster_vector(uint32 address) {
  Vec16 v;
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
               : "memory");
  return v;
}

// Every warp of the warpgroup must call it; takes effect only under a register cap at entry.
template <uint32 kRegisters>
STRETTO_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <uint32 kRegisters>
STRETTO_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace stretto::device
