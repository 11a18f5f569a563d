// What every plan's lanes have in common.
#include <gmock/gmock.h>

#include <map>

#include "lower/drafts.h"

namespace stretto {
namespace {

using testing::ElementsAre;

std::map<LaneKind, int> lanes_of(const Draft& draft, int rank) {
  std::map<LaneKind, int> counts;
  for (const Lane& lane : draft.plan.lanes) {
    if (lane.rank == rank) ++counts[lane.kind];
  }
  return counts;
}

class EveryLegalSchedule : public testing::TestWithParam<ProductKind> {
 protected:
  template <typename Visit>
  void for_each(const Visit& visit) {
    const Machine machine = small_machine(3, 8);
    for (const int64_t rows : {5, 70}) {
      const Segment op{GetParam(), rows, 96, 6, 3, DType::bf16};
      for (const Schedule& schedule : legal_schedules(op, machine)) {
        SCOPED_TRACE(to_string(op) + " " + to_string(schedule));
        visit(draft_after(op, schedule, machine));
        if (HasFailure()) return;
      }
    }
  }
};

TEST_P(EveryLegalSchedule, HasNoMoreBlocksThanSmsAndNoIdleLanes) {
  for_each([](const Draft& draft) {
    for (int rank = 0; rank < 3; ++rank) {
      std::map<LaneKind, int> counts = lanes_of(draft, rank);
      EXPECT_LE(counts[LaneKind::compute] + draft.schedule.first().comm_sms, draft.plan.sms);
      EXPECT_LE(counts[LaneKind::comm], draft.schedule.first().comm_sms);
      EXPECT_LE(counts[LaneKind::nccl], 1);
    }
    for (const Lane& lane : draft.plan.lanes) {
      EXPECT_TRUE(std::any_of(lane.instrs.begin(), lane.instrs.end(), [](const Instr& instr) {
        return instr.is_task();
      })) << describe(lane);
    }
  });
}

TEST_P(EveryLegalSchedule, ListsTheLanesInTheOrderOfTheProgram) {
  for_each([](const Draft& draft) {
    std::vector<uint32_t> next(draft.plan.lanes.size(), 0);
    for (const InstrRef& ref : draft.program) EXPECT_EQ(ref.pos, next[ref.lane]++);
    for (size_t lane = 0; lane < next.size(); ++lane) {
      EXPECT_EQ(next[lane], draft.plan.lanes[lane].instrs.size());
    }
  });
}

TEST_P(EveryLegalSchedule, PutsTheSameBoundariesIntoAllComputeLanesOfARank) {
  for_each([](const Draft& draft) {
    std::map<int, std::vector<int>> of_rank;
    for (const Lane& lane : draft.plan.lanes) {
      if (lane.kind != LaneKind::compute) continue;
      std::vector<int> ids;
      for (const Instr& instr : lane.instrs) {
        if (instr.op == Opcode::boundary) ids.push_back(instr.id);
      }
      if (lane.index == 0) of_rank[lane.rank] = ids;
      EXPECT_EQ(ids, of_rank[lane.rank]) << describe(lane);
      EXPECT_TRUE(draft.schedule.first().sync == Sync::event || ids.empty());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Lower, EveryLegalSchedule, testing::Values(kAgGemm, kGemmRs, kGemmAr),
                         [](const testing::TestParamInfo<ProductKind>& test) {
                           std::string name(to_string(test.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Lanes, AreNoMoreThanThereAreTiles) {
  const Draft draft = draft_of("gemm-rs m=16 n=48 k=8 ranks=2 dtype=bf16", "sequential,tile=16x16",
                               small_machine(2, 100));
  EXPECT_EQ(lanes_of(draft, 0)[LaneKind::compute], 3);
}

TEST(Lanes, CopyEnginesHaveAQueueForTheNodeAndOneForTheNetwork) {
  const char* op = "gemm-rs m=64 n=16 k=8 ranks=4 dtype=bf16";
  const char* schedule = "decomposed,tile=16x16";
  EXPECT_EQ(lanes_of(draft_of(op, schedule, small_machine(4)), 0)[LaneKind::copy], 1);
  const Draft draft = draft_of(op, schedule, small_machine(4, 8, 2));
  for (const Task& task : tasks_of(draft, Opcode::copy)) {
    const int to = draft.plan.writes(*task.instr)[0].rank;
    EXPECT_EQ(task.lane->index, draft.machine.same_node(task.lane->rank, to) ? 0 : 1);
  }
}

TEST(Lanes, SignalsOfCopyEnginesFindAnSmBesideTilesThatWaitForThem) {
  for (const char* op :
       {"ag-gemm m=64 n=64 k=8 ranks=2 dtype=bf16", "gemm-rs m=64 n=64 k=8 ranks=2 dtype=bf16"}) {
    const auto computing = [&](const char* schedule) {
      return lanes_of(draft_of(op, schedule, small_machine(2, 4)), 0)[LaneKind::compute];
    };
    EXPECT_EQ(computing("tiles,tile=16x16,mover=copy-engine,comm-sms=0"), 3);
    EXPECT_EQ(computing("tiles,tile=16x16,mover=copy-engine,comm-sms=1"), 3);
    EXPECT_EQ(computing("decomposed,tile=16x16,comm-sms=0"), 4);  // between kernels
  }
}

TEST(Lanes, CollectivesFindAnSmBesideBlocksThatWaitForThem) {
  for (const char* op :
       {"gemm-rs m=64 n=64 k=8 ranks=2 dtype=bf16", "gemm-ar m=64 n=64 k=8 ranks=2 dtype=bf16"}) {
    const auto computing = [&](const char* schedule) {
      return lanes_of(draft_of(op, schedule, small_machine(2, 4)), 0)[LaneKind::compute];
    };
    EXPECT_EQ(computing("waves,tile=16x16,comm-sms=0"), 3);
    EXPECT_EQ(computing("sequential,tile=16x16,comm-sms=0"), 4);  // between kernels
  }
}

TEST(Lanes, OneRankHasOnlyItsGemm) {
  const Segment op{kGemmAr, 100, 100, 10, 1, DType::bf16};
  const Machine machine = small_machine(1);
  for (const Schedule& schedule : legal_schedules(op, machine)) {
    const Draft draft = draft_after(op, schedule, machine);
    EXPECT_EQ(tasks_of(draft, Opcode::gemm).size(), draft.program.size()) << to_string(schedule);
  }
}

}  // namespace
}  // namespace stretto
