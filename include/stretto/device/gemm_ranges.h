// Two ranges of a tile's K, multiplied at the same time by the two blocks of a cluster.
//
// The second block's consumers send their fp32 sums to the first block, into stages of its ring
// behind the tile's last operands, and go on with the next task. The same consumers of the first
// block add them to their own, in the order of K. Nobody but the thread with the same number reads
// what a thread has sent, so a line is four sums of each thread of a consumer, side by side.
//
// Room: the first block's load warp takes the stages once their operands have been multiplied, and
// then tells the second block. Where in the ring they are that one counts for itself.
#pragma once

#include "stretto/device/elements.h"
#include "stretto/device/gemm_block.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// Whether this block has tiles in the end: the first of two that have ranges of K, or any other.
template <GemmConfig kConfig>
STRETTO_DEVICE bool finishes_tiles() {
  return kConfig.shared != Shared::k || cluster_rank() == 0;
}

// Of so many blocks of K, those that this block multiplies. The first block has more to do behind
// them, and never has more of them.
template <GemmConfig kConfig>
STRETTO_DEVICE uint32 own_blocks_of_k(uint32 num_k) {
  if constexpr (kConfig.shared != Shared::k) return num_k;
  return finishes_tiles<kConfig>() ? num_k / 2 : num_k - num_k / 2;
}
template <GemmConfig kConfig>
STRETTO_DEVICE uint32 first_own_block(uint32 num_k) {
  return finishes_tiles<kConfig>() ? 0 : num_k / 2;
}

// By the thread that loads, of the first block: takes stages for a tile's sums.
template <GemmConfig kConfig>
STRETTO_DEVICE void make_room(const GemmShared<kConfig>& shared, RingPosition& ring) {
  constexpr GemmLayout kLayout = layout_of(kConfig);
  constexpr int32 kOfStage = kLayout.lines_in_a + kLayout.lines_in_b;
#pragma unroll
  for (int32 line = 0; line < kLayout.lines; line += kOfStage) {
    const int32 lines = kLayout.lines - line < kOfStage ? kLayout.lines - line : kOfStage;
    barrier_wait(shared.empty + ring.slot * 8, ring.parity);
    barrier_arrive_expect(shared.full + ring.slot * 8, lines * kLineBytes);
    ring.advance<kConfig.stages>();
  }
  barrier_arrive_at(shared.room, 1);
}

template <GemmConfig kConfig>
class PairSums {
  static constexpr GemmLayout kLayout = layout_of(kConfig);
  static constexpr int32 kMmas = kConfig.tile_m / kConfig.consumers / 64;
  static constexpr int32 kSums = kConfig.tile_n / 2;
  static constexpr int32 kLines = kMmas * kSums / 4;  // of a consumer; they lie in turns
  static constexpr int32 kOfStage = (kLayout.lines_in_a + kLayout.lines_in_b) / kConfig.consumers;
  static constexpr int32 kOfA = kLayout.lines_in_a / kConfig.consumers;
  static_assert(kLayout.lines_in_a % kConfig.consumers == 0 &&
                    kLayout.lines_in_b % kConfig.consumers == 0,
                "consumers have as many lines of each part of a stage");

 public:
  STRETTO_DEVICE PairSums(const GemmShared<kConfig>& shared, uint32 consumer)
      : shared_(shared), own_((consumer * kWarpgroup + threadIdx.x % kWarpgroup) * 16) {}

  // By the second block, behind its range of a task.
  STRETTO_DEVICE void send(const float (&sums)[kMmas][kSums], uint32 num_k) {
    peer_ = (peer_ + num_k / 2) % kConfig.stages;
    barrier_wait(shared_.room, parity_);
    parity_ ^= 1;
    const uint32 a = shared_address_in(0, shared_.a), b = shared_address_in(0, shared_.b);
    const uint32 full = shared_address_in(0, shared_.full);
#pragma unroll
    for (int32 line = 0; line < kLines; ++line) {
      const float* const from = sums[line / (kSums / 4)] + line % (kSums / 4) * 4;
      send_vector(place(a, b, peer_, line), full + peer_ * 8, bits_of_float(from[0]),
                  bits_of_float(from[1]), bits_of_float(from[2]), bits_of_float(from[3]));
      if (ends_stage(line)) pass(1);
    }
  }
  // Stages of the first block's ring that hold something else.
  STRETTO_DEVICE void pass(uint32 stages) { peer_ = (peer_ + stages) % kConfig.stages; }

  // By the first block; `ring` is the consumer's, at the stage behind the tile's last operands.
  STRETTO_DEVICE void add_to(float (&sums)[kMmas][kSums], RingPosition& ring) const {
#pragma unroll
    for (int32 line = 0; line < kLines; ++line) {
      if (line % kOfStage == 0) barrier_wait_for_sent(shared_.full + ring.slot * 8, ring.parity);
      const Vec16 sent = load_shared_vector(place(shared_.a, shared_.b, ring.slot, line));
      float* const to = sums[line / (kSums / 4)] + line % (kSums / 4) * 4;
#pragma unroll
      for (int32 i = 0; i < 4; ++i) to[i] += float_of_bits(sent.word[i]);
      if (ends_stage(line)) {
        fence_proxy_async_shared();  // TMA writes what ordinary loads have read
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(shared_.empty + ring.slot * 8);
        ring.advance<kConfig.stages>();
      }
    }
  }

 private:
  STRETTO_DEVICE static constexpr bool ends_stage(int32 line) {
    return (line + 1) % kOfStage == 0 || line + 1 == kLines;
  }
  STRETTO_DEVICE uint32 place(uint32 a, uint32 b, uint32 slot, int32 line) const {
    const int32 at = line % kOfStage;
    return own_ + (at < kOfA ? a + slot * kLayout.a_bytes + at * kConfig.consumers * kLineBytes
                             : b + slot * kLayout.b_bytes +
                                   (at - kOfA) * kConfig.consumers * kLineBytes);
  }

  const GemmShared<kConfig>& shared_;
  const uint32 own_;
  uint32 peer_ = 0, parity_ = 0;  // where the first block's ring is; of the tile
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
