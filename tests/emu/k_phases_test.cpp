// Plans with phases of K: exact on integers, within the bound on random data, and proved.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "lost_syncs.h"
#include "small_plans.h"
#include "stretto/serve.h"

namespace stretto::emu {
namespace {

void expect_right(const Plan& plan, const std::string& name,
                  const std::shared_ptr<SharedReference>& reference) {
  const CheckReport report = check(plan);
  ASSERT_TRUE(report.clean()) << name << "\n" << report.diagnostics[0].message;
  for (const Fill fill : {Fill::integers, Fill::random}) {
    const EmulateResult result =
        emulate(plan, {.seed = 3, .fill = fill, .runs = 2, .reference = reference});
    ASSERT_TRUE(result.finished && result.verified && result.faults.empty()) << name << "\n"
                                                                             << result.first_wrong;
  }
}

bool all_are_fused(const Plan& plan, Opcode op) {
  return std::all_of(plan.lanes.begin(), plan.lanes.end(), [&](const Lane& lane) {
    return std::all_of(lane.instrs.begin(), lane.instrs.end(),
                       [&](const Instr& instr) { return instr.op != op || instr.fused; });
  });
}

TEST(KPhases, AreRightForEveryPointThatPushesAndShape) {
  struct Shape {
    int64_t m, n, k;
    const char* tile;
    int phases;
  };
  // A single row; nothing that divides, tiles of several owners; phases of one step.
  const Shape shapes[] = {
      {1, 24, 130, "16x16", 3}, {67, 40, 333, "16x32", 2}, {43, 24, 256, "32x16", 4}};
  int run = 0, refused = 0;
  for (const int ranks : {1, 2, 4, 8}) {
    Machine machine = default_machine(ranks);
    machine.sms = 9;  // several waves
    for (const Shape& shape : shapes) {
      const DType dtype = static_cast<DType>(run++ % 3);
      const Segment op{kAgGemm, shape.m, shape.n * ranks, shape.k, ranks, dtype};
      const std::shared_ptr<SharedReference> reference = make_shared_reference();
      for (const Preset& preset : presets()) {
        for (const char* change : {"", ",mover=copy-engine", ",split-k=2", ",order=own-first",
                                   ",sync=counter,reuse=ack"}) {
          const std::string text = fmt::format("{},tile={},k-phases={}{}", preset.name, shape.tile,
                                               shape.phases, change);
          Schedule schedule = parse_schedule(text, op, machine);
          schedule.comm_sms = std::min(schedule.comm_sms, 3);
          if (!legal(op, schedule, machine).empty()) {
            ++refused;
            continue;
          }
          expect_right(lower(op, schedule, machine), to_string(op) + "\n" + text, reference);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_LT(refused, 12 * 5 * (static_cast<int>(presets().size()) - 1));
}

// Behind an all-to-all: ragged rows, fewer rows than ranks, a last rank of fewer columns.
TEST(KPhases, OfSourcesAreProvedAndRight) {
  for (const int ranks : {2, 3, 4, 8}) {
    const Machine machine = small_machine(ranks, 9);
    const int64_t uneven = 64 * ranks - (ranks == 3 ? 2 : 3);
    for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{16 * ranks, 48, 64 * ranks},
                                  {67, 40, uneven},
                                  {3, 24, 128 * ranks}}) {
      const Operator op = make_operator("a2a-gemm", {{"m", m}, {"n", n}, {"k", k}}, ranks);
      for (const char* schedule :
           {"tiles,comm-sms=2", "tiles,comm-sms=1,sync=counter,reuse=ack", "slices,comm-sms=2",
            "tiles,mover=copy-engine,comm-sms=0", "slices,mover=copy-engine,comm-sms=0,order=plain",
            "tiles,comm-sms=3,swizzle=1"}) {
        const std::string text = fmt::format("{},tile=8x16,k-phases={}", schedule, ranks);
        SCOPED_TRACE(to_string(op) + " " + text);
        const Plan plan = lower(op, parse_schedules(text, op, machine), machine);
        EXPECT_TRUE(plan.find_buffer("ranges"));
        expect_proved(plan);
        for (const uint64_t seed : {1, 2}) expect_right(plan, {.seed = seed});
        if (HasFailure()) return;
      }
    }
  }
}

TEST(KPhases, OfSourcesNeedEverySync) {
  const Operator op = make_operator("a2a-gemm", {{"m", 27}, {"n", 32}, {"k", 190}}, 3);
  const Machine machine = small_machine(3, 7);
  for (const char* schedule :
       {"tiles,comm-sms=2", "tiles,comm-sms=1,reuse=ack", "slices,comm-sms=1",
        "slices,mover=copy-engine,comm-sms=0,reuse=ack"}) {
    const std::string text = fmt::format("{},tile=8x16,k-phases=3", schedule);
    expect_every_sync_is_needed(lower(op, parse_schedules(text, op, machine), machine));
  }
}

// The gate's product comes range by range, the other one whole behind it, whichever is named first.
TEST(KPhases, OfGatedProductsAreProvedAndRight) {
  const auto turned = parse_graph(
      "graph turned m h f\ninput x [m, h] rows\ninput wu [f, h] rows\ninput wg [f, h] rows\n"
      "u = gemm x wu\ng = gemm x wg\nup = swiglu g u\noutput up cols\n");
  for (const int ranks : {2, 3, 4, 8}) {
    const Machine machine = small_machine(ranks, 11);
    for (const char* schedule :
         {"tiles,comm-sms=2,k-phases=3", "tiles,comm-sms=1,sync=counter,reuse=ack,k-phases=2",
          "tiles,comm-sms=3,k-phases=4,start=wave,own=gathered", "slices,comm-sms=2,k-phases=2",
          "tiles,mover=copy-engine,comm-sms=0,k-phases=2"}) {
      const Sizes sizes = {{"m", 61}, {"h", 200}, {"f", 12 * ranks}};
      const Operator one = make_graph(turned, sizes, ranks, DType::fp16);
      const Operator mlp = make_operator("mlp", sizes, ranks);
      for (const Operator& op : {one, mlp}) {
        const std::string up = fmt::format("up:{},tile=16x16", schedule);
        const std::string text =
            op.segments.size() == 1 ? up.substr(3) : up + "/down:tiles,tile=16x16";
        SCOPED_TRACE(to_string(op) + " " + text);
        const Plan plan = lower(op, parse_schedules(text, op, machine), machine);
        EXPECT_TRUE(plan.find_buffer(op.segments.size() == 1 ? "ranges" : "up_ranges"));
        EXPECT_TRUE(all_are_fused(plan, Opcode::swiglu));
        expect_proved(plan);
        for (const uint64_t seed : {1, 2}) expect_right(plan, {.seed = seed});
        if (HasFailure()) return;
      }
    }
  }
}

TEST(KPhases, OfGatedProductsNeedEverySync) {
  const Operator op = make_operator("mlp", {{"m", 27}, {"h", 130}, {"f", 32}}, 2);
  const Machine machine = small_machine(2, 7);
  for (const char* up : {"tiles,comm-sms=1,k-phases=2", "tiles,comm-sms=2,reuse=ack,k-phases=2"}) {
    const std::string text = fmt::format("up:{},tile=8x16/down:tiles,tile=8x32", up);
    expect_every_sync_is_needed(lower(op, parse_schedules(text, op, machine), machine));
  }
}

TEST(KPhases, ServeFewerRows) {
  const Machine machine = default_machine(4);
  const Segment op{kAgGemm, 128, 96, 333, 4, DType::bf16};
  for (const char* text : {"tiles,tile=16x16,comm-sms=2,k-phases=3,rows=bucket",
                           "slices,tile=16x16,mover=copy-engine,k-phases=2,rows=bucket"}) {
    const Plan plan = lower(op, parse_schedule(text, op, machine), machine);
    ASSERT_TRUE(why_not_served(plan).empty()) << why_not_served(plan).front();
    for (const int64_t rows : {1, 31, 77, 128}) {
      expect_right(at_rows(plan, rows), fmt::format("{} of {} rows", text, rows), nullptr);
    }
  }
}

}  // namespace
}  // namespace stretto::emu
