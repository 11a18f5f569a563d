// All-to-alls of tokens one after the other, some ranks getting none and some more than fits.
#pragma once

#include <algorithm>
#include <vector>

#include "stretto/device/lang/kernels/all_to_all.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

inline constexpr size_t kTokenBytes = 32;
inline constexpr size_t kTokenScales = 2;
inline constexpr size_t kMostTokens = 3;
inline constexpr size_t kAllToAllCalls = 4;

inline size_t rows_to(int from, int to, size_t call) {
  return (size_t(from) * 3 + size_t(to) * 2 + call) % 5;
}
inline uint8 byte_of(int from, int to, size_t call, size_t row, size_t i) {
  return uint8(from * 50 + to * 20 + int(call) * 7 + int(row) * 3 + int(i));
}

// What a rank's stream does after each call: keeps what has arrived.
struct Consumed {
  Buffer<uint8> tokens;
  Buffer<float> scales;
  Buffer<uint32> rows;
};

// `before`: the calls that there have been.
inline void all_to_all_calls_after(World& world, uint64 before) {
  const int ranks = world.shape().ranks;
  const auto num = static_cast<size_t>(ranks);
  auto slots = world.symmetric<uint8>("slots", 2 * num * kMostTokens * kTokenBytes);
  auto scale_slots = world.symmetric<float>("scale_slots", 2 * num * kMostTokens * kTokenScales);
  auto signals = world.symmetric<uint64>("signals", all_to_all_signals(num), before << kRowBits);
  auto counts = world.local<uint64>("calls", num, before);
  auto received = world.local<uint32>("received", 2 * num, 0);
  auto refused = world.local<uint32>("refused", 1, 0);
  std::vector<Consumed> consumed;
  size_t too_many = 0;
  for (size_t call = 0; call < kAllToAllCalls; ++call) {
    auto tokens = world.local<uint8>("tokens", num * 5 * kTokenBytes);
    auto scales = world.local<float>("scales", num * 5 * kTokenScales);
    auto offsets = world.local<uint32>("offsets", num + 1, 0);
    for (int r = 0; r < ranks; ++r) {
      size_t at = 0;
      for (int to = 0; to < ranks; ++to) {
        for (size_t row = 0; row < rows_to(r, to, call); ++row, ++at) {
          for (size_t i = 0; i < kTokenBytes; ++i) {
            tokens.set(r, at * kTokenBytes + i, byte_of(r, to, call, row, i));
          }
          for (size_t i = 0; i < kTokenScales; ++i)
            scales.set(r, at * kTokenScales + i, float(row + 10 * i));
        }
        offsets.set(r, size_t(to) + 1, uint32(at));
        if (r == 0 && to != r && rows_to(r, to, call) > kMostTokens) {
          too_many += rows_to(r, to, call) - kMostTokens;
        }
      }
    }
    Consumed taken{world.local<uint8>("taken", num * kMostTokens * kTokenBytes),
                   world.local<float>("taken_scales", num * kMostTokens * kTokenScales),
                   world.local<uint32>("taken_rows", num, 0)};
    world.launch(ranks - 1, world.shape().threads, [=](Block& block) {
      const int r = block.rank();
      all_to_all(block,
                 AllToAllArgs<Block>{tokens.at(r), scales.at(r), offsets.at(r), kTokenBytes,
                                     kTokenScales, kMostTokens, slots.at(r), scale_slots.at(r),
                                     signals.at(r), counts.at(r), received.at(r), refused.at(r)});
    });
    const size_t half = (before + call + 1) % 2 * num;
    world.launch(1, 1, [=](Block& block) {
      const int r = block.rank();
      for (size_t from = 0; from < num; ++from) {
        if (int(from) == r) continue;
        const uint32 rows = received.at(r)[half + from];
        taken.rows.at(r)[from] = rows;
        const size_t slot = (half + from) * kMostTokens;
        for (size_t i = 0; i < rows * kTokenBytes; ++i) {
          taken.tokens.at(r)[from * kMostTokens * kTokenBytes + i] =
              slots.at(r)[slot * kTokenBytes + i];
        }
        for (size_t i = 0; i < rows * kTokenScales; ++i) {
          taken.scales.at(r)[from * kMostTokens * kTokenScales + i] =
              scale_slots.at(r)[slot * kTokenScales + i];
        }
      }
    });
    consumed.push_back(taken);
  }
  if (!world.run()) return;
  world.expect(refused.get(0, 0) == too_many, "refused rows are not counted");
  for (size_t call = 0; call < kAllToAllCalls; ++call) {
    for (int r = 0; r < ranks; ++r) {
      for (int from = 0; from < ranks; ++from) {
        if (from == r) continue;
        const auto f = static_cast<size_t>(from);
        const size_t rows = std::min(kMostTokens, rows_to(from, r, call));
        world.expect(consumed[call].rows.get(r, f) == rows, "a row count is wrong");
        for (size_t i = 0; i < rows * kTokenBytes; ++i) {
          world.expect(consumed[call].tokens.get(r, f * kMostTokens * kTokenBytes + i) ==
                           byte_of(from, r, call, i / kTokenBytes, i % kTokenBytes),
                       "a token is wrong");
        }
        for (size_t i = 0; i < rows * kTokenScales; ++i) {
          world.expect(consumed[call].scales.get(r, f * kMostTokens * kTokenScales + i) ==
                           float(i / kTokenScales + 10 * (i % kTokenScales)),
                       "a scale is wrong");
        }
      }
    }
  }
}

inline void all_to_all_calls(World& world) { all_to_all_calls_after(world, 0); }

}  // namespace stretto::fibre
