// Calls whose number of rows a kernel before them has written, and the copy of so many rows.
#pragma once

#include <cstdint>

#include "fibre/scenarios/read_behind.h"
#include "stretto/device/lang/kernels/copy_rows.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

// What outputs hold before a call, and behind its result afterwards.
inline constexpr Vec16 kUntouched = {{0x5a5a5a5au, 1, 2, 3}};

inline void expect_untouched(World& world, const Buffer<Vec16>& output, int rank, size_t from) {
  for (size_t i = from; i < output.size(); ++i) {
    const Vec16 got = output.get(rank, i);
    for (int w = 0; w < 4; ++w) {
      world.expect(got.word[w] == kUntouched.word[w], "written behind the result");
    }
  }
}

// One number in a rank's memory, which kernels write between those that read it, as a server does
// between launches of one graph.
class RowsInMemory {
 public:
  explicit RowsInMemory(World& world) : at_(world.local<int32>("rows", 1)) {}

  void write(World& world, int32 rows) const {
    world.launch(1, 1, [rows, at = at_](Block& block) { at.at(block.rank())[0] = rows; });
  }
  RowsOfCall<Block> of(int rank, int32 most, uint32 row_vectors) const {
    return {at_.at(rank), most, row_vectors};
  }

 private:
  Buffer<int32> at_;
};

// Copies of rows, by fewer threads than there are vectors and by more.
inline void copy_rows_calls(World& world) {
  constexpr int32 kMost = 9;
  constexpr uint32 kVectors = 5;
  constexpr size_t kAll = size_t(kMost) * kVectors;
  const RowsInMemory rows(world);
  const auto value = [](int rank, size_t call, size_t i) {
    return Vec16{{uint32(rank), uint32(call), uint32(i), 7}};
  };
  const int32 counts[] = {kMost, 1, 0, kMost + 1, 4, -1};
  std::vector<Buffer<Vec16>> outputs;
  for (size_t call = 0; call < std::size(counts); ++call) {
    auto input = world.local<Vec16>("input", kAll);
    outputs.push_back(world.local<Vec16>("output", kAll, kUntouched));
    for (int r = 0; r < world.shape().ranks; ++r) {
      for (size_t i = 0; i < kAll; ++i) input.set(r, i, value(r, call, i));
    }
    rows.write(world, counts[call]);
    world.launch([=, output = outputs[call]](Block& block) {
      const int r = block.rank();
      copy_rows(block, CopyRowsArgs<Block>{input.at(r), output.at(r), rows.of(r, kMost, kVectors)});
    });
    outputs[call] = read_behind(world, outputs[call]);
  }
  if (!world.run()) return;
  for (size_t call = 0; call < std::size(counts); ++call) {
    const auto copied = size_t(rows_within(counts[call], kMost)) * kVectors;
    for (int r = 0; r < world.shape().ranks; ++r) {
      for (size_t i = 0; i < copied; ++i) {
        const Vec16 got = outputs[call].get(r, i), want = value(r, call, i);
        for (int w = 0; w < 4; ++w) world.expect(got.word[w] == want.word[w], "copied otherwise");
      }
      expect_untouched(world, outputs[call], r, copied);
    }
  }
}

}  // namespace stretto::fibre
