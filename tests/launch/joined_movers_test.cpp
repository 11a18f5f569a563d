// Which comm lanes are blocks of the GEMM kernel, and that tables and kernels follow.
#include "launch/joined_movers.h"

#include <gtest/gtest.h>

#include <map>

#include "launch/signal_layout.h"
#include "lower/plan_of_operator.h"
#include "plan_fixture.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "tables/kernel_set.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

std::vector<RankProgram> programs(const std::string& op, const std::string& schedule) {
  return programs_of(plan_of(op, schedule));
}

bool joins(const std::string& op, const std::string& schedule) {
  const std::vector<RankProgram> all = programs(op, schedule);
  for (const RankProgram& program : all) {
    EXPECT_EQ(program.joins(), all.front().joins());
    const bool has_stream = program.streams.size() == 2;
    EXPECT_NE(program.joins(), has_stream);
  }
  return all.front().joins();
}

TEST(JoinedMovers, AreThoseOfGathersInWholeVectors) {
  EXPECT_TRUE(joins("ag-gemm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,comm-sms=4"));
  EXPECT_TRUE(joins("ag-gemm m=515 n=1000 k=520 ranks=4 dtype=fp16", "tiles,comm-sms=3"));
  EXPECT_TRUE(
      joins("ag-gemm m=512 n=1024 k=2048 ranks=4 dtype=bf16", "tiles,comm-sms=4,k-phases=4"));
}

// Which GEMM kernels of rank 0 have movers; that every instruction of comm lanes is in one of them,
// in the order of its lane.
std::vector<bool> kernels_with_movers(const std::string& op, const std::string& schedule) {
  const Plan plan = plan_of_operator(op, schedule);
  std::vector<bool> found;
  for (const RankProgram& program : programs_of(plan)) {
    std::map<uint32_t, uint32_t> done;  // by comm lane
    found.clear();
    for (size_t kernel = 0; kernel < program.gemms.size(); ++kernel) {
      const auto movers = program.movers[kernel];
      found.push_back(movers.has_value());
      EXPECT_EQ(program.needs[kernel].moves, movers.has_value());
      if (!movers) continue;
      for (const BlockPart& part : program.moves[*movers]) {
        EXPECT_EQ(done[part.lane], part.begin);
        done[part.lane] = part.end;
      }
    }
    if (!program.joins()) continue;
    EXPECT_EQ(program.streams.size(), 1u);
    for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const bool is_own =
          program.gemms[0][0].lane / (plan.lanes.size() / 2) == lane / (plan.lanes.size() / 2);
      if (plan.lanes[lane].kind != LaneKind::comm || !is_own) continue;
      EXPECT_EQ(done[lane], plan.lanes[lane].instrs.size());
    }
  }
  return found;
}

TEST(JoinedMovers, AreInTheKernelsBehindWhatTheyAwait) {
  const std::string mlp = "mlp m=512 h=512 f=1024 ranks=2 dtype=bf16";
  EXPECT_EQ(kernels_with_movers(mlp, "up:tiles,comm-sms=4/down:tiles,comm-sms=0"),
            (std::vector<bool>{true, false}));
  EXPECT_EQ(kernels_with_movers(mlp, "up:tiles,comm-sms=4,reuse=ack/down:tiles,comm-sms=0"),
            (std::vector<bool>{true, false}));
  // Rows that are normed behind o and behind down.
  EXPECT_EQ(
      kernels_with_movers(
          "layer m=512 h=512 f=1024 heads=8 kv-heads=4 head-dim=64 ranks=2 dtype=bf16",
          "o:tiles,comm-sms=0/up:tiles,comm-sms=4/down:tiles,comm-sms=0/qkv:tiles,comm-sms=4"),
      (std::vector<bool>{false, true, false, true}));
  // A library's products have no room for movers, nor have those that add.
  EXPECT_EQ(kernels_with_movers(mlp,
                                "up:decomposed,mover=comm-blocks,comm-sms=4,gemm=library/"
                                "down:tiles,comm-sms=0"),
            (std::vector<bool>{false, false, false}));
  EXPECT_EQ(kernels_with_movers(mlp, "up:tiles,comm-sms=4/down:tiles,comm-sms=4"),
            (std::vector<bool>{false, false}));
}

TEST(JoinedMovers, AreNotThoseThatAdd) {
  EXPECT_FALSE(joins("gemm-rs m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,comm-sms=4"));
}

// Rows of 516 elements are no multiple of 16 bytes.
TEST(JoinedMovers, AreNotThoseOfSingleElements) {
  EXPECT_FALSE(joins("ag-gemm m=512 n=1024 k=516 ranks=4 dtype=bf16", "tiles,comm-sms=4"));
}

TEST(JoinedMovers, AreNoneWhereCopyEnginesMove) {
  for (const RankProgram& program :
       programs("ag-gemm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,mover=copy-engine")) {
    EXPECT_FALSE(program.joins());
  }
}

// A comm lane of every rank awaits at its end what a compute lane notifies behind its kernel. In
// one kernel with the tiles it would wait for the kernel's own end.
TEST(JoinedMovers, AreNoneThatAwaitWhatFollowsTheKernel) {
  Plan plan = plan_of("ag-gemm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,comm-sms=4");
  plan.signals.push_back({"after", 1, 1});
  Instr boundary;
  boundary.op = Opcode::boundary;
  Instr notify;
  notify.op = Opcode::notify;
  notify.signal.array = static_cast<uint16_t>(plan.signals.size() - 1);
  notify.amount = 1;
  for (Lane& lane : plan.lanes) {
    notify.rank = lane.rank;
    if (lane.kind == LaneKind::compute) lane.instrs.push_back(boundary);
    if (lane.index != 0) continue;
    lane.instrs.push_back(notify);
    if (lane.kind == LaneKind::comm) lane.instrs.back().op = Opcode::wait;
    if (lane.kind == LaneKind::comm) lane.instrs.back().rank = 0;
  }
  EXPECT_TRUE(check(plan).clean());
  for (const RankProgram& program : programs_of(plan)) {
    EXPECT_FALSE(program.joins());
    EXPECT_EQ(program.streams.size(), 2u);
  }
}

// Ranks' rows are fewer than a tile's: tiles read what is gathered, and A itself is only moved.
TEST(JoinedMovers, AreRefusedTensorsThatBeginBetweenVectors) {
  const Plan plan = plan_of("ag-gemm m=64 n=1024 k=512 ranks=4 dtype=bf16", "tiles,comm-sms=4");
  const std::vector<RankProgram> programs = programs_of(plan);
  ASSERT_TRUE(programs.front().joins());
  const SignalLayout signals(plan, programs, true);
  BufferPlaces places = places_of(plan);
  EXPECT_NO_THROW(tables_for(plan, 1, programs[1], places, signals));
  places[1][*plan.find_buffer("a")][0] += 2;
  EXPECT_THROW(tables_for(plan, 1, programs[1], places, signals), UsageError);
}

TEST(JoinedMovers, AreInTheNamesOfKernels) {
  const Plan plan = plan_of("ag-gemm m=512 n=1024 k=512 ranks=4 dtype=bf16", "tiles,comm-sms=4");
  const std::vector<KernelEntry> kernels = kernels_of(plan, "sm_90a");
  EXPECT_NE(kernels.front().name.find(" moves"), std::string::npos) << kernels.front().name;
  EXPECT_NE(kernels.front().source.find("GemmMoverParams"), std::string::npos);
}

}  // namespace
}  // namespace stretto::cuda
