// The table: operators x presets x element types x ranks x ragged shapes x seeds, and every legal
// schedule of the space on small ones. Exact on integers, within the bound on random data, the same
// bits for every seed and for every schedule that adds in fixed order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "core/sampling.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"

namespace stretto::emu {
namespace {

struct Shape {
  int64_t m, n, k;
  const char* tile;
};

// Runs one schedule under some seeds, on integers and on random data.
class Table {
 public:
  explicit Table(const Segment& op) : Table(op, default_machine(op.ranks)) {}
  Table(const Segment& op, const Machine& machine) : op_(op), machine_(machine) {}

  // False when the schedule is not legal for the operator.
  bool try_schedule(const Schedule& schedule, int seeds) {
    if (!legal(op_, schedule, machine_).empty()) return false;
    const std::string name = to_string(op_) + "\n" + to_string(schedule);
    const Plan plan = lower(op_, schedule, machine_);
    run(plan, schedule, Fill::integers, seeds, name);
    run(plan, schedule, Fill::random, seeds, name);
    return true;
  }
  bool try_schedule(const std::string& text, int seeds) {
    return try_schedule(parse_schedule(text, op_, machine_), seeds);
  }
  const Segment& op() const { return op_; }

 private:
  void run(const Plan& plan, const Schedule& schedule, Fill fill, int seeds,
           const std::string& name) {
    uint64_t first = 0;
    for (int i = 0; i < seeds; ++i) {
      const uint64_t seed = next_seed_++;
      const EmulateResult result =
          emulate(plan, {.seed = seed, .fill = fill, .runs = 3, .reference = reference_});
      ASSERT_TRUE(result.finished) << name << "\nseed " << seed << ": " << result.stuck.at(0).lane
                                   << " waits for " << result.stuck.at(0).signal;
      ASSERT_TRUE(result.faults.empty())
          << name << "\nseed " << seed << ": " << result.faults[0].text;
      ASSERT_TRUE(result.verified) << name << "\nseed " << seed << ": " << result.first_wrong;
      ASSERT_TRUE(result.ranks_agree) << name << "\nseed " << seed;
      if (i == 0) first = result.output_hash;
      ASSERT_EQ(result.output_hash, first) << name << "\nseed " << seed;
    }
    // Integers: all schedules agree. Random data: all that round the same way.
    if (fill == Fill::random && !is_deterministic(schedule)) return;
    const DType partials = fill == Fill::random ? schedule.partials : DType::fp32;
    const auto [known, is_new] = bits_.try_emplace({fill, partials}, first);
    EXPECT_EQ(known->second, first) << name << "\nhas other bits than the schedules before it";
  }

  Segment op_;
  Machine machine_;
  std::shared_ptr<SharedReference> reference_ = make_shared_reference();
  std::map<std::pair<Fill, DType>, uint64_t> bits_;
  uint64_t next_seed_ = 1;
};

struct Cell {
  ProductKind kind;
  int ranks;
};

std::string cell_name(const testing::TestParamInfo<Cell>& cell) {
  std::string name(to_string(cell.param.kind));
  for (char& c : name) c = c == '-' ? '_' : c;
  return fmt::format("{}_x{}", name, cell.param.ranks);
}

std::vector<Cell> cells(std::initializer_list<int> ranks) {
  std::vector<Cell> all;
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr, kGemmA2a, kA2aGemm}) {
    for (const int count : ranks) all.push_back({kind, count});
  }
  return all;
}

class Presets : public testing::TestWithParam<Cell> {};
INSTANTIATE_TEST_SUITE_P(, Presets, testing::ValuesIn(cells({1, 2, 3, 4, 8})), cell_name);

TEST_P(Presets, AreRightForEveryShapeTypeAndSeed) {
  const auto& [kind, ranks] = GetParam();
  // A single row; fewer rows than ranks; nothing that divides; tiles that fit; shards cut by tiles.
  const Shape shapes[] = {{1, 24, 48, "16x16"},
                          {5, 48, 24, "8x32"},
                          {67, 72, 72, "16x32"},
                          {96, 96, 48, "24x24"},
                          {131, 120, 24, "32x48"}};
  int runs = 0, number = 0;
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
      if (number++ % all_or_sample(1, 4) != 0) continue;
      Table table({kind, shape.m, shape.n, shape.k, ranks, dtype});
      for (const Preset& preset : presets()) {
        runs += table.try_schedule(fmt::format("{},tile={}", preset.name, shape.tile), 2);
        if (HasFatalFailure()) return;
      }
    }
  }
  // Of 135: 5 shapes, 3 types, 9 presets; 4 of these make an all-to-all, all on one rank.
  const bool exchanges = Segment{kind}.exchanges() && ranks > 1;
  EXPECT_GE(runs, exchanges ? all_or_sample(45, 12) : all_or_sample(80, 20));
}

class Space : public testing::TestWithParam<Cell> {};
INSTANTIATE_TEST_SUITE_P(, Space, testing::ValuesIn(cells({2, 3})), cell_name);

TEST_P(Space, EveryLegalScheduleIsRight) {
  const auto& [kind, ranks] = GetParam();
  Table table({kind, 43, 48, 24, ranks, DType::bf16});
  int tried = 0, served = 0;
#define STRETTO_EACH(name, text, ...) Coordinate::name,
#define STRETTO_VALUES(TABLE) {TABLE(STRETTO_EACH)}
  std::vector<Schedule> schedules;
  {
    using Coordinate = Granularity;
    for (const Granularity granularity : STRETTO_VALUES(STRETTO_GRANULARITIES)) {
      Schedule schedule;
      schedule.granularity = granularity;
      schedule.tile_m = 8;
      schedule.tile_n = 16;
      schedule.swizzle = 3;
      schedules.push_back(schedule);
    }
  }
  // Each coordinate multiplies the list by its values.
  const auto cross = [&](auto member, auto values) {
    std::vector<Schedule> crossed;
    for (const Schedule& schedule : schedules) {
      for (const auto value : values) {
        crossed.push_back(schedule);
        crossed.back().*member = value;
      }
    }
    schedules = std::move(crossed);
  };
  {
    using Coordinate = Order;
    cross(&Schedule::order, std::vector<Order> STRETTO_VALUES(STRETTO_ORDERS));
  }
  {
    using Coordinate = Mover;
    cross(&Schedule::mover, std::vector<Mover> STRETTO_VALUES(STRETTO_MOVERS));
  }
  {
    using Coordinate = Sync;
    cross(&Schedule::sync, std::vector<Sync> STRETTO_VALUES(STRETTO_SYNCS));
  }
  {
    using Coordinate = Reduction;
    cross(&Schedule::reduction, std::vector<Reduction> STRETTO_VALUES(STRETTO_REDUCTIONS));
  }
  {
    using Coordinate = Reuse;
    cross(&Schedule::reuse, std::vector<Reuse> STRETTO_VALUES(STRETTO_REUSES));
  }
#undef STRETTO_VALUES
#undef STRETTO_EACH
  cross(&Schedule::partials, std::vector<DType>{DType::bf16, DType::fp32});
  cross(&Schedule::comm_sms, std::vector<int>{0, 3});
  cross(&Schedule::chunks, std::vector<int>{1, 2});
  for (size_t i = 0; i < schedules.size(); i += kSampleStep) {
    ++tried;
    served += table.try_schedule(schedules[i], 1);
    if (HasFatalFailure()) return;
  }
  std::printf("%s with %d ranks: %d of %d schedules are legal; all are right\n",
              std::string(to_string(kind)).c_str(), ranks, served, tried);
  EXPECT_GE(served, all_or_sample(40, 5));
}

// Two nodes: NCCL crosses them, and orders that put what crosses first.
TEST(Nodes, PresetsAreRightOnTwoNodes) {
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr, kGemmA2a, kA2aGemm}) {
    Table table({kind, 70, 96, 48, 16, DType::bf16});
    int runs = 0;
    for (const Preset& preset : presets()) {
      runs += table.try_schedule(fmt::format("{},tile=8x32", preset.name), 2);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(runs, 3);
  }
}

// One node of more ranks than a tile is added to where it is computed.
TEST(ManyRanks, SumsAreRight) {
  Machine machine = default_machine(2);
  machine.ranks_per_node = 17;
  machine.sms = 3;  // so that lanes have several tiles
  for (const ProductKind kind : {kGemmRs, kGemmAr}) {
    Table table({kind, 75, 96, 51, 17, DType::bf16}, machine);
    for (const char* schedule : {"tiles,comm-sms=0", "tiles,mover=copy-engine,comm-sms=0"}) {
      ASSERT_TRUE(table.try_schedule(std::string(schedule) + ",tile=16x32", 2)) << schedule;
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace stretto::emu
