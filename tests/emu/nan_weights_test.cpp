// Weights of choices that are NaNs: they reach the tokens that have them where an expert is chosen,
// and no others, whoever plans. Every other token's result is, bit by bit, what it is without them.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "small_plans.h"

namespace stretto {
namespace {

constexpr int64_t kTokens = 22, kHidden = 72, kColumns = 288, kExperts = 8, kChosen = 2;
using Bits = std::vector<uint16_t>;  // of numbers in bf16

bool is_nan(uint16_t bf16) { return (bf16 & 0x7fff) > 0x7f80; }

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A layer's tensors by the graphs' names, whole; stacks have one matrix below the other.
struct Layer {
  Bits x, wg, wu, wd, y;
  std::vector<float> weights;
  std::vector<int32_t> ids;

  Layer() : y(kTokens * kHidden, 0) {
    uint64_t state = 1;
    const auto draw = [&state] {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<float>(state >> 40) * 0x1p-24f - 0.5f;
    };
    const auto fill = [&](Bits& of, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        of.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(draw()) >> 16));
      }
    };
    fill(x, kTokens * kHidden);
    fill(wg, kExperts * kColumns * kHidden);
    fill(wu, kExperts * kColumns * kHidden);
    fill(wd, kExperts * kHidden * kColumns);
    for (int64_t i = 0; i < kTokens * kChosen; ++i) weights.push_back(draw());
    for (int64_t at = 0; at < kTokens * kChosen; ++at) {
      ids.push_back(static_cast<int32_t>((at / kChosen * 5 + at % kChosen * 2) % kExperts));
    }
    for (const int64_t token : {4, 7}) ids[static_cast<size_t>(token * kChosen)] = -1;
  }

  float& weight(int64_t token, int64_t slot) {
    return weights[static_cast<size_t>(token * kChosen + slot)];
  }
};

// What a rank holds of a matrix of columns: blocks of columns of each row, side by side.
Bits columns_of(const Bits& whole, int64_t all, int64_t begin, int64_t end) {
  Bits part;
  for (size_t row = 0; row < whole.size(); row += static_cast<size_t>(all)) {
    part.insert(part.end(), whole.begin() + static_cast<long>(row) + begin,
                whole.begin() + static_cast<long>(row) + end);
  }
  return part;
}

// And of a stack whose matrices are dealt by rows.
Bits rows_of_each(const Bits& stack, int64_t begin, int64_t end) {
  Bits part;
  for (int64_t expert = 0; expert < kExperts; ++expert) {
    const auto first = stack.begin() + (expert * kColumns + begin) * kHidden;
    part.insert(part.end(), first, first + (end - begin) * kHidden);
  }
  return part;
}

Bits result_of(const Plan& plan, Layer layer) {
  const Operator& op = plan.op;
  std::vector<std::vector<CallTensor>> tensors;
  std::vector<Bits> parts;  // of weights that are no block of the whole
  parts.reserve(static_cast<size_t>(op.ranks) * 3);
  for (int rank = 0; rank < op.ranks; ++rank) {
    auto& of_rank = tensors.emplace_back();
    for (const CallerTensor& one : caller_tensors(op)) {
      const std::string_view name = op.tensor(one.tensor).name;
      const Slice slice = slice_of(op, one.tensor, one.held, rank);
      const auto at = [&](auto& of) {
        return reinterpret_cast<uint64_t>(of.data() + slice.row0 * slice.cols());
      };
      const auto keep = [&](Bits part) {
        return reinterpret_cast<uint64_t>(parts.emplace_back(std::move(part)).data());
      };
      const int64_t own = kColumns / op.ranks, begin = rank * own, end = begin + own;
      const bool is_cut = one.held != Held::experts;
      Bits& stack = name == "wg" ? layer.wg : layer.wu;
      of_rank.push_back(
          {name, name == "x"         ? at(layer.x)
                 : name == "ids"     ? at(layer.ids)
                 : name == "weights" ? at(layer.weights)
                 : name == "y"       ? at(layer.y)
                 : name == "wd"
                     ? is_cut ? keep(columns_of(layer.wd, kColumns, begin, end)) : at(layer.wd)
                 : is_cut ? keep(rows_of_each(stack, begin, end))
                          : at(stack)});
    }
  }
  const EmulateResult result = execute(plan, tensors);
  EXPECT_TRUE(result.finished);
  EXPECT_TRUE(result.faults.empty()) << result.faults.front().text;
  return layer.y;
}

class NanWeights : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, NanWeights, testing::Values("moe-ep", "moe-tp"), [](const auto& tested) {
  return std::string(tested.param) == "moe-ep" ? "Dealt" : "Cut";
});

TEST_P(NanWeights, ReachTheTokensThatHaveThem) {
  size_t plans = 0, by_ids = 0;
  for (const int ranks : {1, 2, 4}) {
    const Operator op = make_operator(
        GetParam(),
        {{"t", kTokens}, {"h", kHidden}, {"f", kColumns}, {"experts", kExperts}, {"k", kChosen}},
        ranks, DType::bf16);
    const Machine machine = small_machine(ranks);
    for (const OperatorSchedule& schedule : small_presets(op, machine)) {
      SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
      const Plan plan = lower(op, schedule, machine);
      Layer layer;
      const Bits right = result_of(plan, layer);
      layer.weight(1, 0) = layer.weight(12, 1) = layer.weight(21, 1) = kNan;
      layer.weight(7, 1) = kNan;  // its other slot chooses nothing
      layer.weight(4, 0) = kNan;  // that slot itself chooses nothing
      const Bits got = result_of(plan, layer);
      for (int64_t token = 0; token < kTokens; ++token) {
        const bool has_one = token == 1 || token == 12 || token == 21 || token == 7;
        for (int64_t col = 0; col < kHidden; ++col) {
          const auto i = static_cast<size_t>(token * kHidden + col);
          ASSERT_FALSE(is_nan(right[i]));
          ASSERT_TRUE(has_one ? is_nan(got[i]) : got[i] == right[i]) << token << ", " << col;
        }
      }
      ++plans;
      by_ids += plan.low_latency_collectives;
    }
  }
  EXPECT_GE(plans, 8u);
  EXPECT_GE(by_ids, 2u);  // collectives that move rows by ids
}

}  // namespace
}  // namespace stretto
