// Experts by teams of ranks: each expert is cut in slices, which ranks of their own have. Executed
// under every preset against the reference and proved; and what slices make adds up to what whole
// experts make.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "small_plans.h"
#include "stretto/device/routing.h"
#include "stretto/error.h"
#include "stretto/reference.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

class SlicesOn : public testing::TestWithParam<int> {};

TEST_P(SlicesOn, RanksAreProvedAndRightWhateverIsChosen) {
  const int ranks = GetParam();
  const Machine machine = small_machine(ranks, 10);
  for (const int slices : {1, 2, 4}) {
    for (const int64_t tokens : {37, 3}) {
      // So many that the last rank has fewer where ranks do not divide them.
      const Operator op = make_operator("moe-ep-slices",
                                        {{"t", tokens},
                                         {"h", 40},
                                         {"f", 8},
                                         {"experts", 2 * ranks - 1},
                                         {"k", ranks == 1 ? 1 : 2},
                                         {"slices", slices}},
                                        ranks);
      const auto reference = make_shared_reference();
      const auto schedules = small_presets(op, machine);
      EXPECT_GE(schedules.size(), ranks == 1 ? 1u : 3u);
      for (const OperatorSchedule& schedule : schedules) {
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        const Plan plan = lower(op, schedule, machine);
        expect_proved(plan);
        EXPECT_GT(simulate(plan, machine).total_us, 0);
        expect_right(plan, {.reference = reference});
        expect_right(plan, {.seed = 3, .fill = Fill::integers});
        expect_right(plan, {.seed = 2, .routing = {RoutingKind::adversarial}});
        if (HasFailure()) return;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, SlicesOn, testing::Values(1, 2, 3, 4, 8),
                         [](const auto& test) { return std::to_string(test.param); });

constexpr int64_t kTokens = 29, kHidden = 16, kColumns = 32, kExperts = 8, kChosen = 3;

// A layer's tensors, whole, by name; stacks have one matrix below the other.
struct Layer {
  std::vector<float> x, weights, wg, wu, wd;
  std::vector<int32_t> ids;

  Layer() {
    uint64_t state = 1;
    const auto draw = [&state] {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<float>(state >> 40) * 0x1p-24f - 0.5f;
    };
    const auto fill = [&draw](std::vector<float>& of, int64_t count) {
      for (int64_t i = 0; i < count; ++i) of.push_back(draw());
    };
    fill(x, kTokens * kHidden);
    fill(weights, kTokens * kChosen);
    fill(wg, kExperts * kColumns * kHidden);
    fill(wu, kExperts * kColumns * kHidden);
    fill(wd, kExperts * kHidden * kColumns);
    for (int64_t token = 0; token < kTokens; ++token) {
      for (int64_t slot = 0; slot < kChosen; ++slot) {
        const auto id = static_cast<int32_t>((token * 5 + slot * 3) % kExperts);
        ids.push_back(token % 7 == 6 && slot == 1 ? -1 : id);
      }
    }
  }
  // Rows of gate and up are cut, and columns of down.
  void cut(int64_t slices) {
    const int64_t own = kColumns / slices;
    const auto rows = [&](std::vector<float>& stack) {
      std::vector<float> cut_rows;
      for (int64_t slice = 0; slice < slices; ++slice) {
        for (int64_t expert = 0; expert < kExperts; ++expert) {
          const auto first = stack.begin() + (expert * kColumns + slice * own) * kHidden;
          cut_rows.insert(cut_rows.end(), first, first + own * kHidden);
        }
      }
      stack = std::move(cut_rows);
    };
    rows(wg);
    rows(wu);
    std::vector<float> columns;
    for (int64_t slice = 0; slice < slices; ++slice) {
      for (int64_t row = 0; row < kExperts * kHidden; ++row) {
        const auto first = wd.begin() + row * kColumns + slice * own;
        columns.insert(columns.end(), first, first + own);
      }
    }
    wd = std::move(columns);
  }
};

// By the plan of the preset, on tensors of the caller's.
std::vector<float> result_of(Layer layer, int64_t slices, int ranks) {
  Sizes sizes{{"t", kTokens},
              {"h", kHidden},
              {"f", kColumns / std::max<int64_t>(slices, 1)},
              {"experts", kExperts},
              {"k", kChosen}};
  if (slices > 0) sizes.emplace_back("slices", slices);
  const Operator op =
      make_operator(slices > 0 ? "moe-ep-slices" : "moe-ep", sizes, ranks, DType::fp32);
  const Machine machine = small_machine(ranks);
  const Plan plan = lower(op, small_presets(op, machine).back(), machine);
  if (slices > 0) layer.cut(slices);
  std::vector<float> y(static_cast<size_t>(kTokens * kHidden), 0);
  std::vector<std::vector<CallTensor>> tensors;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& of_rank = tensors.emplace_back();
    for (const CallerTensor& one : caller_tensors(op)) {
      const Tensor& tensor = op.tensor(one.tensor);
      const Slice slice = slice_of(op, one.tensor, one.held, rank);
      const auto at = [&](auto& of) {
        return reinterpret_cast<uint64_t>(of.data() + slice.row0 * slice.cols());
      };
      const uint64_t address = tensor.name == "x"         ? at(layer.x)
                               : tensor.name == "ids"     ? at(layer.ids)
                               : tensor.name == "weights" ? at(layer.weights)
                               : tensor.name == "wg"      ? at(layer.wg)
                               : tensor.name == "wu"      ? at(layer.wu)
                               : tensor.name == "wd"      ? at(layer.wd)
                                                          : at(y);
      of_rank.push_back({tensor.name, address});
    }
  }
  const EmulateResult result = execute(plan, tensors);
  EXPECT_TRUE(result.finished && result.faults.empty());
  return y;
}

TEST(Slices, AddUpToWholeExperts) {
  const Layer layer;
  const std::vector<float> whole = result_of(layer, 0, 4);
  const float largest = *std::max_element(whole.begin(), whole.end());
  EXPECT_GT(largest, 0.01f);
  for (const auto& [slices, ranks] :
       {std::pair{1, 4}, {2, 4}, {4, 4}, {2, 8}, {4, 8}, {8, 8}, {2, 3}}) {
    SCOPED_TRACE(std::to_string(slices) + " slices, " + std::to_string(ranks) + " ranks");
    const std::vector<float> cut = result_of(layer, slices, ranks);
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(cut[i], whole[i], 1e-6f * 40);
  }
}

TEST(Slices, OfNoExpertAreBadOnce) {
  EXPECT_EQ(device::number_of_slice(5, 8, 0), 5);
  EXPECT_EQ(device::number_of_slice(5, 8, 3), 29);
  EXPECT_EQ(device::number_of_slice(-1, 8, 0), -1);
  EXPECT_EQ(device::number_of_slice(-1, 8, 1), -1);
  for (const int32_t bad : {8, 29, -2, -2147483647 - 1, 2147483647}) {
    EXPECT_EQ(device::number_of_slice(bad, 8, 0), -2);
    EXPECT_EQ(device::number_of_slice(bad, 8, 1), -1);
  }
}

std::string refusal(const Sizes& sizes, int ranks) {
  try {
    make_operator("moe-ep-slices", sizes, ranks);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Slices, ThatCannotBeAreRefused) {
  const auto sizes = [](int64_t experts, int64_t slices) {
    return Sizes{{"t", 9}, {"h", 16}, {"f", 8}, {"experts", experts}, {"k", 2}, {"slices", slices}};
  };
  EXPECT_THAT(refusal(sizes(8, 2), 5),
              testing::HasSubstr("16 matrices of wg are dealt to 5 ranks in blocks of 4, which "
                                 "leaves none for the last: take experts=7 or 9"));
  EXPECT_THAT(refusal(sizes(kMaxDim, 8), 2),
              testing::HasSubstr("slices*experts is 8589934592; an extent must be between 1 and "
                                 "1073741824"));
  EXPECT_THAT(refusal(sizes(1, 4), 2), testing::HasSubstr("chooses"));
  // Slices there are enough of, and experts not.
  const auto graph = parse_graph(
      "graph more t h\ninput x [t, h] rows\ninput ids [t, 4] rows i32\n"
      "input weights [t, 4] rows fp32\ninput wg [24, h, h] experts\n"
      "input wd [24, h, h] experts\nn = slice_ids ids experts=3 slices=2\n"
      "s = slice_weights weights slices=2\ng = grouped x wg n\nd = grouped g wd n\n"
      "y = weigh d n s\noutput y rows\n");
  try {
    make_graph(graph, {{"t", 7}, {"h", 16}}, 2, DType::bf16);
    ADD_FAILURE() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("each row of ids chooses 4 of 3 experts: take at most 3"));
  }
}

}  // namespace
}  // namespace stretto
