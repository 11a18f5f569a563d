// The low-latency all-to-all: every token arrives with its scales, call after call, also when some
// ranks get none and some get more than fits.
#include "stretto/device/lang/kernels/all_to_all.h"

#include "fibre/expect_clean.h"

namespace stretto::fibre {
namespace {

using namespace stretto::device;

constexpr size_t kRowBytes = 32;
constexpr size_t kScales = 2;
constexpr size_t kMaxRows = 3;
constexpr size_t kCalls = 4;

size_t rows_to(int from, int to, size_t call) {
  return (size_t(from) * 3 + size_t(to) * 2 + call) % 5;
}
uint8 byte_of(int from, int to, size_t call, size_t row, size_t i) {
  return uint8(from * 50 + to * 20 + int(call) * 7 + int(row) * 3 + int(i));
}

// What a rank's stream does after each call: keeps what has arrived.
struct Consumed {
  Buffer<uint8> tokens;
  Buffer<float> scales;
  Buffer<uint32> rows;
};

void calls(World& world) {
  const int ranks = world.shape().ranks;
  const auto num = static_cast<size_t>(ranks);
  auto slots = world.symmetric<uint8>("slots", 2 * num * kMaxRows * kRowBytes);
  auto scale_slots = world.symmetric<float>("scale_slots", 2 * num * kMaxRows * kScales);
  auto signals = world.symmetric<uint64>("signals", 2 * num, 0);
  auto counts = world.local<uint64>("calls", num, 0);
  auto received = world.local<uint32>("received", 2 * num, 0);
  auto refused = world.local<uint32>("refused", 1, 0);
  std::vector<Consumed> consumed;
  size_t too_many = 0;
  for (size_t call = 0; call < kCalls; ++call) {
    auto tokens = world.local<uint8>("tokens", num * 5 * kRowBytes);
    auto scales = world.local<float>("scales", num * 5 * kScales);
    auto offsets = world.local<uint32>("offsets", num + 1, 0);
    for (int r = 0; r < ranks; ++r) {
      size_t at = 0;
      for (int to = 0; to < ranks; ++to) {
        for (size_t row = 0; row < rows_to(r, to, call); ++row, ++at) {
          for (size_t i = 0; i < kRowBytes; ++i) {
            tokens.set(r, at * kRowBytes + i, byte_of(r, to, call, row, i));
          }
          for (size_t i = 0; i < kScales; ++i) scales.set(r, at * kScales + i, float(row + 10 * i));
        }
        offsets.set(r, size_t(to) + 1, uint32(at));
        if (r == 0 && to != r && rows_to(r, to, call) > kMaxRows) {
          too_many += rows_to(r, to, call) - kMaxRows;
        }
      }
    }
    Consumed taken{world.local<uint8>("taken", num * kMaxRows * kRowBytes),
                   world.local<float>("taken_scales", num * kMaxRows * kScales),
                   world.local<uint32>("taken_rows", num, 0)};
    world.launch(ranks - 1, world.shape().threads, [=](Block& block) {
      const int r = block.rank();
      all_to_all(block,
                 AllToAllArgs<Block>{tokens.at(r), scales.at(r), offsets.at(r), kRowBytes, kScales,
                                     kMaxRows, slots.at(r), scale_slots.at(r), signals.at(r),
                                     counts.at(r), received.at(r), refused.at(r)});
    });
    const size_t half = (call + 1) % 2 * num;
    world.launch(1, 1, [=](Block& block) {
      const int r = block.rank();
      for (size_t from = 0; from < num; ++from) {
        if (int(from) == r) continue;
        const uint32 rows = received.at(r)[half + from];
        taken.rows.at(r)[from] = rows;
        const size_t slot = (half + from) * kMaxRows;
        for (size_t i = 0; i < rows * kRowBytes; ++i) {
          taken.tokens.at(r)[from * kMaxRows * kRowBytes + i] = slots.at(r)[slot * kRowBytes + i];
        }
        for (size_t i = 0; i < rows * kScales; ++i) {
          taken.scales.at(r)[from * kMaxRows * kScales + i] = scale_slots.at(r)[slot * kScales + i];
        }
      }
    });
    consumed.push_back(taken);
  }
  if (!world.run()) return;
  world.expect(refused.get(0, 0) == too_many, "refused rows are not counted");
  for (size_t call = 0; call < kCalls; ++call) {
    for (int r = 0; r < ranks; ++r) {
      for (int from = 0; from < ranks; ++from) {
        if (from == r) continue;
        const auto f = static_cast<size_t>(from);
        const size_t rows = std::min(kMaxRows, rows_to(from, r, call));
        world.expect(consumed[call].rows.get(r, f) == rows, "a row count is wrong");
        for (size_t i = 0; i < rows * kRowBytes; ++i) {
          world.expect(consumed[call].tokens.get(r, f * kMaxRows * kRowBytes + i) ==
                           byte_of(from, r, call, i / kRowBytes, i % kRowBytes),
                       "a token is wrong");
        }
        for (size_t i = 0; i < rows * kScales; ++i) {
          world.expect(consumed[call].scales.get(r, f * kMaxRows * kScales + i) ==
                           float(i / kScales + 10 * (i % kScales)),
                       "a scale is wrong");
        }
      }
    }
  }
}

TEST(AllToAll, MovesEveryTokenCallAfterCall) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, calls);
  expect_clean({.ranks = 5, .blocks = 4, .threads = 1}, calls, 15);
}

TEST(AllToAll, WorksAcrossNodes) {
  expect_clean({.ranks = 4, .blocks = 3, .threads = 2, .warp_size = 2, .ranks_per_node = 2}, calls,
               20);
}

}  // namespace
}  // namespace stretto::fibre
