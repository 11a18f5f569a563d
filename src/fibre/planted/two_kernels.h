// A collective's call in two kernels: one sends, and the other, which only receives, may start
// before that has ended (device/lang/kernels/call.h).
#pragma once

#include "fibre/planted/planted.h"
#include "stretto/device/lang/kernels/slots.h"

namespace stretto::fibre {

enum class Flaw {
  kNone,
  kCountReadEarly,    // the sender takes the parity before its stream has ended
  kNextLetEarly,      // it lets the receiver start before that
  kOwnSlotKept,       // the receiver poisons the slots of the others only
  kUnheard,           // it ends without having heard the others
  kCountedEarly,      // it counts the call while the sender may still read the count
  kEndsBeforeSender,  // what follows on the stream may then begin before the sender has ended
};

struct InTwoKernels {
  static constexpr uint64 kCalls = 5;

  // Each rank sends a vector a call to each of the first `takers` ranks, which keep all; by one
  // block to even ranks, by another to odd ones.
  InTwoKernels(World& world, int first_takers, bool clears = false)
      : ranks(world.shape().ranks),
        takers(first_takers),
        is_cleared(clears),
        slots(world.symmetric<Vec16>("slots", 2 * size_t(ranks), device::four_of(kPoison))),
        greetings(world.symmetric<Vec16>("greetings", 3 * size_t(ranks),
                                         device::four_of(device::kNoGreeting))),
        state(world.local<uint64>("state", 1, 0)),
        message(world.local<Vec16>("message", kCalls)),
        out(world.local<Vec16>("out", kCalls * size_t(ranks))) {
    for (int r = 0; r < ranks; ++r) {
      for (uint64 e = 0; e < kCalls; ++e) message.set(r, e, value_of(r, e));
    }
  }

  void run(World& world, Flaw flaw) const {
    for (uint64 e = 0; e < kCalls; ++e) {
      world.launch_early(2, 1, [=, *this](Block& block) { send(block, e, flaw); });
      world.launch_early(1, 1, [=, *this](Block& block) { receive(block, e, flaw); });
      if (!is_cleared) continue;
      world.launch(1, 1, [=, *this](Block& block) { message.at(block.rank())[e] = Vec16{}; });
    }
    if (!world.run()) return;
    for (int r = 0; r < takers; ++r) {
      for (uint64 e = 0; e < kCalls; ++e) {
        for (int from = 0; from < ranks; ++from) {
          const Vec16 got = out.get(r, e * size_t(ranks) + size_t(from));
          const Vec16 want = value_of(from, e);
          world.expect(got.word[0] == want.word[0], "a call saw another call's message");
        }
      }
    }
  }

 private:
  static constexpr uint32 kPoison = 0x80000000u;

  static Vec16 value_of(int rank, uint64 e) {
    return device::four_of(uint32(100 * (e + 1) + uint64(rank)));
  }

  void send(Block& block, uint64 e, Flaw flaw) const {
    const int me = block.rank();
    uint64 calls = 0;
    if (flaw == Flaw::kNextLetEarly) block.let_next_start();
    if (flaw == Flaw::kCountReadEarly) calls = block.load(state.at(me));
    block.wait_for_kernel_before();
    block.let_next_start();
    Vec16 made;  // what is sent takes a while to be made
    for (uint64 i = 0; i < kCalls; ++i) made = message.at(me)[i];
    if (flaw != Flaw::kCountReadEarly) calls = block.load(state.at(me));
    auto slot = slots.at(me) + (calls % 2 * uint64(ranks) + uint64(me));
    for (int k = 0; k < ranks; ++k) {
      const int to = (me + k) % ranks;
      if (to % 2 != block.block_idx()) continue;
      const Vec16 value = message.at(me)[e];
      if (to < takers) block.store(block.peer(slot, to), value);
    }
  }

  void receive(Block& block, uint64 e, Flaw flaw) const {
    const int me = block.rank();
    const device::CallShare call =
        device::begin_call<Block, device::SentBy::kBefore>(block, state.at(me));
    const device::Greeting greeting{0, 0, 0, 0, "a", "b", "c", "d"};
    auto greeted = greetings.at(me) + call.now * uint64(ranks);
    device::greet<Block>(block, greeted, greeting);
    if (e > 0) {
      device::clear_greetings<Block>(block, greetings.at(me) + call.before * uint64(ranks));
    }
    if (flaw != Flaw::kUnheard && !device::hear_greetings<Block>(block, greeted, greeting)) return;
    for (int from = 0; me < takers && from < ranks; ++from) {
      auto slot = slots.at(me) + (call.parity * uint64(ranks) + uint64(from));
      Vec16 value;
      if (!block.wait_words_not(slot, kPoison, value)) return;
      out.at(me)[e * uint64(ranks) + uint64(from)] = value;
      if (flaw != Flaw::kOwnSlotKept || from != me) block.store(slot, device::four_of(kPoison));
    }
    if (flaw == Flaw::kCountedEarly) block.store(state.at(me), call.call + 1);
    if (flaw != Flaw::kEndsBeforeSender) block.wait_for_kernel_before();
    if (flaw != Flaw::kCountedEarly) block.store(state.at(me), call.call + 1);
  }

  int ranks, takers;
  bool is_cleared;  // a kernel behind each call writes over what was sent
  Buffer<Vec16> slots, greetings;
  Buffer<uint64> state;
  Buffer<Vec16> message, out;
};

template <Flaw kFlaw>
void in_two_kernels(World& world, bool bug) {
  const int takers = kFlaw == Flaw::kUnheard ? 1 : world.shape().ranks;
  InTwoKernels(world, takers, kFlaw == Flaw::kEndsBeforeSender)
      .run(world, bug ? kFlaw : Flaw::kNone);
}

inline std::vector<Planted> two_kernel_bugs() {
  const Shape pair{.ranks = 2, .threads = 1};
  const auto race = FindingKind::kRace, wrong = FindingKind::kMismatch,
             stuck = FindingKind::kDeadlock;
  return {
      {"parity_read_before_the_wait",
       "a kernel that is started early reads what the one before it writes",
       {race, wrong, stuck},
       pair,
       in_two_kernels<Flaw::kCountReadEarly>},
      {"next_let_before_the_wait",
       "a chain of kernels started early: the third overtakes the first",
       {race, wrong, stuck},
       pair,
       in_two_kernels<Flaw::kNextLetEarly>},
      {"own_slot_not_poisoned_again",
       "the own part goes through a slot as well, which stays full",
       {wrong, race},
       pair,
       in_two_kernels<Flaw::kOwnSlotKept>},
      {"ends_before_all_have_greeted",
       "a rank that receives nothing runs ahead of those that do",
       {wrong, race, stuck},
       pair,
       in_two_kernels<Flaw::kUnheard>},
      {"counted_before_the_sender_ended",
       "the count of calls is advanced while the sender takes its parity",
       {race, wrong, stuck},
       pair,
       in_two_kernels<Flaw::kCountedEarly>},
      {"ends_before_its_sender",
       "a kernel started early that never waits for the one before it: its end says nothing of "
       "that",
       {race, wrong},
       pair,
       in_two_kernels<Flaw::kEndsBeforeSender>},
  };
}

}  // namespace stretto::fibre
