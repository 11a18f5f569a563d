// Routers on GPUs: their plans are accepted, and what tables of kernels say makes, row by row on
// the host, the choices and weights of the scores that lie in the plan's buffers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "lower/plan_of_operator.h"
#include "routed_memory.h"
#include "stretto/device/mover_router.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

TEST(RouterPlans, AreAccepted) {
  for (const std::string op : {"moe-ep-router t=203 h=512 f=192 experts=12 k=3",
                               "moe-ep-slices t=203 h=512 f=192 experts=12 k=3 slices=2",
                               "moe-ep-router t=3 h=64 f=64 experts=8 k=8",
                               "moe-tp-router t=203 h=512 f=384 experts=12 k=3",
                               "moe-ep-router-groups t=203 h=512 f=192 experts=16 k=4 groups=4 "
                               "best=2"}) {
    for (const std::string schedule : {"sequential", "tiles", "slices"}) {
      for (const int ranks : {1, 2, 4}) {
        const std::string whole = fmt::format("{} ranks={} dtype=bf16", op, ranks);
        EXPECT_EQ(join(why_not_on_cuda(plan_of_operator(whole, schedule)), "; "), "")
            << whole << " " << schedule;
      }
    }
  }
}

class RouterTables : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    , RouterTables,
    testing::Values("moe-ep-router t=45 h=64 f=64 experts=12 k=5 ranks=2",
                    "moe-ep-router t=7 h=64 f=64 experts=8 k=8 ranks=3",
                    "moe-ep-router-groups t=45 h=64 f=64 experts=16 k=4 groups=4 best=2 ranks=2"));

// A score of every token and expert, whole numbers so that some are equal.
float score_of(int32_t token, int32_t expert) {
  return static_cast<float>((token * 7 + expert * expert * 3) % 9 - 4);
}
float bias_of(int32_t expert) { return static_cast<float>(expert % 3) / 8; }

TEST_P(RouterTables, MakeChoicesAndWeightsOfTheirRows) {
  const RoutedMemory memory(GetParam(), "tiles");
  const Plan& plan = memory.plan;
  int seen = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    memory.each_routed(rank, [&](const Instr& instr, const device::MoverTask& task,
                                 const device::RoutedTask& routed, const MoverTable& table) {
      if (!device::is_router(routed.kind)) return;
      ++seen;
      const auto reads = plan.reads(instr);
      const Region& to = plan.writes(instr)[0];
      const int32_t experts = reads[0].cols();
      const auto put = [&](const Region& region, int32_t row, int32_t col, float value) {
        *reinterpret_cast<float*>(memory.address(region, row, col, 0)) = value;
      };
      for (int32_t row = 0; row < to.rows(); ++row) {
        const int32_t token = memory.first_token(to) + row;
        for (int32_t i = 0; i < experts; ++i) put(reads[0], row, i, score_of(token, i));
      }
      const bool is_biased = instr.op == Opcode::biased_top_k;
      for (int32_t i = 0; is_biased && i < experts; ++i) put(reads[1], 0, i, bias_of(i));
      const device::MoverRegion* const regions = table.regions[0].data() + task.first_region;
      for (uint32_t row = 0; row < task.rows; ++row) {
        device::RouterRow(task, routed, regions, row).make<0>(device::OneLane{});
      }
      ASSERT_EQ(task.rows, static_cast<uint32_t>(to.rows()));
      for (int32_t row = 0; row < to.rows(); ++row) {
        const int32_t token = memory.first_token(to) + row;
        const auto counted = [&](int32_t i) {
          const float score = score_of(token, i);
          return is_biased ? device::detail::sigmoid(score) + bias_of(i) : score;
        };
        if (instr.op == Opcode::softmax_gate || instr.op == Opcode::sigmoid_gate) {
          double sum = 0;
          for (int32_t slot = 0; slot < to.cols(); ++slot) {
            sum += *reinterpret_cast<const float*>(memory.address(to, row, slot, 0));
          }
          EXPECT_NEAR(sum, instr.attribute(), 1e-5);
          continue;
        }
        for (int32_t slot = 0; slot < to.cols(); ++slot) {
          const int32_t id = memory.number(to, row, slot, 0);
          ASSERT_TRUE(id >= 0 && id < experts) << id;
          if (slot == 0) continue;
          const int32_t before = memory.number(to, row, slot - 1, 0);
          EXPECT_TRUE(counted(before) > counted(id) ||
                      (counted(before) == counted(id) && before < id))
              << token << ": " << before << " " << id;
        }
        // Of all groups none that is left out is ahead of the last.
        if (instr.count(0) > 1) continue;
        const int32_t last = memory.number(to, row, to.cols() - 1, 0);
        int32_t ahead = 0;
        for (int32_t i = 0; i < experts; ++i) {
          ahead += counted(i) > counted(last) || (counted(i) == counted(last) && i <= last);
        }
        EXPECT_EQ(ahead, to.cols());
      }
    });
  }
  EXPECT_GT(seen, 2);
}

// Ids and weights that lie in the plan's buffers, of which some ids are no expert's.
TEST(SliceTables, MakeNumbersAndWeightsOfTheirRows) {
  const RoutedMemory memory("moe-ep-slices t=45 h=64 f=64 experts=12 k=5 slices=3 ranks=2",
                            "tiles");
  const Plan& plan = memory.plan;
  const auto id_of = [](int32_t token, int32_t slot) { return (token * 5 + slot * 3) % 16 - 2; };
  const auto weight_of = [](int32_t token, int32_t slot) {
    return static_cast<float>(token) + static_cast<float>(slot) / 8;
  };
  int rows = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    memory.each_routed(rank, [&](const Instr& instr, const device::MoverTask& task,
                                 const device::RoutedTask& routed, const MoverTable& table) {
      const bool are_ids = instr.op == Opcode::slice_ids;
      if (!are_ids && instr.op != Opcode::slice_weights) return;
      EXPECT_TRUE(device::is_router(routed.kind));
      const Region &from = plan.reads(instr)[0], &to = plan.writes(instr)[0];
      rows += to.rows();
      for (int32_t row = 0; row < to.rows(); ++row) {
        const int32_t token = memory.first_token(to) + row;
        for (int32_t slot = 0; slot < from.cols(); ++slot) {
          const auto place = memory.address(from, row, slot, 0);
          if (are_ids) {
            *reinterpret_cast<int32_t*>(place) = id_of(token, slot);
          } else {
            *reinterpret_cast<float*>(place) = weight_of(token, slot);
          }
        }
      }
      const device::MoverRegion* const regions = table.regions[0].data() + task.first_region;
      ASSERT_EQ(task.rows, static_cast<uint32_t>(to.rows()));
      for (uint32_t row = 0; row < task.rows; ++row) {
        device::RouterRow(task, routed, regions, row).make(device::OneLane{});
      }
      for (int32_t row = 0; row < to.rows(); ++row) {
        const int32_t token = memory.first_token(to) + row;
        for (int32_t i = 0; i < to.cols(); ++i) {
          const int32_t slot = i / 3, slice = i % 3, id = id_of(token, slot);
          if (!are_ids) {
            EXPECT_EQ(*reinterpret_cast<const float*>(memory.address(to, row, i, 0)),
                      weight_of(token, slot));
            continue;
          }
          const bool is_expert = id >= 0 && id < 12;
          EXPECT_EQ(memory.number(to, row, i, 0), is_expert               ? slice * 12 + id
                                                  : id == -1 || slice > 0 ? -1
                                                                          : -2);
        }
      }
    });
  }
  EXPECT_EQ(rows, 2 * 45);
}

}  // namespace
}  // namespace stretto::cuda
