// All-reduces of different sizes one after the other, with negative zeros among the data.
#pragma once

#include <cstdint>

#include "stretto/device/lang/kernels/all_reduce.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

using AllReduceKernel = void (*)(Block&, const AllReduceArgs<Block>&);

// Five calls whose sizes differ; on integers sums are exact, so the order does not matter here.
template <class Format>
void all_reduce_calls(World& world, AllReduceKernel kernel) {
  const int ranks = world.shape().ranks;
  const auto num_ranks = static_cast<size_t>(ranks);
  const size_t max_vectors = 11;
  const size_t sizes[] = {11, 1, 7, 0, 10};
  const size_t slot_vectors = 4 * num_ranks * max_vectors;
  const Vec16 poison = four_of(Format::kPoison);
  auto slots = world.symmetric<Vec16>("slots", slot_vectors, poison);
  auto greetings = world.symmetric<Vec16>("greetings", 3 * num_ranks, four_of(kNoGreeting));
  auto state = world.local<uint64>("state", size_t(world.shape().blocks), 0);
  std::vector<Buffer<Vec16>> inputs, outputs;
  auto value_of = [](int rank, size_t call, size_t i, int e) {
    return float(int((size_t(rank) * 7 + call * 3 + i * 5 + size_t(e)) % 17) - 8);
  };
  for (size_t call = 0; call < 5; ++call) {
    inputs.push_back(world.local<Vec16>("input", max_vectors));
    outputs.push_back(world.local<Vec16>("output", max_vectors));
    for (int r = 0; r < ranks; ++r) {
      for (size_t i = 0; i < sizes[call]; ++i) {
        float values[Format::kElements];
        for (int e = 0; e < Format::kElements; ++e) values[e] = value_of(r, call, i, e);
        Vec16 v = Format::round(values);
        if (i == 0) v = canonical<Format>(v), v.word[0] = Format::kPoison;  // negative zeros
        inputs[call].set(r, i, v);
      }
    }
    auto input = inputs[call];
    auto output = outputs[call];
    const uint64 size = sizes[call];
    world.launch([=](Block& block) {
      const int r = block.rank();
      kernel(block, AllReduceArgs<Block>{input.at(r), output.at(r), size, max_vectors, slots.at(r),
                                         greetings.at(r), state.at(r)});
    });
  }
  if (!world.run()) return;
  for (size_t call = 0; call < 5; ++call) {
    for (int r = 0; r < ranks; ++r) {
      for (size_t i = 0; i < sizes[call]; ++i) {
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
