// All-reduce + residual + RMSNorm in its three kernels: the residual exact on integers, the norm
// within its bound, the same bits on all ranks, over calls with different numbers of tokens.
#include <cmath>

#include "fibre/expect_clean.h"
#include "stretto/device/lang/kernels/scatter_norm_gather.h"

namespace stretto::fibre {
namespace {

using namespace stretto::device;

enum class How { kOneShot, kTwoShot, kTwoShotOwnRows, kScatterGather };

constexpr size_t kRow = 2;  // vectors
constexpr size_t kColumns = kRow * 8;
constexpr size_t kMaxTokens = 7;
constexpr size_t kTokens[] = {7, 1, 0, 4, 6};
constexpr float kEpsilon = 1e-5f;
constexpr float kScale = 0.25f;

float input_at(int rank, size_t call, size_t token, size_t column) {
  return float(int((size_t(rank) * 5 + call * 7 + token * 3 + column * 11) % 19) - 9);
}
float residual_at(size_t token, size_t column) {
  return float(int((token * 13 + column * 5) % 23) - 11);
}
float weight_at(size_t column) { return 0.5f + float(column % 4) * 0.25f; }

template <class At>
Vec16 vector_of(At at, size_t first) {
  float values[8];
  for (size_t e = 0; e < 8; ++e) values[e] = at(first + e);
  return Bf16x8::round(values);
}

struct Call {
  Buffer<Vec16> input, output;
};

size_t first_of(size_t rank, size_t ranks, size_t tokens) {
  return std::min(tokens, (tokens + ranks - 1) / ranks * rank);
}

struct Memory {
  Buffer<Vec16> slots, greetings, residual, weight, symmetric_output;
  Buffer<uint64> arrived, done, state;
  Buffer<float> scale;
};

void launch_call(World& world, How how, bool fp8, size_t tokens, const Memory& m, const Call& call,
                 Buffer<Vec16> new_residual) {
  world.launch([=](Block& block) {
    const int r = block.rank();
    const NormArgs<Block> norm{m.weight.at(r), fp8 ? m.scale.at(r) : nullptr, kEpsilon};
    if (how == How::kScatterGather) {
      scatter_norm_gather(
          block, ScatterNormGatherArgs<Block>{call.input.at(r), m.residual.at(r),
                                              new_residual.at(r), call.output.at(r), norm, tokens,
                                              kRow, kMaxTokens, 2, m.slots.at(r), m.arrived.at(r),
                                              m.done.at(r), m.greetings.at(r), m.state.at(r)});
      return;
    }
    const AllReduceNormArgs<Block> args{call.input.at(r),
                                        m.residual.at(r),
                                        new_residual.at(r),
                                        call.output.at(r),
                                        norm,
                                        tokens,
                                        kRow,
                                        kMaxTokens,
                                        how == How::kTwoShotOwnRows,
                                        m.slots.at(r),
                                        m.greetings.at(r),
                                        m.state.at(r)};
    if (how == How::kOneShot) {
      all_reduce_norm_one_shot(block, args);
    } else {
      all_reduce_norm_two_shot(block, args);
    }
  });
}

void check_row(World& world, const Call& call, size_t number, int rank, size_t token, bool fp8) {
  double h[kColumns], squares = 0;
  for (size_t c = 0; c < kColumns; ++c) {
    h[c] = residual_at(token, c);
    for (int r = 0; r < world.shape().ranks; ++r) h[c] += input_at(r, number, token, c);
    squares += h[c] * h[c];
  }
  for (size_t c = 0; c < kColumns; ++c) {
    const double want = h[c] / std::sqrt(squares / kColumns + kEpsilon) * weight_at(c);
    double got = 0;
    if (fp8) {
      const size_t byte = token * kColumns + c;
      const uint32 word = call.output.get(rank, byte / 16).word[byte % 16 / 4];
      got = double(e4m3_to_float(word >> (byte % 4 * 8) & 0xffu)) * double(kScale);
      world.expect(std::abs(got - want) <= std::abs(want) / 15 + 1e-3, "an fp8 norm is wrong");
    } else {
      float values[8] = {};
      Bf16x8::add(values, call.output.get(rank, token * kRow + c / 8));
      got = double(values[c % 8]);
      world.expect(std::abs(got - want) <= std::abs(want) / 250 + 1e-6, "a norm is wrong");
    }
  }
}

void several_calls(World& world, How how, bool fp8) {
  const auto ranks = static_cast<size_t>(world.shape().ranks);
  const bool own_rows = how == How::kTwoShotOwnRows || how == How::kScatterGather;
  const size_t blocks = static_cast<size_t>(world.shape().blocks);
  const Vec16 poison = four_of(Bf16x8::kPoison);
  const size_t slot_vectors = 6 * ranks * kMaxTokens * kRow;
  Memory m{how == How::kScatterGather ? world.symmetric<Vec16>("slots", slot_vectors)
                                      : world.symmetric<Vec16>("slots", slot_vectors, poison),
           world.symmetric<Vec16>("greetings", 3 * ranks, four_of(kNoGreeting)),
           world.local<Vec16>("residual", kMaxTokens * kRow),
           world.local<Vec16>("weight", kRow),
           world.symmetric<Vec16>("output", kMaxTokens * kRow),
           world.symmetric<uint64>("arrived", ranks * kMaxTokens, 0),
           world.symmetric<uint64>("done", ranks * kMaxTokens, 0),
           world.local<uint64>("state", 2 * blocks, 0),
           world.local<float>("scale", 1, kScale)};
  std::vector<Call> calls;
  std::vector<Buffer<Vec16>> residuals;
  for (int r = 0; r < world.shape().ranks; ++r) {
    for (size_t v = 0; v < kRow; ++v) m.weight.set(r, v, vector_of(weight_at, 8 * v));
  }
  for (size_t number = 0; number < std::size(kTokens); ++number) {
    const size_t tokens = kTokens[number];
    // Each call has a residual of its own, so that results can be looked at afterwards.
    m.residual = world.local<Vec16>("residual", kMaxTokens * kRow);
    residuals.push_back(m.residual);
    calls.push_back({world.local<Vec16>("input", kMaxTokens * kRow),
                     how == How::kScatterGather
                         ? world.symmetric<Vec16>("output", kMaxTokens * kRow)
                         : world.local<Vec16>("output", kMaxTokens * kRow)});
    for (int r = 0; r < world.shape().ranks; ++r) {
      const size_t first = own_rows ? first_of(size_t(r), ranks, tokens) : 0;
      const size_t end = own_rows ? first_of(size_t(r) + 1, ranks, tokens) : tokens;
      for (size_t t = 0; t < tokens; ++t) {
        for (size_t v = 0; v < kRow; ++v) {
          calls.back().input.set(
              r, t * kRow + v,
              vector_of([&](size_t c) { return input_at(r, number, t, c); }, 8 * v));
          if (t < first || t >= end) continue;
          m.residual.set(r, (t - first) * kRow + v,
                         vector_of([&](size_t c) { return residual_at(t, c); }, 8 * v));
        }
      }
    }
    launch_call(world, how, fp8, tokens, m, calls.back(), m.residual);
  }
  if (!world.run()) return;
  for (size_t number = 0; number < calls.size(); ++number) {
    const size_t tokens = kTokens[number];
    for (int r = 0; r < world.shape().ranks; ++r) {
      for (size_t t = 0; t < tokens; ++t) {
        check_row(world, calls[number], number, r, t, fp8);
        for (size_t v = 0; v < kRow / (fp8 ? 2 : 1); ++v) {
          const size_t at = t * (kRow / (fp8 ? 2 : 1)) + v;
          for (int w = 0; w < 4; ++w) {
            world.expect(
                calls[number].output.get(r, at).word[w] == calls[number].output.get(0, at).word[w],
                "ranks have different bits");
          }
        }
        const size_t first = own_rows ? first_of(size_t(r), ranks, tokens) : 0;
        if (own_rows && (t < first || t >= first_of(size_t(r) + 1, ranks, tokens))) continue;
        for (size_t c = 0; c < kColumns; ++c) {
          float want = residual_at(t, c), got[8] = {};
          for (int from = 0; from < world.shape().ranks; ++from) {
            want += input_at(from, number, t, c);
          }
          Bf16x8::add(got, residuals[number].get(r, (t - first) * kRow + c / 8));
          world.expect(got[c % 8] == want, "a residual is wrong");
        }
      }
    }
  }
}

class AllReduceNorm : public testing::TestWithParam<std::tuple<How, bool>> {};

TEST_P(AllReduceNorm, CallAfterCall) {
  const auto [how, fp8] = GetParam();
  auto scenario = [how = how, fp8 = fp8](World& world) { several_calls(world, how, fp8); };
  expect_clean({.ranks = 3, .blocks = 2, .threads = 4}, scenario, 30);
  expect_clean({.ranks = 5, .blocks = 1, .threads = 2, .warp_size = 2}, scenario, 10);
  expect_clean({.ranks = 2, .blocks = 3, .threads = 1, .warp_size = 1}, scenario, 10);
}

std::string name_of(const testing::TestParamInfo<std::tuple<How, bool>>& of) {
  constexpr const char* kNames[] = {"OneShot", "TwoShot", "TwoShotOwnRows", "ScatterGather"};
  return std::string(kNames[int(std::get<0>(of.param))]) + (std::get<1>(of.param) ? "Fp8" : "Bf16");
}

INSTANTIATE_TEST_SUITE_P(All, AllReduceNorm,
                         testing::Combine(testing::Values(How::kOneShot, How::kTwoShot,
                                                          How::kTwoShotOwnRows,
                                                          How::kScatterGather),
                                          testing::Bool()),
                         name_of);

}  // namespace
}  // namespace stretto::fibre
