// What servers take without simulating, beside what the simulation would choose for them. Prints
// the second table of docs/tuning.md; to renew it:
//   STRETTO_THOROUGH=1 test_tune --gtest_filter='ServedChoice.Is*' | grep '^|'
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leave_one_out.h"
#include "stretto/error.h"
#include "stretto/tune.h"
#include "thorough.h"
#include "tune/expected_schedule.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TunedOperator tuned_of(const std::string& op, std::vector<Measured> measured) {
  TunedOperator tuned;
  tuned.op = parse_segment(op);
  tuned.machine = "h200x8";
  tuned.gpu = "NVIDIA H200";
  tuned.library_us = 100;
  tuned.measured = std::move(measured);
  return tuned;
}

Measured measured(const std::string& schedule, double us) { return {schedule, us, us, us, {}, {}}; }

AutoSchedule served(const std::string& text, const Tuning& tuning, RowsFrom from = RowsFrom::host) {
  const Segment op = parse_segment(text);
  return served_schedule(op, default_machine(op.ranks), tuning, from);
}

Schedule schedule_of(const std::string& text, const std::string& op_text) {
  const Segment op = parse_segment(op_text);
  Schedule schedule = parse_schedule(text, op, default_machine(op.ranks));
  schedule.rows = RowCount::bucket;
  return schedule;
}

constexpr const char* kFour = "gemm-rs m=1024 n=4096 k=4096 ranks=4 dtype=bf16";
constexpr const char* kEight = "gemm-rs m=1024 n=4096 k=8192 ranks=8 dtype=bf16";

TEST(ServedChoice, TakesWhatWasFastestWithOtherRanks) {
  Tuning tuning;
  tuning.add(tuned_of(kFour, {measured("sequential", 10), measured("tiles,tile=128x64", 20),
                              measured("tiles,tile=128x128", 30)}));
  const AutoSchedule found = served(kEight, tuning);
  EXPECT_EQ(found.schedule, schedule_of("tiles,tile=128x64", kEight));
  EXPECT_THAT(found.reason,
              AllOf(HasSubstr("measured on m=1024 n=4096 k=4096 with 4 ranks"),
                    HasSubstr("the fastest of 2 that serve"), HasSubstr("not simulated")));
}

// Its own measurements say more than any others.
TEST(ServedChoice, TakesWhatWasMeasuredOnTheBucketItself) {
  Tuning tuning;
  tuning.add(tuned_of(kFour, {measured("tiles,tile=128x64", 20)}));
  tuning.add(tuned_of(kEight, {measured("tiles,tile=128x128", 90)}));
  const AutoSchedule found = served(kEight, tuning);
  EXPECT_EQ(found.schedule, schedule_of("tiles,tile=128x128", kEight));
  EXPECT_THAT(found.reason, HasSubstr("measured on this shape"));
}

// What was the fastest by a hair on one shape and slow on its neighbour is passed over.
TEST(ServedChoice, HearsSeveral) {
  Tuning tuning;
  tuning.add(tuned_of(kFour, {measured("tiles,tile=128x64", 20), measured("slices", 20.2)}));
  tuning.add(tuned_of("gemm-rs m=1024 n=4096 k=3584 ranks=4 dtype=bf16",
                      {measured("slices", 20), measured("tiles,tile=128x64", 30)}));
  EXPECT_EQ(served(kEight, tuning).schedule.granularity, Granularity::slice);
  // The less was measured of a schedule, the faster it has to be.
  tuning.add(tuned_of("gemm-rs m=1024 n=4096 k=4608 ranks=4 dtype=bf16",
                      {measured("decomposed", 19.9), measured("slices", 20)}));
  EXPECT_EQ(served(kEight, tuning).schedule.granularity, Granularity::slice);
}

TEST(ServedChoice, GoesByTheRowsWhereNothingIsNear) {
  Tuning tuning;  // a factor of two in the ranks and three in the rows
  tuning.add(tuned_of(kFour, {measured("slices", 20)}));
  const char* far = "gemm-rs m=3072 n=4096 k=8192 ranks=8 dtype=bf16";
  const AutoSchedule many = served(far, tuning);
  EXPECT_EQ(many.schedule, schedule_of("tiles", far));
  EXPECT_THAT(many.reason, HasSubstr("tiles for 3072 rows: nothing that serves was measured "
                                     "within a factor of four on h200x8"));
  const char* few = "gemm-rs m=256 n=4096 k=8192 ranks=8 dtype=bf16";
  EXPECT_EQ(served(few, {}).schedule, schedule_of("low-latency", few));
  EXPECT_EQ(served(few, {}, RowsFrom::gpu_memory).schedule, schedule_of("low-latency", few));
  // A gather of more than cuBLAS would multiply all of.
  const char* gather = "ag-gemm m=512 n=4096 k=8192 ranks=4 dtype=bf16";
  EXPECT_EQ(served(gather, {}).schedule, schedule_of("low-latency", gather));
  EXPECT_EQ(served(gather, {}, RowsFrom::gpu_memory).schedule, schedule_of("tiles", gather));
  // 256 rows of each rank, and more.
  const char* large = "ag-gemm m=2048 n=10240 k=8192 ranks=8 dtype=bf16";
  EXPECT_EQ(served(large, {}).schedule, schedule_of("low-latency", large));
  const char* larger = "ag-gemm m=4096 n=10240 k=8192 ranks=8 dtype=bf16";
  EXPECT_EQ(served(larger, {}).schedule, schedule_of("tiles", larger));
  // 16 ranks are two nodes, where other schedules are fast.
  const char* nodes = "gemm-rs m=1024 n=4096 k=16384 ranks=16 dtype=bf16";
  EXPECT_THAT(served(nodes, tuning).reason, HasSubstr("nothing that serves was measured"));
}

// All of B for each row of tiles is more than memory and power give: 1701 us for 1441 with own rows
// first (2 x H200).
TEST(ServedChoice, SweepsWideGathersThatArrivedOnNarrowOnes) {
  const auto order_of = [](const char* text) {
    return served(text, shipped_tuning()).schedule.order;
  };
  EXPECT_EQ(order_of("ag-gemm m=2048 n=57344 k=8192 ranks=2 dtype=bf16"), Order::own_first);
  EXPECT_EQ(order_of("ag-gemm m=16384 n=57344 k=16384 ranks=2 dtype=bf16"), Order::own_first);
  EXPECT_EQ(order_of("ag-gemm m=2048 n=24576 k=8192 ranks=2 dtype=bf16"), Order::arrival);
}

// What a library's rows in memory cost beside the rows that were measured: a read, and for a gather
// the copy of its result.
TEST(ServedChoice, CountsWhatRowsInMemoryCost) {
  const char* sums = "gemm-rs m=128 n=4096 k=8192 ranks=2 dtype=bf16";
  const char* gather = "ag-gemm m=128 n=4096 k=8192 ranks=2 dtype=bf16";
  const auto chosen = [](const char* op, double tiles_us, RowsFrom from, bool is_itself) {
    Tuning tuning;
    tuning.add(tuned_of(op, {measured("low-latency", 20), measured("tiles", tiles_us)}));
    std::string asked = op;
    if (!is_itself) asked.replace(asked.find("k=8192"), 6, "k=7168");
    return served(asked, tuning, from).schedule.gemm;
  };
  for (const bool is_itself : {true, false}) {
    for (const char* op : {sums, gather}) {
      EXPECT_EQ(chosen(op, 20.1, RowsFrom::host, is_itself), GemmBy::library);
      EXPECT_EQ(chosen(op, 20.1, RowsFrom::gpu_memory, is_itself), GemmBy::tiles);
      EXPECT_EQ(chosen(op, 22, RowsFrom::gpu_memory, is_itself), GemmBy::library);
    }
    EXPECT_EQ(chosen(sums, 20.8, RowsFrom::gpu_memory, is_itself), GemmBy::library);
    EXPECT_EQ(chosen(gather, 20.8, RowsFrom::gpu_memory, is_itself), GemmBy::tiles);
  }
}

// Columns of which a kernel cannot copy the rows that there are.
TEST(ServedChoice, RowsInMemoryNeedResultsThatCanBeCopied) {
  const char* narrow = "ag-gemm m=64 n=24 k=8192 ranks=2 dtype=bf16";
  const char* wider = "ag-gemm m=64 n=48 k=8192 ranks=2 dtype=bf16";
  for (const char* op : {narrow, wider}) {
    Tuning tuning;
    tuning.add(tuned_of(op, {measured("low-latency", 20), measured("tiles", 30)}));
    EXPECT_EQ(served(op, tuning).schedule.gemm, GemmBy::library);
    EXPECT_EQ(served(op, tuning, RowsFrom::gpu_memory).schedule.gemm,
              op == narrow ? GemmBy::tiles : GemmBy::library);
  }
}

// Of many ranks the smallest bucket has more rows than others may.
TEST(ServedChoice, TheSmallestBucketOfManyRanksIsOfFewRows) {
  const char* smallest = "gemm-rs m=512 n=4096 k=8192 ranks=8 dtype=bf16";
  const char* next = "gemm-rs m=1024 n=4096 k=8192 ranks=8 dtype=bf16";
  for (const char* op : {smallest, next}) {
    Tuning tuning;
    tuning.add(tuned_of(op, {measured("low-latency", 20), measured("tiles", 30)}));
    EXPECT_EQ(served(op, tuning).schedule.gemm, GemmBy::library);
    EXPECT_EQ(served(op, tuning, RowsFrom::gpu_memory).schedule.gemm,
              op == smallest ? GemmBy::library : GemmBy::tiles);
  }
}

// A call waits for the plan.
TEST(ServedChoice, PassesOverWhatTakesLongToPlan) {
  for (const int m : {2048, 4096}) {
    const std::string sizes = "ag-gemm m=" + std::to_string(m);
    Tuning tuning;
    tuning.add(tuned_of(sizes + " n=4096 k=8192 ranks=4 dtype=bf16",
                        {measured("tiles,tile=128x192,k-phases=8", 20), measured("slices", 25)}));
    const AutoSchedule found = served(sizes + " n=8192 k=8192 ranks=8 dtype=bf16", tuning);
    EXPECT_EQ(found.schedule.k_phases, m == 2048 ? 8 : 1);
    EXPECT_EQ(found.schedule.granularity, m == 2048 ? Granularity::tile : Granularity::slice);
  }
}

TEST(ServedChoice, RefusesWhatNothingServes) {
  try {
    served("gemm-rs m=511 n=1024 k=1024 ranks=2 dtype=bf16", {});
    FAIL() << "511 rows have unequal shards";
  } catch (const UsageError& error) {
    const std::string what = error.what();
    EXPECT_THAT(what, HasSubstr("no preset can serve this: "));
    EXPECT_EQ(what.find("take m="), what.rfind("take m=")) << "said once: " << what;
  }
}

// The fastest of what can serve: of what `auto` can take from elsewhere.
double best_us(const TunedOperator& tuned, const Machine& machine) {
  for (const Measured& one : tuned.measured) {
    Schedule schedule = parse_schedule(one.schedule, tuned.op, machine);
    if (schedule.algorithm != 0) continue;
    schedule.rows = RowCount::bucket;
    if (legal(tuned.op, schedule, machine).empty()) return one.time_us;
  }
  return 0;
}

using Choose = std::function<AutoSchedule(const Segment& op, const Tuning& left)>;

Tally tally(const std::vector<TunedOperator>& all, const Without& what, bool few_rows,
            const Machine& machine, const Choose& choose) {
  Tally found;
  for (const TunedOperator& tuned : all) {
    if ((tuned.op.m < kFewRows) != few_rows) continue;
    const AutoSchedule chosen = choose(tuned.op, without(all, what, tuned.op));
    found.add(measured_us(tuned, chosen.schedule, machine), best_us(tuned, machine),
              tuned.library_us);
  }
  return found;
}

TEST(ServedChoice, IsHardlyBehindTheSimulatedOne) {
  const Machine machine = load_machine("h200x8");
  const int sampled = static_cast<int>(sweep_step(2));
  std::vector<TunedOperator> all;
  const Tuning shipped = shipped_tuning();
  int i = 0;
  for (const TunedOperator& tuned : shipped.operators()) {
    if (tuned.op.m > kMostRows || best_us(tuned, machine) == 0) continue;
    if (i++ % sampled == 0) all.push_back(tuned);
  }
  Predictions predictions(machine);
  const Choose simulated = [&](const Segment& op, const Tuning& left) {
    return expected_schedule(op, machine, left, RowCount::bucket, RowsFrom::host, predictions);
  };
  const Choose served = [&](const Segment& op, const Tuning& left) {
    return served_schedule(op, machine, left);
  };
  fmt::print(
      "| not known | M | choice | choices measured | best / chosen | worst | 10 % slower "
      "| slower than cuBLAS and NCCL | x these |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const Without& what : kWithout) {
    for (const bool few_rows : {true, false}) {
      const Tally by_simulation = tally(all, what, few_rows, machine, simulated);
      const Tally at_once = tally(all, what, few_rows, machine, served);
      for (const auto& [name, of] :
           {std::pair{"simulated", &by_simulation}, {"served", &at_once}}) {
        fmt::print("| {} | {} {} | {} | {}\n", what.name, few_rows ? "<" : ">=", kFewRows, name,
                   of->cells());
      }
      ASSERT_GT(at_once.asked, 60 / sampled);
      EXPECT_GT(at_once.known, at_once.asked * 3 / 4);
      EXPECT_GT(at_once.mean_of_best(), few_rows ? 0.99 : 0.93);
      EXPECT_GT(at_once.mean_of_best(), by_simulation.mean_of_best() - 0.06);
      EXPECT_EQ(at_once.slower_than_library, 0);
    }
  }
}

}  // namespace
}  // namespace stretto
