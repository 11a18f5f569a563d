// Dispatch and combine of tokens to experts over several calls: every row where the reference has
// it, and the weighted sum of what the experts make of it back at its token.
#pragma once

#include <algorithm>
#include <cmath>

#include "fibre/scenarios/experts_reference.h"
#include "fibre/scenarios/read_behind.h"
#include "stretto/error.h"
#include "stretto/fibre/expert_memory.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

using namespace device;

// Which kernels are called: in turns, or one of them again and again.
enum class ExpertKernels : uint8_t { kBoth, kDispatches, kCombines };

struct ExpertCase {
  Pattern pattern = Pattern::kUniform;
  uint32 hidden = 16;
  uint32 experts = 6;
  uint32 top_k = 2;
  uint32 fp8 = 0;
  uint32 max_rows = 0;  // 0: as many as there can be
  uint32 tokens = 3;
  bool tiny = false;  // the last group of 128 of each token is so small that its scale is the least
  uint64 before = 0;  // calls that have been, of as many tokens
  const char* name = "";
  ExpertKernels kernels = ExpertKernels::kBoth;

  // Which call's dispatch is before combine in a call.
  size_t dispatched(size_t call) const { return kernels == ExpertKernels::kCombines ? 0 : call; }
};

inline constexpr uint32 kExpertCalls = 3;

inline float token_value_at(const ExpertCase& c, int rank, size_t call, size_t token,
                            size_t column) {
  const float value = float(int((size_t(rank) * 5 + call * 7 + token * 3 + column * 11) % 17) - 8);
  return c.tiny && column + kScaleGroup >= c.hidden ? value * 0x1p-126f : value;
}

// Local expert e of a rank multiplies by this.
inline float expert_factor(int rank, uint32 e) { return float(1 + (uint32(rank) + e) % 3); }

// The experts: each row times its expert's factor, as bf16.
inline void run_experts(Block& block, const ExpertMemory& m, const Buffer<Vec16>& results) {
  const int r = block.rank();
  const ExpertShape& shape = m.shape;
  for (uint32 e = 0; e < shape.experts / m.ranks; ++e) {
    const uint32 first = m.expert_offsets.at(r)[e], count = m.expert_counts.at(r)[e];
    for (uint32 row = first; row < first + count; ++row) {
      for (uint32 v = 0; v < shape.hidden / 8; ++v) {
        float values[8] = {};
        if (shape.fp8 == 0) {
          const Vec16 in = m.rows.at(r)[row * (shape.hidden / 8) + v];
          Bf16x8::add(values, in);
        } else {
          const Vec16 in = m.rows.at(r)[row * (shape.hidden / 16) + v / 2];
          const float scale = m.row_scales.at(r)[row * (shape.hidden / 128) + v / 16];
          for (uint32 i = 0; i < 8; ++i) {
            const uint32 byte = v % 2 * 8 + i;
            values[i] = e4m3_to_float(in.word[byte / 4] >> (byte % 4 * 8) & 0xffu) * scale;
          }
        }
        for (float& value : values) value *= expert_factor(r, e);
        results.at(r)[row * (shape.hidden / 8) + v] = Bf16x8::round(values);
      }
    }
  }
}

// What a token of the group's values is after fp8 and back.
inline float as_dispatched(const ExpertCase& c, int rank, size_t call, size_t token,
                           size_t column) {
  const float value = token_value_at(c, rank, call, token, column);
  if (c.fp8 == 0) return value;
  float most = kLeastOfGroup;
  for (size_t i = column / 128 * 128; i < column / 128 * 128 + 128; ++i) {
    most = std::max(most, std::abs(token_value_at(c, rank, call, token, i)));
  }
  return e4m3_to_float(e4m3_from_float(value * (448.0f / most))) * (most / 448.0f);
}

inline float as_bf16(float value) { return Bf16::widen(Bf16::round(value)); }

// An entry of a token that a rank's expert has a row of.
struct Hit {
  uint32 entry, expert;
};

// As after so many calls.
inline void begin_after(ExpertMemory& m, uint64 calls) {
  for (int r = 0; r < int(m.ranks); ++r) {
    for (uint32 b = 0; b < m.blocks; ++b) {
      const Units units = Units::of(m.shape, m.blocks, b);
      const ExpertSignals words{units, m.ranks};
      m.calls.set(r, b, BlockCalls::pack(calls, m.blocks));
      m.sum_calls.set(r, b, BlockCalls::pack(calls, m.blocks));
      for (uint32 source = 0; source < m.ranks; ++source) {
        m.signals.set(r, words.counts_of(source), calls);
        m.signals.set(r, words.part_of(source), calls * kParts);
        m.sum_signals.set(r, words.part_of(source), calls * units.workers);
      }
    }
  }
}

// Which row of a rank is which expert's.
struct RowAt {
  int rank;
  uint32 expert;
  size_t row;
};

// What the rank's expert has made of a row.
inline void check_row(World& world, const ExpertCase& c, const Buffer<Vec16>& results, size_t call,
                      const RowAt& at, const ExpectedRow& row) {
  for (size_t column = 0; column < c.hidden; ++column) {
    const float value = as_dispatched(c, int(row.source), call, row.token, column);
    float got[8] = {};
    Bf16x8::add(got, results.get(at.rank, at.row * c.hidden / 8 + column / 8));
    world.expect(got[column % 8] == as_bf16(value * expert_factor(at.rank, at.expert)),
                 "a dispatched row is wrong");
  }
}

inline void expert_calls(World& world, const ExpertCase& c) {
  const int ranks = world.shape().ranks;
  const auto num = static_cast<uint32>(ranks);
  // As many experts as asked for, but at least two of each rank.
  const uint32 experts = std::max(c.experts / num, 2u) * num;
  ExpertShape shape{c.hidden, experts, c.top_k, c.tokens, c.max_rows, 2, c.fp8};
  if (shape.max_rows == 0) shape.max_rows = num * c.tokens * c.top_k + 2 * experts;
  if (const char* why = why_illegal(shape, num)) throw UsageError(why);
  const auto threads = static_cast<uint32>(world.shape().threads);
  const auto warp = static_cast<uint32>(world.shape().warp_size);
  if (dispatch_shared_bytes(shape, num, threads, warp) > uint64(world.shape().shared_bytes)) {
    throw UsageError("dispatch needs more shared memory than the shape has");
  }
  std::vector<std::vector<Routing>> routings(kExpertCalls);
  uint32 bad_ids = 0;
  for (uint32 call = 0; call < kExpertCalls; ++call) {
    for (int r = 0; r < ranks; ++r) {
      routings[call].push_back(route(c.pattern, shape, num, r, c.dispatched(call),
                                     c.dispatched(call) == 1 ? c.tokens - 1 : c.tokens));
      for (int32_t id : routings[call].back().ids) {
        bad_ids +=
            r == 0 && c.dispatched(call) == call && (id < -1 || id >= int32_t(shape.experts));
      }
    }
  }
  ExpertMemory m(world, shape);
  if (c.before > 0) begin_after(m, c.before);
  std::vector<Buffer<Vec16>> results, outputs;
  std::vector<Buffer<uint32>> lists;
  for (uint32 call = 0; call < kExpertCalls; ++call) {
    auto input = world.local<Vec16>("input", c.tokens * c.hidden / 8);
    auto ids = world.local<int32>("ids", c.tokens * c.top_k);
    auto weights = world.local<float>("weights", c.tokens * c.top_k);
    auto tokens = world.local<uint32>("tokens", 1);
    auto output = world.local<Vec16>("output", c.tokens * c.hidden / 8);
    for (int r = 0; r < ranks; ++r) {
      const Routing& routing = routings[call][size_t(r)];
      tokens.set(r, 0, routing.tokens);
      for (size_t t = 0; t < routing.tokens; ++t) {
        for (size_t v = 0; v < c.hidden / 8; ++v) {
          float values[8];
          for (size_t i = 0; i < 8; ++i) {
            values[i] = token_value_at(c, r, c.dispatched(call), t, 8 * v + i);
          }
          input.set(r, t * c.hidden / 8 + v, Bf16x8::round(values));
        }
      }
      for (size_t i = 0; i < routing.ids.size(); ++i) {
        ids.set(r, i, routing.ids[i]);
        weights.set(r, i, routing.weights[i]);
      }
    }
    if (c.dispatched(call) == call) {
      const auto made = world.local<Vec16>("results", shape.max_rows * c.hidden / 8);
      results.push_back(made);
      world.launch([=](Block& block) {
        dispatch(block, m.dispatch_args(block.rank(), tokens, input, ids, weights));
      });
      world.launch(1, 1, [=](Block& block) { run_experts(block, m, made); });
    }
    lists.push_back(read_behind(world, m.expert_offsets));
    if (c.kernels == ExpertKernels::kDispatches) continue;
    world.launch([=, made = results.back()](Block& block) {
      combine(block, m.combine_args(block.rank(), tokens, made, output));
    });
    outputs.push_back(read_behind(world, output, [=, &routings](int r) {
      return size_t(routings[call][size_t(r)].tokens) * c.hidden / 8;
    }));
  }
  if (!world.run()) return;
  world.expect(m.problems.get(0, kIdsOutOfRange) == bad_ids, "bad ids are not counted");
  uint32 over = 0;
  for (uint32 call = 0; call < kExpertCalls; ++call) {
    // Rows that fit, by [owner][source x tokens + token], in the order of entries.
    std::vector<std::vector<std::vector<Hit>>> hits;
    for (int r = 0; r < ranks; ++r) {
      const auto rows = expected_rows(routings[call], shape, r);
      uint32 offset = 0;
      auto& own = hits.emplace_back(size_t(ranks) * c.tokens);
      for (size_t e = 0; e < rows.size(); ++e) {
        const uint32 begins = std::min(offset, shape.max_rows);
        world.expect(lists[call].get(r, e) == begins, "an expert's rows begin elsewhere");
        for (size_t i = 0; i < rows[e].size(); ++i) {
          const ExpectedRow& row = rows[e][i];
          if (c.kernels == ExpertKernels::kDispatches && offset + i < shape.max_rows) {
            check_row(world, c, results[call], call, {r, uint32(e), offset + i}, row);
          }
          if (offset + i < shape.max_rows) {
            own[size_t(row.source) * c.tokens + row.token].push_back({row.entry, uint32(e)});
          }
          over += r == 0 && c.dispatched(call) == call && offset + i >= shape.max_rows;
        }
        offset += (uint32(rows[e].size()) + 1) / 2 * 2;
      }
      for (auto& of_token : own) {
        std::sort(of_token.begin(), of_token.end(),
                  [](const Hit& a, const Hit& b) { return a.entry < b.entry; });
      }
    }
    for (int r = 0; r < ranks && c.kernels != ExpertKernels::kDispatches; ++r) {
      const Routing& routing = routings[call][size_t(r)];
      for (uint32 t = 0; t < routing.tokens; ++t) {
        for (size_t column = 0; column < c.hidden; ++column) {
          const float value = as_dispatched(c, r, c.dispatched(call), t, column);
          float want = 0;
          for (int owner = 0; owner < ranks; ++owner) {
            float sum = 0;
            for (const Hit& hit : hits[size_t(owner)][size_t(r) * c.tokens + t]) {
              sum += routing.weights[t * c.top_k + hit.entry] *
                     as_bf16(value * expert_factor(owner, hit.expert));
            }
            want += as_bf16(sum);
          }
          float got[8] = {};
          Bf16x8::add(got, outputs[call].get(r, t * c.hidden / 8 + column / 8));
          world.expect(got[column % 8] == as_bf16(want), "a combined token is wrong");
        }
      }
    }
  }
  world.expect(m.problems.get(0, kRowsOverMost) == over, "rows over the capacity are not counted");
}

}  // namespace stretto::fibre
