// All-gathers and reduce-scatters whose sizes differ call by call: even parts, short last ones,
// empty ones, and nothing at all. Among the data are negative zeros, NaNs and infinities.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/device/lang/kernels/gather_scatter.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

using PartsKernel = void (*)(Block&, const PartsArgs<Block>&);

inline constexpr size_t kMostOfAPart = 7;

// What both kernels need besides input and output, for parts of up to kMostOfAPart vectors.
struct PartsMemory {
  PartsMemory(World& world, uint32 poison)
      : num_ranks(size_t(world.shape().ranks)),
        slots(world.symmetric<Vec16>("slots", 2 * num_ranks * kMostOfAPart, four_of(poison))),
        greetings(world.symmetric<Vec16>("greetings", 3 * num_ranks, four_of(kNoGreeting))),
        state(world.local<uint64>("state", size_t(world.shape().blocks), 0)) {}

  PartsArgs<Block> args(int r, const Buffer<Vec16>& input, const Buffer<Vec16>& output,
                        const Parts& parts) const {
    return {input.at(r),  output.at(r), parts.size,      parts.total,
            kMostOfAPart, slots.at(r),  greetings.at(r), state.at(r)};
  }
  size_t num_ranks;
  Buffer<Vec16> slots, greetings;
  Buffer<uint64> state;
};

// The parts of the calls that follow each other.
inline std::vector<Parts> parts_of_calls(uint32 ranks) {
  return {{7, 7 * ranks}, {1, ranks / 2},       {5, 5 * ranks - 3}, {0, 0},
          {1, 1},         {7, 7 * (ranks - 1)}, {3, 3 * ranks - 1}};
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
void gather_calls(World& world, PartsKernel kernel) {
  const int ranks = world.shape().ranks;
  const PartsMemory memory(world, Format::kPoison);
  const auto calls = parts_of_calls(uint32(ranks));
  std::vector<Buffer<Vec16>> inputs, outputs;
  const auto sent = [](int rank, size_t call, size_t i) {
    Vec16 v;
    for (int w = 0; w < 4; ++w) v.word[w] = any_bits(rank, call, i, w);
    return v;
  };
  for (size_t call = 0; call < calls.size(); ++call) {
    const Parts parts = calls[call];
    inputs.push_back(world.local<Vec16>("input", kMostOfAPart));
    outputs.push_back(world.local<Vec16>("output", kMostOfAPart * memory.num_ranks));
    for (int r = 0; r < ranks; ++r) {
      for (uint32 i = 0; i < parts.size_of(r); ++i) inputs[call].set(r, i, sent(r, call, i));
    }
    world.launch([=, input = inputs[call], output = outputs[call]](Block& block) {
      kernel(block, memory.args(block.rank(), input, output, parts));
    });
  }
  if (!world.run()) return;
  for (size_t call = 0; call < calls.size(); ++call) {
    for (int r = 0; r < ranks; ++r) {
      for (int from = 0; from < ranks; ++from) {
        for (uint32 i = 0; i < calls[call].size_of(from); ++i) {
          const Vec16 got = outputs[call].get(r, calls[call].first(from) + i);
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
void scatter_calls(World& world, PartsKernel kernel) {
  const int ranks = world.shape().ranks;
  const PartsMemory memory(world, Format::kPoison);
  const auto calls = parts_of_calls(uint32(ranks));
  std::vector<Buffer<Vec16>> inputs, outputs;
  for (size_t call = 0; call < calls.size(); ++call) {
    const Parts parts = calls[call];
    inputs.push_back(world.local<Vec16>("input", kMostOfAPart * memory.num_ranks));
    outputs.push_back(world.local<Vec16>("output", kMostOfAPart));
    for (int r = 0; r < ranks; ++r) {
      for (size_t i = 0; i < parts.total; ++i) inputs[call].set(r, i, summand<Format>(r, call, i));
    }
    world.launch([=, input = inputs[call], output = outputs[call]](Block& block) {
      kernel(block, memory.args(block.rank(), input, output, parts));
    });
  }
  if (!world.run()) return;
  for (size_t call = 0; call < calls.size(); ++call) {
    for (int r = 0; r < ranks; ++r) {
      for (uint32 i = 0; i < calls[call].size_of(r); ++i) {
        float sums[Format::kElements] = {};
        for (int from = 0; from < ranks; ++from) {
          const Vec16 v = summand<Format>(from, call, calls[call].first(r) + i);
          Format::add(sums, from == r ? v : canonical<Format>(v));
        }
        const Vec16 want = canonical<Format>(Format::round(sums));
        const Vec16 got = outputs[call].get(r, i);
        for (int w = 0; w < 4; ++w) world.expect(got.word[w] == want.word[w], "a sum is wrong");
      }
    }
  }
}

}  // namespace stretto::fibre
