// Buffers, signals and epochs that are used again too early. Kernels run several times.
#pragma once

#include "fibre/planted/planted.h"

namespace stretto::fibre {

inline constexpr int kRuns = 4;

// In run e rank 0 sends its counter to rank 1 through one of `num_slots` slots.
struct Stream4 {
  explicit Stream4(World& world, size_t num_slots)
      : slots(world.symmetric<uint64>("slots", num_slots)),
        message(world.local<uint64>("message", kRuns)),
        arrived(world.symmetric<uint64>("arrived", 2, 0)),
        taken(world.symmetric<uint64>("taken", 1, 0)),
        out(world.local<uint64>("out", kRuns)) {
    for (size_t e = 0; e < kRuns; ++e) message.set(0, e, 100 + e);
  }
  // Rank 0's part of run e: its message into a slot of rank 1, which `how` and `flag` tell.
  void send(device::Shmem<Block>& shmem, uint64 e, uint64 slot, uint64 flag = 1,
            SignalOp how = SignalOp::kAdd) const {
    shmem.putmem_signal(slots.at(0) + slot, message.at(0) + (e - 1), 8, arrived.at(0), flag, how,
                        1);
  }
  // Rank 1's, once it has been told.
  void take(uint64 e, uint64 slot) const { out.at(1)[e - 1] = slots.at(1)[slot]; }
  void finish(World& world) const {
    if (!world.run()) return;
    for (size_t e = 0; e < kRuns; ++e) {
      world.expect(out.get(1, e) == 100 + e, "a run saw another run's message");
    }
  }

  Buffer<uint64> slots, message, arrived, taken, out;
};

// One slot; the sender must wait until run e-1's message was taken.
inline void overwritten_before_taken(World& world, bool bug) {
  const Stream4 s(world, 1);
  for (uint64 e = 1; e <= kRuns; ++e) {
    world.launch(1, 1, [=](Block& block) {
      device::Shmem shmem(block);
      const int me = block.rank();
      if (me == 0) {
        if (!bug && !shmem.signal_wait_until(s.taken.at(0), Compare::kGe, e - 1)) return;
        s.send(shmem, e, 0);
      } else {
        if (!shmem.signal_wait_until(s.arrived.at(1), Compare::kGe, e)) return;
        s.take(e, 0);
        shmem.signal_op(s.taken.at(1), 1, SignalOp::kAdd, 0);
      }
    });
  }
  s.finish(world);
}

// Two slots: run e overwrites run e-2's message, so e-2 must have been taken.
inline void double_buffer_credit_off_by_one(World& world, bool bug) {
  const Stream4 s(world, 2);
  for (uint64 e = 1; e <= kRuns; ++e) {
    world.launch(1, 1, [=](Block& block) {
      device::Shmem shmem(block);
      const uint64 slot = e % 2;
      const uint64 lag = bug ? 3 : 2;
      if (block.rank() == 0) {
        if (e > lag && !shmem.signal_wait_until(s.taken.at(0), Compare::kGe, e - lag)) return;
        s.send(shmem, e, slot);
      } else {
        if (!shmem.signal_wait_until(s.arrived.at(1), Compare::kGe, e)) return;
        s.take(e, slot);
        shmem.signal_op(s.taken.at(1), 1, SignalOp::kAdd, 0);
      }
    });
  }
  s.finish(world);
}

// The epoch was captured with the graph: every replay waits for the first run's value.
inline void epoch_frozen_by_capture(World& world, bool bug) {
  const Stream4 s(world, kRuns);
  for (uint64 e = 1; e <= kRuns; ++e) {
    world.launch(1, 1, [=](Block& block) {
      device::Shmem shmem(block);
      if (block.rank() == 0) {
        s.send(shmem, e, e - 1);
      } else {
        if (!shmem.signal_wait_until(s.arrived.at(1), Compare::kGe, bug ? 1 : e)) return;
        s.take(e, e - 1);
      }
    });
  }
  s.finish(world);
}

// A flag that alternates between 1 and 0 is ambiguous as soon as the sender is two runs ahead.
inline void parity_flag_reused(World& world, bool bug) {
  const Stream4 s(world, kRuns);
  for (uint64 e = 1; e <= kRuns; ++e) {
    world.launch(1, 1, [=](Block& block) {
      device::Shmem shmem(block);
      const uint64 flag = bug ? e % 2 : e;
      if (block.rank() == 0) {
        s.send(shmem, e, e - 1, flag, SignalOp::kSet);
      } else {
        if (!shmem.signal_wait_until(s.arrived.at(1), bug ? Compare::kEq : Compare::kGe, flag)) {
          return;
        }
        s.take(e, e - 1);
      }
    });
  }
  s.finish(world);
}

// The receiver zeroes the signal after each run; what arrives in between is gone.
inline void signal_reset_by_receiver(World& world, bool bug) {
  const Stream4 s(world, kRuns);
  for (uint64 e = 1; e <= kRuns; ++e) {
    world.launch(1, 1, [=](Block& block) {
      device::Shmem shmem(block);
      if (block.rank() == 0) {
        s.send(shmem, e, e - 1);
      } else {
        if (!shmem.signal_wait_until(s.arrived.at(1), Compare::kGe, bug ? 1 : e)) return;
        s.take(e, e - 1);
        if (bug) block.store(s.arrived.at(1), 0);
      }
    });
  }
  s.finish(world);
}

// A barrier of one's own with one counter: run e+1's arrivals satisfy run e's wait.
inline void barrier_counter_shared_by_runs(World& world, bool bug) {
  auto counter = world.symmetric<uint64>("counter", 1, 0);
  auto value = world.symmetric<uint64>("value", 1, 0);
  const int ranks = world.shape().ranks;
  for (uint64 e = 1; e <= kRuns; ++e) {
    world.launch(1, 1, [=](Block& block) {
      device::Shmem shmem(block);
      const int me = block.rank();
      const int next = (me + 1) % ranks;
      auto meet = [&](uint64 phase) {
        for (int r = 0; r < ranks; ++r) shmem.signal_op(counter.at(me), 1, SignalOp::kAdd, r);
        return shmem.signal_wait_until(counter.at(me), Compare::kGe, phase * uint64(ranks));
      };
      // Read the neighbour's value of the last run, meet, and only then write the own anew.
      const uint64 seen = shmem.ptr(value.at(me), next)[0];
      if (!meet(2 * e - 1)) return;
      value.at(me)[0] = seen + 1;
      if (!bug && !meet(2 * e)) return;
      if (bug) shmem.signal_op(counter.at(me), uint64(ranks), SignalOp::kAdd, me);
    });
  }
  if (!world.run()) return;
  for (int r = 0; r < ranks; ++r) world.expect(value.get(r, 0) == kRuns, "a run was lost");
}

inline std::vector<Planted> reuse_bugs() {
  const auto race = FindingKind::kRace;
  const Shape pair{.ranks = 2, .threads = 1};
  return {
      {"overwritten_before_taken",
       "slot reuse, flashinfer 4473",
       {race},
       pair,
       overwritten_before_taken,
       kPairOnly},
      {"double_buffer_credit_off_by_one",
       "two slots, credit of three",
       {race},
       pair,
       double_buffer_credit_off_by_one,
       kPairOnly},
      {"epoch_frozen_by_capture",
       "Triton-distributed flash decode: epoch is a kernel scalar",
       {race, FindingKind::kUnwritten},
       pair,
       epoch_frozen_by_capture,
       kPairOnly},
      {"parity_flag_reused",
       "parity double slots without a barrier",
       {race, FindingKind::kUnwritten, FindingKind::kLostSignal, FindingKind::kDeadlock},
       pair,
       parity_flag_reused,
       kPairOnly},
      {"signal_reset_by_receiver",
       "flags zeroed per call",
       {FindingKind::kDeadlock, race, FindingKind::kUnwritten},
       pair,
       signal_reset_by_receiver,
       kPairOnly},
      {"barrier_counter_shared_by_runs",
       "one-counter rank barrier",
       {race, FindingKind::kMismatch},
       pair,
       barrier_counter_shared_by_runs},
  };
}

}  // namespace stretto::fibre
