// Plans as rank programs and tables, step by step: nothing needs a GPU.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "launch/rank_program.h"
#include "launch/tile_sums.h"
#include "plan_fixture.h"
#include "stretto/error.h"
#include "tables/plan_limits.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RankPrograms, SequentialIsAGemmAndACollectiveInOneStream) {
  const Plan reduce = plan_of("gemm-rs m=512 n=512 k=512 ranks=4 dtype=bf16", "sequential");
  EXPECT_EQ(text(reduce, programs_of(reduce)[1]), "0:gemm 0 0:collective");
  const Plan gather = plan_of("ag-gemm m=512 n=512 k=512 ranks=4 dtype=bf16", "sequential");
  EXPECT_EQ(text(gather, programs_of(gather)[1]), "0:collective 0:gemm 0");
}

// Read as text, and not proved: one compute lane passes a boundary, and the other one does not.
TEST(RankPrograms, OfStreamsThatWaitForEachOtherAreRefused) {
  const Plan plan = parse_plan(
      "stretto-plan 2\noperator gemm-rs m=8 n=8 k=16 ranks=2 dtype=bf16\nsms 8\n"
      "buffer a bf16 8x8 input columns=16\nbuffer b bf16 8x8 input columns=16\n"
      "buffer out bf16 4x8 output sharded=8\nsignals s 1\nsignals t 1\n"
      "lane 0 compute 0\n  boundary 0\n  notify s.0@0 += 1\n"
      "lane 0 compute 1\n  wait t.0 >= 1\n"
      "lane 0 nccl 0\n  wait s.0 >= 1\n  notify t.0@0 += 1\nend\n");
  try {
    programs_of(plan);
    FAIL() << "there are programs";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("wait for each other's events"));
  }
}

// Without what they are later: the same blocks of the same sorts of kernels.
TEST(RankPrograms, HaveTheKernelsThatLanesAlreadySay) {
  const Machine machine = default_machine(2);
  for (const char* op_text :
       {"ag-gemm m=300 n=512 k=256 ranks=2 dtype=bf16", "mlp m=300 h=256 f=512 ranks=2 dtype=bf16",
        "gemm-ar-norm m=300 n=512 k=256 ranks=2 dtype=bf16",
        "moe-ep t=37 h=256 f=256 experts=8 k=2 ranks=2 dtype=bf16"}) {
    const Operator op = parse_operator(op_text);
    for (const Preset& preset : presets()) {
      const OperatorSchedule schedule = schedule_of(preset, op, machine);
      if (!legal(op, schedule, machine).empty()) continue;
      SCOPED_TRACE(fmt::format("{} {}", op_text, preset.name));
      const Plan plan = lower(op, schedule, machine);
      const std::vector<RankProgram> programs = programs_of(plan), kernels = kernels_of(plan);
      for (size_t rank = 0; rank < programs.size(); ++rank) {
        const RankProgram &whole = programs[rank], &early = kernels[rank];
        ASSERT_EQ(early.gemms.size(), whole.gemms.size());
        EXPECT_EQ(early.behind, whole.behind);
        EXPECT_EQ(early.rows.size(), whole.rows.size());
        EXPECT_GE(early.moves.size(), whole.moves.size());
        EXPECT_GE(early.streams.size(), whole.streams.size());
        for (size_t kernel = 0; kernel < whole.gemms.size(); ++kernel) {
          EXPECT_EQ(early.gemms[kernel].size(), whole.gemms[kernel].size());
          const GemmNeeds &few = early.needs[kernel], &all = whole.needs[kernel];
          EXPECT_EQ(few.library, all.library);
          EXPECT_EQ(few.few_rows, all.few_rows);
          EXPECT_EQ(few.grouped, all.grouped);
          EXPECT_EQ(few.norms, all.norms);
          EXPECT_EQ(few.moves, all.moves);
        }
      }
    }
  }
}

TEST(RankPrograms, DecomposedSendsWhileTheNextKernelRuns) {
  const Plan plan =
      plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "decomposed,tile=128x128");
  EXPECT_EQ(text(plan, programs_of(plan)[0]),
            "0:gemm 0 0:record 0 0:gemm 1 "
            "1:wait ack.0 1:await 0 1:copy 1:notify slots.0 0:wait slots.0 0:move 0");
}

TEST(RankPrograms, WavesWaitForTheKernelInTheStreamOfTheCollectives) {
  const Plan plan = plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "waves,tile=128x128");
  EXPECT_EQ(text(plan, programs_of(plan)[0]),
            "0:gemm 0 1:wait packed.0 1:collective 1:notify sums.0 0:move 0");
}

// Sums by ids take turns with products on their stream, beside copies that await neither of the
// two; where copies wait for products, collectives keep a stream of their own.
TEST(RankPrograms, CollectivesAreOnTheStreamOfProductsBesideCopies) {
  const auto text_of = [](const char* op_text, const char* schedule) {
    const Operator op = parse_operator(op_text);
    const Machine machine = default_machine(op.ranks);
    const OperatorSchedule parsed = parse_schedules(schedule, op, machine);
    EXPECT_THAT(legal(op, parsed, machine), IsEmpty());
    const Plan plan = lower(op, parsed, machine);
    return text(plan, programs_of(plan)[0]);
  };
  const std::string chained = text_of("moe-tp t=512 h=256 f=512 experts=8 k=2 ranks=2 dtype=bf16",
                                      "a:library,mover=copy-engine/y:low-latency");
  EXPECT_THAT(chained, testing::EndsWith("0:wait a_x.0 0:gemm 0 0:gemm 1 0:collective"));
  const std::string apart =
      text_of("mlp m=512 h=512 f=1024 ranks=2 dtype=bf16", "up:low-latency/down:decomposed");
  EXPECT_THAT(apart, testing::HasSubstr("2:collective"));
}

TEST(RankPrograms, TheGemmKernelAddsToTheTilesThatItsRankOwns) {
  const Plan plan = plan_of("gemm-rs m=512 n=512 k=512 ranks=4 dtype=bf16",
                            "tiles,tile=128x128,comm-sms=0,order=interleaved");
  const RankProgram program = programs_of(plan)[1];
  EXPECT_EQ(text(plan, program), "0:gemm 0");
  EXPECT_EQ(config_of(plan).adds, 3);
  const RankTables tables =
      tables_for(plan, 1, program, places_of(plan), SignalLayout(plan, programs_of(plan), true));
  const GemmTable& table = tables.gemms[0].table;
  size_t sums = 0;
  for (const std::vector<device::GemmTask>& tasks : table.blocks) {
    for (const device::GemmTask& task : tasks) {
      if (task.sum_step == 0) {
        EXPECT_EQ(task.num_late_waits, 0);
        continue;
      }
      ++sums;
      EXPECT_EQ(task.num_waits, 0);
      EXPECT_EQ(task.num_late_waits, 3);
      EXPECT_EQ(task.sum_own, 1u);
      EXPECT_EQ(task.sum_row, 0);
      EXPECT_EQ(task.sum_column % 128, 0);
      EXPECT_EQ(task.sum_step, 128);
      const size_t num_maps = tables.gemms[0].maps.size() / 2;
      for (const size_t set : {0, 1}) {
        const MapSpec& from = tables.gemms[0].maps[set * num_maps + task.sum_map];
        EXPECT_EQ(from.use, MapSpec::Use::sums);
        EXPECT_EQ(from.matrix.address, places_of(plan)[1][*plan.find_buffer("slots")][set]);
        EXPECT_EQ(from.matrix.rows, 512);
        EXPECT_EQ(from.matrix.columns, 512);
      }
      // The sum goes out; the tile itself goes nowhere.
      ASSERT_EQ(task.num_destinations, 1);
      const MapSpec& map = tables.gemms[0].maps[table.destinations[task.first_destination].map];
      EXPECT_EQ(map.matrix.address, places_of(plan)[1][*plan.find_buffer("out")][0]);
    }
  }
  EXPECT_EQ(sums, 4u);  // one tile row
}

TEST(RankPrograms, TasksOfRangesOfKLeaveSumsForTheFirst) {
  const Plan plan = plan_of("gemm-rs m=512 n=512 k=2400 ranks=4 dtype=bf16",
                            "tiles,tile=128x128,comm-sms=0,order=interleaved,split-k=3");
  EXPECT_EQ(why_not_on_cuda(plan), std::vector<std::string>{});
  const RankProgram program = programs_of(plan)[1];
  EXPECT_EQ(text(plan, program), "0:gemm 0");
  EXPECT_TRUE(config_of(plan).splits);
  EXPECT_EQ(config_of(plan).adds, 3);
  EXPECT_EQ(config_of(plan).output, device::OutputType::bf16);
  const BufferPlaces places = places_of(plan);
  const RankTables tables =
      tables_for(plan, 1, program, places, SignalLayout(plan, programs_of(plan), true));
  const GemmTable& table = tables.gemms[0].table;
  ASSERT_EQ(table.splits.size(), table.blocks.size());
  const uint64_t sums_of_range = uint64_t{512} * 512 * 4, begin = places[1][3][0];
  ASSERT_EQ(plan.buffers[3].name, "ranges");
  std::map<uint32_t, std::set<uint64_t>> left, added;  // by tile: where sums lie
  size_t own = 0;
  for (size_t b = 0; b < table.blocks.size(); ++b) {
    ASSERT_EQ(table.splits[b].size(), table.blocks[b].size());
    for (size_t t = 0; t < table.blocks[b].size(); ++t) {
      const device::GemmTask& task = table.blocks[b][t];
      const device::GemmSplit& split = table.splits[b][t];
      EXPECT_EQ(split.row_bytes, 512u * 4);
      EXPECT_EQ(split.rows, 128);
      EXPECT_EQ(split.columns, 128);
      EXPECT_GE(split.sums, begin);
      if (split.ranges == 1) {
        EXPECT_EQ(task.num_destinations, 0);
        EXPECT_EQ(task.num_notifies, 1);
        EXPECT_EQ(task.num_late_waits, 0);
        EXPECT_EQ(task.num_k, task.first_k == 3 ? 3 : 4) << "600 of K are 10 blocks";
        left[task.tile].insert(split.sums);
        continue;
      }
      EXPECT_EQ(split.ranges, 3u);
      EXPECT_EQ(task.first_k, 0);
      EXPECT_EQ(task.num_k, 3);
      EXPECT_EQ(split.step * uint64_t{16}, sums_of_range);
      for (uint64_t range = 1; range < 3; ++range) {
        added[task.tile].insert(split.sums + range * sums_of_range);
      }
      // Others' tiles go to their slots; own tiles await the other ranks too, and go out.
      own += task.sum_step != 0;
      EXPECT_EQ(task.num_late_waits, task.sum_step != 0 ? 5 : 2);
      EXPECT_EQ(task.num_destinations, 1);
    }
  }
  EXPECT_EQ(own, 4u);
  EXPECT_EQ(left.size(), 16u);
  EXPECT_EQ(left, added);
  // Ranges of one matrix share a map but for the one that ends inside a block of K.
  std::set<std::pair<uint64_t, int64_t>> maps;
  for (const MapSpec& map : tables.gemms[0].maps) {
    const bool is_operand = map.use == MapSpec::Use::a || map.use == MapSpec::Use::b;
    if (is_operand) maps.emplace(map.matrix.address, map.matrix.columns);
  }
  EXPECT_EQ(maps.size(), 2u);
}

TEST(RankPrograms, RangesOfKThatTheKernelCannotAddAreRefused) {
  const auto why = [](const char* op, const char* schedule) {
    const std::vector<std::string> reasons = why_not_on_cuda(plan_of(op, schedule));
    return reasons.empty() ? std::string() : reasons.front();
  };
  EXPECT_EQ(
      why("gemm-rs m=512 n=520 k=1024 ranks=2 dtype=bf16", "two-chunk,tile=128x128,split-k=2"), "");
  EXPECT_NE(why("gemm-rs m=96 n=512 k=1024 ranks=4 dtype=bf16", "two-chunk,tile=128x128,split-k=2")
                .find("rows of A in one region"),
            std::string::npos);
  EXPECT_NE(why("gemm-rs m=512 n=512 k=1024 ranks=2 dtype=bf16",
                "tiles,tile=128x256,comm-sms=0,split-k=2")
                .find("tiles of up to 128x224, not 128x256: take tile=128x192 or a smaller one, or "
                      "split-k=1"),
            std::string::npos);
  // A kernel that serves has tiles of whole 64 columns: 256 for 224.
  const Plan wide = plan_of("gemm-rs m=512 n=448 k=1024 ranks=2 dtype=bf16",
                            "tiles,tile=128x224,comm-sms=0,split-k=2,rows=bucket");
  EXPECT_THAT(why_not_on_cuda(wide), IsEmpty());
  EXPECT_THAT(why_not_on_cuda(wide, TileSums(wide), true),
              testing::ElementsAre(testing::HasSubstr("tiles of up to 128x224")));
  // Read by a mover too.
  Plan plan = plan_of("ag-gemm m=512 n=512 k=1024 ranks=1 dtype=bf16", "sequential,split-k=2");
  EXPECT_EQ(why_not_on_cuda(plan), std::vector<std::string>{});
  Lane& lane = plan.lanes.back();
  Instr copy = lane.instrs.front();
  ASSERT_EQ(copy.op, Opcode::gemm);
  const Region sums = plan.writes(copy)[0];
  copy.op = Opcode::copy;
  copy.first_operand = static_cast<uint32_t>(plan.operands.size());
  copy.num_reads = copy.num_writes = 1;
  plan.operands.push_back(sums);
  plan.operands.push_back({0, sums.rows(), 0, sums.cols(), 2, 0});
  lane.instrs.push_back(copy);
  EXPECT_THAT(
      why_not_on_cuda(plan),
      testing::ElementsAre(testing::HasSubstr("expected ranges to hold nothing but ranges of K")));
  fuse_tasks(plan);
  EXPECT_THAT(why_not_on_cuda(plan),
              testing::ElementsAre(testing::HasSubstr("nobody else reads its sums")));
}

TEST(RankPrograms, SumsOfAnotherTypeAreLeftToAMover) {
  const Plan plan = plan_of("gemm-rs m=512 n=512 k=512 ranks=4 dtype=bf16",
                            "tiles,tile=128x128,comm-sms=0,partials=fp32");
  EXPECT_EQ(text(plan, programs_of(plan)[1]), "0:gemm 0 0:move 0");
  EXPECT_EQ(config_of(plan).adds, 0);
}

TEST(RankPrograms, MoversComeFirstSoThatTheyHaveTheirSms) {
  const Plan plan = plan_of("gemm-rs m=512 n=512 k=512 ranks=2 dtype=bf16", "tiles,comm-sms=8");
  const RankProgram program = programs_of(plan)[0];
  EXPECT_EQ(program.streams[program.order.front().first].kind, LaneKind::comm);
}

}  // namespace
}  // namespace stretto::cuda
