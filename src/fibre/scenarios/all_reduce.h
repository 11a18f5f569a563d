// All-reduces of different sizes one after the other, some told by rows that stand in memory, with
// negative zeros among the data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fibre/scenarios/in_two.h"
#include "fibre/scenarios/read_behind.h"
#include "fibre/scenarios/rows_in_memory.h"
#include "stretto/device/lang/kernels/all_reduce.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

using AllReduceKernel = CallKernel<AllReduceArgs<Block>>;

inline constexpr size_t kMostToReduce = 11;

// How many vectors, and where that is told by memory, which number of rows of two stands there.
struct AllReduceCall {
  size_t size;
  std::optional<int32> rows = {};
};

inline std::vector<AllReduceCall> all_reduce_sizes() { return {{11}, {1}, {7}, {0}, {10}}; }
// Calls of at most five rows.
inline std::vector<AllReduceCall> reductions_told_both_ways() {
  return {{10, 5}, {2, 1}, {11}, {10, 9}, {0, 0}, {1}, {0, -3}, {6, 3}, {7}};
}

// Calls whose sizes differ; on integers sums are exact, so the order does not matter here.
template <class Format>
void all_reduce_calls(World& world, AllReduceKernel kernel,
                      const std::vector<AllReduceCall>& calls = all_reduce_sizes(),
                      const InTwo<AllReduceArgs<Block>>& in_two = {}) {
  const int ranks = world.shape().ranks;
  const auto num_ranks = static_cast<size_t>(ranks);
  const size_t max_vectors = kMostToReduce;
  const RowsInMemory rows(world);
  const size_t slot_vectors = 4 * num_ranks * max_vectors;
  const Vec16 poison = four_of(Format::kPoison);
  auto slots = world.symmetric<Vec16>("slots", slot_vectors, poison);
  auto greetings = world.symmetric<Vec16>("greetings", 3 * num_ranks, four_of(kNoGreeting));
  auto state = world.local<uint64>("state", size_t(world.shape().blocks), 0);
  std::vector<Buffer<Vec16>> inputs, outputs;
  auto value_of = [](int rank, size_t call, size_t i, int e) {
    return float(int((size_t(rank) * 7 + call * 3 + i * 5 + size_t(e)) % 17) - 8);
  };
  for (size_t call = 0; call < calls.size(); ++call) {
    inputs.push_back(world.local<Vec16>("input", max_vectors));
    outputs.push_back(world.local<Vec16>("output", max_vectors, kUntouched));
    for (int r = 0; r < ranks; ++r) {
      for (size_t i = 0; i < calls[call].size; ++i) {
        float values[Format::kElements];
        for (int e = 0; e < Format::kElements; ++e) values[e] = value_of(r, call, i, e);
        Vec16 v = Format::round(values);
        if (i == 0) v = canonical<Format>(v), v.word[0] = Format::kPoison;  // negative zeros
        inputs[call].set(r, i, v);
      }
    }
    auto input = inputs[call];
    auto output = outputs[call];
    const AllReduceCall told = calls[call];
    if (told.rows) rows.write(world, *told.rows);
    const auto args_of = [=](int r) {
      AllReduceArgs<Block> args{input.at(r), output.at(r), told.rows ? 0 : told.size,
                                max_vectors, slots.at(r),  greetings.at(r),
                                state.at(r)};
      if (told.rows) args.rows = rows.of(r, 5, 2);
      return args;
    };
    launch_call<Format>(world, call, kernel, in_two, args_of, [=](int r) {
      return SendRowsArgs<Block>{input.at(r),
                                 told.size,
                                 1,
                                 0,
                                 slots.at(r) + size_t(r) * max_vectors,
                                 num_ranks * max_vectors,
                                 state.at(r)};
    });
    if (in_two.is_read_behind(call)) outputs[call] = read_behind(world, output);
  }
  for (size_t call = 0; call < calls.size(); ++call) {
    if (!in_two.is_read_behind(call)) outputs[call] = read_behind(world, outputs[call]);
  }
  if (!world.run()) return;
  for (size_t call = 0; call < calls.size(); ++call) {
    for (int r = 0; r < ranks; ++r) {
      expect_untouched(world, outputs[call], r, calls[call].size);
      for (size_t i = 0; i < calls[call].size; ++i) {
        float got[Format::kElements] = {};
        Format::add(got, outputs[call].get(r, i));
        for (int e = 0; e < Format::kElements; ++e) {
          float want = 0;
          for (int from = 0; from < ranks; ++from) want += value_of(from, call, i, e);
          const bool was_poison = i == 0 && e < Format::kElements / 4;
          world.expect(got[e] == (was_poison ? 0.0f : want), "a sum is wrong");
        }
        const Vec16 first = outputs[call].get(0, i);
        const Vec16 own = outputs[call].get(r, i);
        for (int w = 0; w < 4; ++w) {
          world.expect(first.word[w] == own.word[w], "ranks have different bits");
        }
      }
    }
  }
}

}  // namespace stretto::fibre
