// Tables and lists that are made for tensors of later calls: with the call's addresses they are
// those that would have been made for these.
#include "tables/call_lists.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <vector>

#include "launch/rank_program.h"
#include "lower/plan_of_operator.h"
#include "stretto/call.h"
#include "stretto/schedule.h"

namespace stretto::cuda {
namespace {

struct Case {
  const char *op, *schedule;
};

void PrintTo(const Case& tested, std::ostream* out) { *out << tested.op << " " << tested.schedule; }

class CallLists : public testing::TestWithParam<Case> {};

// Of the caller's tensors stand-ins, or addresses as one of the plan's own.
BufferPlaces places_of(const Plan& plan, int viewer, bool stands_in) {
  BufferPlaces places(static_cast<size_t>(plan.ranks()));
  const std::vector<CallerTensor> tensors = caller_tensors(plan.op);
  for (size_t rank = 0; rank < places.size(); ++rank) {
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      auto& copies = places[rank].emplace_back();
      for (size_t copy = 0; copy < plan.buffers[b].copies; ++copy) {
        copies.push_back(DevicePtr{1} << 46 | rank << 42 | b << 36 | copy << 32);
      }
    }
  }
  for (size_t i = 0; stands_in && i < tensors.size(); ++i) {
    const auto buffer = plan.find_buffer(plan.op.tensor(tensors[i].tensor).name);
    places[static_cast<size_t>(viewer)][*buffer] = {stand_in(i)};
  }
  return places;
}

std::vector<CallPlace> call_of(const Plan& plan, int rank, uint64_t gap_bytes = 0) {
  std::vector<CallPlace> call;
  const BufferPlaces own = places_of(plan, rank, false);
  for (const CallerTensor& tensor : caller_tensors(plan.op)) {
    const uint16_t buffer = *plan.find_buffer(plan.op.tensor(tensor.tensor).name);
    const uint64_t bytes = row_bytes_of(plan.buffers[buffer]);
    call.push_back({own[static_cast<size_t>(rank)][buffer][0], bytes + gap_bytes, bytes,
                    plan.buffers[buffer].rows_on(rank)});
  }
  return call;
}

TEST_P(CallLists, AreThoseOfTheCallsAddresses) {
  const Plan plan = plan_of_operator(GetParam().op, GetParam().schedule);
  const auto sums = std::make_shared<const TileSums>(plan);
  const std::vector<RankProgram> programs = programs_of(plan, sums);
  const SignalLayout signals(plan, programs, true);
  size_t stood_in = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const RankProgram& program = programs[static_cast<size_t>(rank)];
    const BufferPlaces before = places_of(plan, rank, true), own = places_of(plan, rank, false);
    const std::vector<CallPlace> call = call_of(plan, rank);
    const RankTables made = tables_for(plan, rank, program, before, signals);
    const RankTables right = tables_for(plan, rank, program, own, signals);
    ASSERT_EQ(made.gemms.size(), right.gemms.size());
    for (size_t k = 0; k < made.gemms.size(); ++k) {
      ASSERT_EQ(made.gemms[k].maps.size(), right.gemms[k].maps.size());
      for (size_t i = 0; i < made.gemms[k].maps.size(); ++i) {
        stood_in += is_stand_in(made.gemms[k].maps[i].matrix.address);
        EXPECT_EQ(at_call(made.gemms[k].maps[i].matrix, call), right.gemms[k].maps[i].matrix);
      }
      const auto& follows = made.gemms[k].table.follows;
      for (size_t block = 0; block < follows.size(); ++block) {
        for (size_t i = 0; i < follows[block].size(); ++i) {
          device::GemmFollow follow = follows[block][i];
          for (auto& bias : follow.bias) bias = at_call(bias, call);
          EXPECT_EQ(0,
                    std::memcmp(&follow, &right.gemms[k].table.follows[block][i], sizeof(follow)));
        }
      }
    }
    for (size_t k = 0; k < made.moves.size(); ++k) {
      ASSERT_EQ(made.moves[k].regions.size(), right.moves[k].regions.size());
      for (size_t set = 0; set < made.moves[k].regions.size(); ++set) {
        for (size_t i = 0; i < made.moves[k].regions[set].size(); ++i) {
          const auto& region = made.moves[k].regions[set][i];
          stood_in += is_stand_in(region.address);
          EXPECT_EQ(at_call(region.address, call), right.moves[k].regions[set][i].address);
        }
      }
    }
    for (const StepStream& stream : program.streams) {
      for (const Step& step : stream.steps) {
        const Instr& instr = step.instr(plan);
        if (step.kind == StepKind::copy) {
          const auto some = transfers_of(plan, instr, before, 0),
                     all = transfers_of(plan, instr, own, 0);
          for (size_t i = 0; i < some.size(); ++i) {
            stood_in += is_stand_in(some[i].from) || is_stand_in(some[i].to);
            EXPECT_EQ(at_call(some[i], call), all[i]);
          }
        } else if (step.kind == StepKind::collective && plan.low_latency_collectives) {
          const auto one = low_latency_call(plan, step.lane, step.position, before, 0);
          stood_in += is_stand_in(one.from) || is_stand_in(one.to);
          EXPECT_EQ(at_call(one, call), low_latency_call(plan, step.lane, step.position, own, 0));
        } else if (step.kind == StepKind::collective) {
          const auto some = nccl_calls(plan, step.lane, step.position, before, 0);
          const auto all = nccl_calls(plan, step.lane, step.position, own, 0);
          for (size_t i = 0; i < some.size(); ++i) {
            stood_in += is_stand_in(some[i].from) || is_stand_in(some[i].to);
            EXPECT_EQ(at_call(some[i], call), all[i]);
          }
        }
      }
    }
  }
  EXPECT_GT(stood_in, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, CallLists,
    testing::Values(Case{"ag-gemm m=512 n=512 k=256 ranks=2 dtype=bf16", "tiles"},
                    Case{"ag-gemm m=512 n=512 k=256 ranks=4 dtype=bf16", "decomposed"},
                    Case{"gemm-rs m=512 n=512 k=256 ranks=2 dtype=bf16", "slices"},
                    Case{"gemm-rs m=512 n=512 k=256 ranks=4 dtype=bf16", "sequential"},
                    Case{"gemm-ar m=64 n=512 k=256 ranks=2 dtype=bf16", "low-latency"},
                    Case{"gemm-ar-norm m=64 n=512 k=256 ranks=2 dtype=bf16", "low-latency"},
                    Case{"mlp m=512 h=256 f=512 ranks=2 dtype=bf16", "tiles"},
                    Case{"mlp-gelu m=512 h=256 f=512 ranks=2 dtype=bf16", "tiles"},
                    Case{"gemm-rs-norm m=512 n=512 k=256 ranks=2 dtype=bf16", "tiles"}));

TEST(CallTensors, EndWithTheRowsThatThereAre) {
  const std::vector<CallPlace> call = {{0x1000, 96, 64, 5}};
  const Matrix whole{stand_in(0), 8, 32, 32, DType::bf16};
  EXPECT_EQ(at_call(whole, call), (Matrix{0x1000, 5, 32, 48, DType::bf16}));
  const Matrix behind{stand_in(0) + 64 * 6, 2, 32, 32, DType::bf16};
  EXPECT_EQ(at_call(behind, call).rows, 1);
  const Transfer transfer{stand_in(0) + 64 * 3 + 4, 0x9000, 64, 64, 8, 4};
  EXPECT_EQ(at_call(transfer, call), (Transfer{0x1000 + 96 * 3 + 4, 0x9000, 96, 64, 8, 2}));
  const Transfer none{stand_in(0) + 64 * 6, 0x9000, 64, 64, 8, 4};
  EXPECT_EQ(at_call(none, call).rows, 0u);
}

TEST(CallTensors, WhatIsOnlyMultipliedMayHaveGaps) {
  const auto without = [](const char* op, const char* schedule) {
    return tensors_without_gaps(plan_of_operator(op, schedule));
  };
  using Flags = std::vector<bool>;
  const char* const ag = "ag-gemm m=512 n=512 k=256 ranks=2 dtype=bf16";
  EXPECT_EQ(without(ag, "tiles"), (Flags{true, false, false}));        // movers push A
  EXPECT_EQ(without(ag, "decomposed"), (Flags{false, false, false}));  // copy engines do
  const char* const rs = "gemm-rs m=512 n=512 k=256 ranks=2 dtype=bf16";
  EXPECT_EQ(without(rs, "slices"), (Flags{false, false, true}));
  // A row alone has no gaps: the norm's weights.
  const char* const norm = "gemm-rs-norm m=512 n=512 k=256 ranks=2 dtype=bf16";
  EXPECT_EQ(without(norm, "tiles"), (Flags{false, false, true, false, true, true}));
  // Of x, ids, weights, wg, wu, wd and y. The kernel of experts has one map for wg and wu.
  const char* const experts = "moe-tp t=100 h=128 f=96 experts=4 k=2 ranks=1 dtype=bf16";
  EXPECT_EQ(without(experts, "sequential,permute=pass"),
            (Flags{true, true, true, false, false, false, true}));
  EXPECT_EQ(without(experts, "library,permute=pass"),
            (Flags{true, true, true, true, true, false, true}));
}

}  // namespace
}  // namespace stretto::cuda
