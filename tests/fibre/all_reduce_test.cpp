// All-reduce by sentinels, also of nothing and of less than a vector a rank: right sums, the same
// bits on all ranks, no finding over calls of several sizes.
#include "stretto/device/lang/kernels/all_reduce.h"

#include "fibre/expect_clean.h"

namespace stretto::fibre {
namespace {

using namespace stretto::device;

using Kernel = void (*)(Block&, const AllReduceArgs<Block>&);

// Five calls whose sizes differ; on integers sums are exact, so the order does not matter here.
template <class Format>
void several_calls(World& world, Kernel kernel) {
  const int ranks = world.shape().ranks;
  const auto num_ranks = static_cast<size_t>(ranks);
  const size_t max_vectors = 11;
  const size_t sizes[] = {11, 1, 7, 0, 10};
  const size_t slot_vectors = 6 * num_ranks * max_vectors;
  const Vec16 poison = four_of(Format::kPoison);
  auto slots = world.symmetric<Vec16>("slots", slot_vectors, poison);
  auto greetings = world.symmetric<Vec16>("greetings", 3 * num_ranks, four_of(kNoGreeting));
  auto state = world.local<uint64>("state", 2 * size_t(world.shape().blocks), 0);
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

TEST(AllReduce, OneShot) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, [](World& world) {
    several_calls<Bf16x8>(world, all_reduce_one_shot<Bf16x8, Block>);
  });
  expect_clean(
      {.ranks = 8, .blocks = 1, .threads = 2},
      [](World& world) { several_calls<Fp32x4>(world, all_reduce_one_shot<Fp32x4, Block>); }, 10);
}

TEST(AllReduce, TwoShot) {
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, [](World& world) {
    several_calls<Bf16x8>(world, all_reduce_two_shot<Bf16x8, Block>);
  });
  expect_clean(
      {.ranks = 8, .blocks = 1, .threads = 2},
      [](World& world) { several_calls<Fp32x4>(world, all_reduce_two_shot<Fp32x4, Block>); }, 10);
}

TEST(AllReduce, LeavesWhenARankIsAbsent) {
  for (Kernel kernel : {all_reduce_one_shot<Bf16x8, Block>, all_reduce_two_shot<Bf16x8, Block>}) {
    expect_clean({.ranks = 3, .blocks = 2, .threads = 2, .warp_size = 2}, [&](World& world) {
      world.make_absent(2);
      auto slots = world.symmetric<Vec16>("slots", 64, four_of(Bf16x8::kPoison));
      auto input = world.local<Vec16>("input", 3, Vec16{});
      auto output = world.local<Vec16>("output", 3, Vec16{});
      auto greetings = world.symmetric<Vec16>("greetings", 9, four_of(kNoGreeting));
      auto state = world.local<uint64>("state", 4, 0);
      world.launch([=](Block& block) {
        const int r = block.rank();
        kernel(block, AllReduceArgs<Block>{input.at(r), output.at(r), 3, 3, slots.at(r),
                                           greetings.at(r), state.at(r)});
      });
      if (world.run()) world.expect(world.num_expired() > 0, "nobody noticed");
    });
  }
}

TEST(AllReduce, RanksThatCallWithOtherSizesAreNamed) {
  for (Kernel kernel : {all_reduce_one_shot<Bf16x8, Block>, all_reduce_two_shot<Bf16x8, Block>}) {
    const Failure failure = expect_found(
        FindingKind::kDisagreement, {.ranks = 3, .blocks = 2, .threads = 4}, [&](World& world) {
          const auto ranks = static_cast<size_t>(world.shape().ranks);
          auto slots = world.symmetric<Vec16>("slots", 24 * ranks, four_of(Bf16x8::kPoison));
          auto greetings = world.symmetric<Vec16>("greetings", 3 * ranks, four_of(kNoGreeting));
          auto data = world.local<Vec16>("data", 4, Vec16{});
          auto state = world.local<uint64>("state", 4, 0);
          world.launch([=](Block& block) {
            const int r = block.rank();
            const uint64 size = r == 1 ? 4 : 3;
            kernel(block, AllReduceArgs<Block>{data.at(r), data.at(r), size, 4, slots.at(r),
                                               greetings.at(r), state.at(r)});
          });
          world.run();
        });
    EXPECT_NE(failure.finding.message.find("num_vectors = "), std::string::npos)
        << failure.finding.message;
  }
}

}  // namespace
}  // namespace stretto::fibre
