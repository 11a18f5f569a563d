// All-gathers and reduce-scatters whose sizes differ call by call: even parts, short last ones,
// empty ones, and nothing at all; some told by rows that stand in memory. Among the data are
// negative zeros, NaNs and infinities.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fibre/scenarios/in_two.h"
#include "fibre/scenarios/read_behind.h"
#include "fibre/scenarios/rows_in_memory.h"
#include "stretto/device/lang/kernels/gather_scatter.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

using PartsKernel = CallKernel<PartsArgs<Block>>;

inline constexpr size_t kMostOfAPart = 7;
inline constexpr uint32 kVectorsOfARow = 2;
inline constexpr int32 kMostRowsOfAPart = 3;

// Who has how much, and where that is told by memory, which number of rows stands there.
struct PartsCall {
  Parts parts;
  std::optional<int32> rows = {};
};

// What both kernels need besides input and output, for parts of up to kMostOfAPart vectors.
struct PartsMemory {
  PartsMemory(World& world, uint32 poison)
      : num_ranks(size_t(world.shape().ranks)),
        slots(world.symmetric<Vec16>("slots", 2 * num_ranks * kMostOfAPart, four_of(poison))),
        greetings(world.symmetric<Vec16>("greetings", 3 * num_ranks, four_of(kNoGreeting))),
        state(world.local<uint64>("state", size_t(world.shape().blocks), 0)),
        rows(world) {}

  PartsArgs<Block> args(int r, const Buffer<Vec16>& input, const Buffer<Vec16>& output,
                        const Parts& parts) const {
    return {input.at(r),  output.at(r), parts.size,      parts.total,
            kMostOfAPart, slots.at(r),  greetings.at(r), state.at(r)};
  }
  template <class Format>
  void launch(World& world, size_t number, PartsKernel kernel, const PartsCall& call,
              const Buffer<Vec16>& input, const Buffer<Vec16>& output,
              const InTwo<PartsArgs<Block>>& in_two = {}) {
    if (call.rows) rows.write(world, *call.rows);
    const auto args_of = [=, *this](int r) {
      PartsArgs<Block> its = args(r, input, output, call.rows ? Parts{} : call.parts);
      const int32 most = kMostRowsOfAPart * int32(num_ranks);
      if (call.rows) its.rows = rows.of(r, most, kVectorsOfARow);
      return its;
    };
    launch_call<Format>(world, number, kernel, in_two, args_of, [=, *this](int r) {
      return SendRowsArgs<Block>{input.at(r),
                                 call.parts.total,
                                 1,
                                 call.parts.size,
                                 slots.at(r) + size_t(r) * kMostOfAPart,
                                 num_ranks * kMostOfAPart,
                                 state.at(r)};
    });
  }
  size_t num_ranks;
  Buffer<Vec16> slots, greetings;
  Buffer<uint64> state;
  RowsInMemory rows;
};

// Calls that follow each other.
inline std::vector<PartsCall> parts_of_calls(uint32 ranks) {
  return {{{7, 7 * ranks}}, {{1, ranks / 2}},       {{5, 5 * ranks - 3}}, {{0, 0}},
          {{1, 1}},         {{7, 7 * (ranks - 1)}}, {{3, 3 * ranks - 1}}};
}

// The same, with calls in between that memory tells; numbers that cannot be are taken for the
// nearest that can.
inline std::vector<PartsCall> calls_told_both_ways(uint32 ranks) {
  const auto num = int32(ranks);
  const int32 most = kMostRowsOfAPart * num;
  const auto by_memory = [&](int32 rows) -> PartsCall {
    const int32 there = rows_within(rows, most);
    const auto owned = uint32((there + num - 1) / num);
    return {{owned * kVectorsOfARow, uint32(there) * kVectorsOfARow}, rows};
  };
  const std::vector<PartsCall> told = parts_of_calls(ranks);
  return {by_memory(most),
          by_memory(1),
          told[0],
          told[1],
          by_memory(0),
          told[2],
          by_memory(num + 1),
          by_memory(most + 5),
          told[3],
          by_memory(-7),
          by_memory(2 * num - 1),
          told[5]};
}

// Bits that are a negative zero, a NaN, an infinity or a number of the format, or of two.
inline uint32 any_bits(int rank, size_t call, size_t i, int w) {
  const uint32 special[] = {0x80008000u, 0x80000000u, 0x00008000u, 0x7fc17f81u, 0xfff1ff80u,
                            0x7f807f80u, 0xff807c00u, 0x7c017e01u, 0x00018001u, 0xffffffffu};
  uint64 hash = (uint64(rank) * 131 + call) * 8191 + i * 4 + uint64(w) + 1;
  hash = (hash ^ hash >> 29) * 0x9e3779b97f4a7c15ull;
  hash = (hash ^ hash >> 32) * 0xbf58476d1ce4e5b9ull;
  const auto pick = uint32(hash >> 60);
  return pick < 10 ? special[pick] : uint32(hash >> 20);
}

// The bits as they must arrive: without negative zeros.
inline uint32 arrived_bits(uint32 bits, bool halves) {
  if (!halves) return bits == 0x80000000u ? 0u : bits;
  const uint32 low = bits & 0xffffu, high = bits & 0xffff0000u;
  return (low == 0x8000u ? 0u : low) | (high == 0x80000000u ? 0u : high);
}

template <class Format>
void gather_calls(World& world, PartsKernel kernel, const std::vector<PartsCall>& calls) {
  const int ranks = world.shape().ranks;
  PartsMemory memory(world, Format::kPoison);
  std::vector<Buffer<Vec16>> inputs, outputs;
  const auto sent = [](int rank, size_t call, size_t i) {
    Vec16 v;
    for (int w = 0; w < 4; ++w) v.word[w] = any_bits(rank, call, i, w);
    return v;
  };
  for (size_t call = 0; call < calls.size(); ++call) {
    const Parts parts = calls[call].parts;
    inputs.push_back(world.local<Vec16>("input", kMostOfAPart));
    outputs.push_back(world.local<Vec16>("output", kMostOfAPart * memory.num_ranks, kUntouched));
    for (int r = 0; r < ranks; ++r) {
      for (uint32 i = 0; i < parts.size_of(r); ++i) inputs[call].set(r, i, sent(r, call, i));
    }
    memory.launch<Format>(world, call, kernel, calls[call], inputs[call], outputs[call]);
    outputs[call] = read_behind(world, outputs[call]);
  }
  if (!world.run()) return;
  for (size_t call = 0; call < calls.size(); ++call) {
    const Parts& parts = calls[call].parts;
    for (int r = 0; r < ranks; ++r) {
      expect_untouched(world, outputs[call], r, parts.total);
      for (int from = 0; from < ranks; ++from) {
        for (uint32 i = 0; i < parts.size_of(from); ++i) {
          const Vec16 got = outputs[call].get(r, parts.first(from) + i);
          const Vec16 was = sent(from, call, i);
          for (int w = 0; w < 4; ++w) {
            world.expect(got.word[w] == arrived_bits(was.word[w], Format::kElements == 8),
                         "bits arrived otherwise");
          }
        }
      }
    }
  }
}

// Numbers of which sums are rounded, so that their order shows. Some vectors have negative zeros,
// infinities, and NaNs of rank 1 only, since which of two NaNs a sum has is the machine's.
template <class Format>
Vec16 summand(int rank, size_t call, size_t i) {
  float values[Format::kElements];
  for (int e = 0; e < Format::kElements; ++e) {
    const uint32 bits = any_bits(rank, call + 100, i, e);
    values[e] = float(int(bits % 2001) - 1000) / float(1u << (bits >> 12 & 15));
  }
  Vec16 v = Format::round(values);
  if (i % kMostOfAPart != 0) return v;
  v.word[0] = Format::kPoison;
  v.word[1] = Format::kMantissaBits == Fp16::kMantissaBits ? 0x7c007c00u : 0x7f800000u;
  if (rank == 1) v.word[2] = 0x7fc17fc1u;
  return v;
}

template <class Format>
void gather_calls(World& world, PartsKernel kernel) {
  gather_calls<Format>(world, kernel, parts_of_calls(uint32(world.shape().ranks)));
}

template <class Format>
void scatter_calls(World& world, PartsKernel kernel, const std::vector<PartsCall>& calls,
                   const InTwo<PartsArgs<Block>>& in_two = {}) {
  const int ranks = world.shape().ranks;
  PartsMemory memory(world, Format::kPoison);
  std::vector<Buffer<Vec16>> inputs, outputs;
  for (size_t call = 0; call < calls.size(); ++call) {
    const Parts parts = calls[call].parts;
    inputs.push_back(world.local<Vec16>("input", kMostOfAPart * memory.num_ranks));
    outputs.push_back(world.local<Vec16>("output", kMostOfAPart, kUntouched));
    for (int r = 0; r < ranks; ++r) {
      for (size_t i = 0; i < parts.total; ++i) inputs[call].set(r, i, summand<Format>(r, call, i));
    }
    memory.launch<Format>(world, call, kernel, calls[call], inputs[call], outputs[call], in_two);
    if (in_two.is_read_behind(call)) outputs[call] = read_behind(world, outputs[call]);
  }
  for (size_t call = 0; call < calls.size(); ++call) {
    if (!in_two.is_read_behind(call)) outputs[call] = read_behind(world, outputs[call]);
  }
  if (!world.run()) return;
  for (size_t call = 0; call < calls.size(); ++call) {
    const Parts& parts = calls[call].parts;
    for (int r = 0; r < ranks; ++r) {
      expect_untouched(world, outputs[call], r, parts.size_of(r));
      for (uint32 i = 0; i < parts.size_of(r); ++i) {
        float sums[Format::kElements] = {};
        for (int from = 0; from < ranks; ++from) {
          const Vec16 v = summand<Format>(from, call, parts.first(r) + i);
          Format::add(sums, from == r ? v : canonical<Format>(v));
        }
        const Vec16 want = canonical<Format>(Format::round(sums));
        const Vec16 got = outputs[call].get(r, i);
        for (int w = 0; w < 4; ++w) world.expect(got.word[w] == want.word[w], "a sum is wrong");
      }
    }
  }
}

template <class Format>
void scatter_calls(World& world, PartsKernel kernel) {
  scatter_calls<Format>(world, kernel, parts_of_calls(uint32(world.shape().ranks)));
}

}  // namespace stretto::fibre
