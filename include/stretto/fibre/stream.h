// The host side of the tile layer on the emulator: copy-engine work queued on a stream of one rank,
// in order, beside the rank's kernels. (TileLink: rank_copy_data, rank_notify, rank_wait; on GPUs
// fabric/rank_stream.h.)
//
// Buffers and signals must live until World::run() has returned; calls only queue. A wait that
// expires, which takes an absent rank (World::make_absent), is counted in World::num_expired();
// what is queued behind it runs all the same, so what that gives is then not to be used.
#pragma once

#include "stretto/device/lang/shmem.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

class RankStream {
 public:
  // `stream` is 1 to 3; kernels are launched on stream 0.
  RankStream(World& world, int rank, int stream) : world_(world), rank_(rank), stream_(stream) {}

  // Copies elements into `dest` of `peer`; they have arrived before what is queued here afterwards.
  // `source` is not to be written until then.
  template <class T>
  void rank_copy_data(const Buffer<T>& dest, size_t dest_begin, const Buffer<T>& source,
                      size_t source_begin, size_t count, int peer, Where where = Where::here()) {
    queue([=, rank = rank_](Block& block) {
      device::Shmem shmem(block);
      shmem.putmem(dest.at(rank) + dest_begin, source.at(rank) + source_begin, count * sizeof(T),
                   peer, where);
      shmem.quiet(where);
    });
  }
  // Adds to the signal at `peer` after everything queued here before.
  void rank_notify(const Buffer<uint64>& signals, size_t signal, uint64 amount, int peer,
                   Where where = Where::here()) {
    queue([=, rank = rank_](Block& block) {
      device::Shmem shmem(block);
      shmem.signal_op(signals.at(rank) + signal, amount, SignalOp::kAdd, peer, where);
    });
  }
  // What is queued here afterwards happens once the own signal has come to `bound`, or never will.
  void rank_wait(const Buffer<uint64>& signals, size_t signal, uint64 bound,
                 Where where = Where::here()) {
    queue([=, rank = rank_](Block& block) {
      device::Shmem shmem(block);
      (void)shmem.signal_wait_until(signals.at(rank) + signal, Compare::kGe, bound, where);
    });
  }

 private:
  void queue(World::Kernel work) { world_.launch_on(rank_, stream_, 1, 1, std::move(work)); }

  World& world_;
  int rank_;
  int stream_;
};

}  // namespace stretto::fibre
