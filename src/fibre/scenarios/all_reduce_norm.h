// All-reduce, residual and RMSNorm over calls with different numbers of tokens: the residual exact
// on integers, the norm within its bound, the same bits on all ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "fibre/scenarios/in_two.h"
#include "fibre/scenarios/read_behind.h"
#include "stretto/device/lang/kernels/all_reduce_norm.h"
#include "stretto/device/lang/kernels/scatter_norm_gather.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

enum class NormKernel { kOneShot, kOneShotInTwo, kTwoShot, kTwoShotOwnRows, kScatterGather };

inline constexpr size_t kNormRow = 2;  // vectors
inline constexpr size_t kNormColumns = kNormRow * 8;
inline constexpr size_t kNormTokens = 7;
inline constexpr size_t kTokensOfCalls[] = {7, 1, 0, 4, 6};
inline constexpr float kNormEpsilon = 1e-5f;
inline constexpr float kNormScale = 0.25f;

inline float norm_input_at(int rank, size_t call, size_t token, size_t column) {
  return float(int((size_t(rank) * 5 + call * 7 + token * 3 + column * 11) % 19) - 9);
}
inline float norm_residual_at(size_t token, size_t column) {
  return float(int((token * 13 + column * 5) % 23) - 11);
}
inline float norm_weight_at(size_t column) { return 0.5f + float(column % 4) * 0.25f; }

template <class At>
Vec16 vector_of(At at, size_t first) {
  float values[8];
  for (size_t e = 0; e < 8; ++e) values[e] = at(first + e);
  return Bf16x8::round(values);
}

struct NormCall {
  Buffer<Vec16> input, output;
};

inline size_t first_own_row(size_t rank, size_t ranks, size_t tokens) {
  return std::min(tokens, (tokens + ranks - 1) / ranks * rank);
}

struct NormMemory {
  Buffer<Vec16> slots, greetings, residual, weight, symmetric_output;
  Buffer<uint64> arrived, done, state;
  Buffer<float> scale;
};

// What ranks must agree on.
struct NormSizes {
  NormKernel how;
  bool fp8;
  uint64 tokens;
  uint64 row_vectors = kNormRow;
  uint64 max_tokens = kNormTokens;
  uint64 rows_per_chunk = 2;
};

inline void norm_rows(Block& block, const NormSizes& sizes, const NormMemory& m,
                      const NormCall& call, Buffer<Vec16> new_residual) {
  const int r = block.rank();
  const NormArgs<Block> norm{m.weight.at(r), sizes.fp8 ? m.scale.at(r) : nullptr, kNormEpsilon};
  if (sizes.how == NormKernel::kScatterGather) {
    scatter_norm_gather(
        block, ScatterNormGatherArgs<Block>{
                   call.input.at(r), m.residual.at(r), new_residual.at(r), call.output.at(r), norm,
                   sizes.tokens, sizes.row_vectors, sizes.max_tokens, sizes.rows_per_chunk,
                   m.slots.at(r), m.arrived.at(r), m.done.at(r), m.greetings.at(r), m.state.at(r)});
    return;
  }
  AllReduceNormArgs<Block> args{
      call.input.at(r), m.residual.at(r),  new_residual.at(r), call.output.at(r), norm,
      sizes.tokens,     sizes.row_vectors, sizes.max_tokens,   m.slots.at(r),     m.greetings.at(r),
      m.state.at(r)};
  if (sizes.how == NormKernel::kOneShot) {
    all_reduce_norm_one_shot(block, args);
  } else if (sizes.how == NormKernel::kOneShotInTwo) {
    args.input = nullptr;
    all_reduce_norm_one_shot<Block, kBatch, SentBy::kBefore>(block, args);
  } else if (sizes.how == NormKernel::kTwoShotOwnRows) {
    all_reduce_norm_own_rows(block, OwnRowsNormArgs<Block>{args});
  } else {
    all_reduce_norm_two_shot(block, args);
  }
}

inline void check_norm_row(World& world, const NormCall& call, size_t number, int rank,
                           size_t token, bool fp8) {
  double h[kNormColumns], squares = 0;
  for (size_t c = 0; c < kNormColumns; ++c) {
    h[c] = norm_residual_at(token, c);
    for (int r = 0; r < world.shape().ranks; ++r) h[c] += norm_input_at(r, number, token, c);
    squares += h[c] * h[c];
  }
  for (size_t c = 0; c < kNormColumns; ++c) {
    const double want = h[c] / std::sqrt(squares / kNormColumns + kNormEpsilon) * norm_weight_at(c);
    double got = 0;
    if (fp8) {
      const size_t byte = token * kNormColumns + c;
      const uint32 word = call.output.get(rank, byte / 16).word[byte % 16 / 4];
      got = double(e4m3_to_float(word >> (byte % 4 * 8) & 0xffu)) * double(kNormScale);
      world.expect(std::abs(got - want) <= std::abs(want) / 15 + 1e-3, "an fp8 norm is wrong");
    } else {
      float values[8] = {};
      Bf16x8::add(values, call.output.get(rank, token * kNormRow + c / 8));
      got = double(values[c % 8]);
      world.expect(std::abs(got - want) <= std::abs(want) / 250 + 1e-6, "a norm is wrong");
    }
  }
}

inline NormMemory norm_memory(World& world, NormKernel how) {
  const auto ranks = static_cast<size_t>(world.shape().ranks);
  const auto blocks = static_cast<size_t>(world.shape().blocks);
  const Vec16 poison = four_of(Bf16x8::kPoison);
  const size_t slot_vectors = 4 * ranks * kNormTokens * kNormRow;
  return {how == NormKernel::kScatterGather ? world.symmetric<Vec16>("slots", slot_vectors)
                                            : world.symmetric<Vec16>("slots", slot_vectors, poison),
          world.symmetric<Vec16>("greetings", 3 * ranks, four_of(kNoGreeting)),
          world.local<Vec16>("residual", kNormTokens * kNormRow),
          world.local<Vec16>("weight", kNormRow),
          world.symmetric<Vec16>("output", kNormTokens * kNormRow),
          world.symmetric<uint64>("arrived", ranks * kNormTokens, 0),
          world.symmetric<uint64>("done", ranks * kNormTokens, 0),
          world.local<uint64>("state", blocks, 0),
          world.local<float>("scale", 1, kNormScale)};
}

inline void all_reduce_norm_calls(World& world, NormKernel how, bool fp8) {
  const auto ranks = static_cast<size_t>(world.shape().ranks);
  const bool own_rows = how == NormKernel::kTwoShotOwnRows || how == NormKernel::kScatterGather;
  NormMemory m = norm_memory(world, how);
  std::vector<NormCall> calls;
  std::vector<Buffer<Vec16>> residuals;
  for (int r = 0; r < world.shape().ranks; ++r) {
    for (size_t v = 0; v < kNormRow; ++v) m.weight.set(r, v, vector_of(norm_weight_at, 8 * v));
  }
  for (size_t number = 0; number < std::size(kTokensOfCalls); ++number) {
    const size_t tokens = kTokensOfCalls[number];
    // Each call has a residual of its own, so that results can be looked at afterwards.
    m.residual = world.local<Vec16>("residual", kNormTokens * kNormRow);
    residuals.push_back(m.residual);
    calls.push_back({world.local<Vec16>("input", kNormTokens * kNormRow),
                     how == NormKernel::kScatterGather
                         ? world.symmetric<Vec16>("output", kNormTokens * kNormRow)
                         : world.local<Vec16>("output", kNormTokens * kNormRow)});
    for (int r = 0; r < world.shape().ranks; ++r) {
      const size_t first = own_rows ? first_own_row(size_t(r), ranks, tokens) : 0;
      const size_t end = own_rows ? first_own_row(size_t(r) + 1, ranks, tokens) : tokens;
      for (size_t t = 0; t < tokens; ++t) {
        for (size_t v = 0; v < kNormRow; ++v) {
          calls.back().input.set(
              r, t * kNormRow + v,
              vector_of([&](size_t c) { return norm_input_at(r, number, t, c); }, 8 * v));
          if (t < first || t >= end) continue;
          m.residual.set(r, (t - first) * kNormRow + v,
                         vector_of([&](size_t c) { return norm_residual_at(t, c); }, 8 * v));
        }
      }
    }
    const auto takes_part = [=, call = calls.back()](Block& block) {
      norm_rows(block, {how, fp8, tokens}, m, call, m.residual);
    };
    if (how == NormKernel::kOneShotInTwo) {
      world.launch_early([=, call = calls.back()](Block& block) {
        const auto r = block.rank();
        send_rows<Bf16x8>(block,
                          SendRowsArgs<Block>{call.input.at(r), tokens, kNormRow, 0,
                                              m.slots.at(r) + size_t(r) * kNormTokens * kNormRow,
                                              ranks * kNormTokens * kNormRow, m.state.at(r)});
      });
      world.launch_early(takes_part);
    } else {
      world.launch(takes_part);
    }
    calls.back().output = read_behind(world, calls.back().output,
                                      [=](int) { return tokens * kNormRow / (fp8 ? 2 : 1); });
    residuals.back() = read_behind(world, m.residual, [=](int r) {
      const size_t first = first_own_row(size_t(r), ranks, tokens);
      const size_t end = first_own_row(size_t(r) + 1, ranks, tokens);
      return (own_rows ? end - first : tokens) * kNormRow;
    });
  }
  if (!world.run()) return;
  for (size_t number = 0; number < calls.size(); ++number) {
    const size_t tokens = kTokensOfCalls[number];
    for (int r = 0; r < world.shape().ranks; ++r) {
      for (size_t t = 0; t < tokens; ++t) {
        check_norm_row(world, calls[number], number, r, t, fp8);
        for (size_t v = 0; v < kNormRow / (fp8 ? 2 : 1); ++v) {
          const size_t at = t * (kNormRow / (fp8 ? 2 : 1)) + v;
          for (int w = 0; w < 4; ++w) {
            world.expect(
                calls[number].output.get(r, at).word[w] == calls[number].output.get(0, at).word[w],
                "ranks have different bits");
          }
        }
        const size_t first = own_rows ? first_own_row(size_t(r), ranks, tokens) : 0;
        if (own_rows && (t < first || t >= first_own_row(size_t(r) + 1, ranks, tokens))) continue;
        for (size_t c = 0; c < kNormColumns; ++c) {
          float want = norm_residual_at(t, c), got[8] = {};
          for (int from = 0; from < world.shape().ranks; ++from) {
            want += norm_input_at(from, number, t, c);
          }
          Bf16x8::add(got, residuals[number].get(r, (t - first) * kNormRow + c / 8));
          world.expect(got[c % 8] == want, "a residual is wrong");
        }
      }
    }
  }
}

// One call, for which `change` makes rank 1's arguments of those of all.
template <class Change>
void one_norm(World& world, NormKernel how, Change change) {
  const Vec16 zeros{};
  NormMemory m = norm_memory(world, how);
  m.residual = world.local<Vec16>("residual", kNormTokens * kNormRow, zeros);
  m.weight = world.local<Vec16>("weight", kNormRow, zeros);
  const bool gathers = how == NormKernel::kScatterGather;
  const NormCall call{world.local<Vec16>("input", kNormTokens * kNormRow, zeros),
                      gathers ? world.symmetric<Vec16>("output", kNormTokens * kNormRow)
                              : world.local<Vec16>("output", kNormTokens * kNormRow)};
  world.launch([=](Block& block) {
    NormSizes sizes{how, false, 4};
    if (block.rank() == 1) change(sizes);
    norm_rows(block, sizes, m, call, m.residual);
  });
  world.run();
}

}  // namespace stretto::fibre
