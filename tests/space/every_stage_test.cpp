// Random points through every stage. A legal one lowers to a plan that prints and parses to itself,
// is proved, computes exactly what the reference says, and has a predicted end. An illegal one is
// refused with its reasons, by `legal` and by `lower` alike.
//
// For a long walk over other points: test_space --gtest_shuffle --gtest_repeat=1000
#include <gtest/gtest.h>

#include <cmath>

#include "space/random_point.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

constexpr int kPoints = 600;

std::string first_fault(const EmulateResult& result) {
  if (!result.faults.empty()) return result.faults.front().text;
  if (!result.stuck.empty()) {
    return result.stuck.front().lane + " waits for " + result.stuck.front().signal;
  }
  return result.first_wrong;
}

void expect_refused(const Point& point, std::vector<std::string> reasons) {
  // An operator that is none has no schedules to speak of.
  if (!problems(point.op).empty()) reasons = problems(point.op);
  for (const std::string& reason : reasons) {
    EXPECT_FALSE(reason.empty());
    EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
  }
  try {
    lower(point.op, point.schedule, point.machine);
    ADD_FAILURE() << "lowered, although: " << reasons.front();
  } catch (const UsageError& error) {
    for (const std::string& reason : reasons) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << reason;
    }
  }
}

void expect_served(const Point& point, uint64_t seed) {
  OperatorSchedule schedule = point.schedule;
  schedule.split = 1 + static_cast<int>(seed % 3);
  if (!legal(point.op, schedule, point.machine).empty()) schedule.split = 1;
  SCOPED_TRACE(schedule.split);
  const Plan plan = lower(point.op, schedule, point.machine);
  const std::string text = print(plan);
  EXPECT_EQ(print(parse_plan(text)), text);

  const CheckReport report = check(plan);
  EXPECT_TRUE(report.clean()) << report.diagnostics.front().message;

  const EmulateResult result =
      emulate(plan, {.seed = seed, .data_seed = seed, .fill = Fill::integers, .runs = 3});
  EXPECT_TRUE(result.finished && result.verified && result.faults.empty())
      << "seed " << seed << ": " << first_fault(result);

  const Simulation simulation = simulate(plan, point.machine);
  EXPECT_TRUE(std::isfinite(simulation.total_us) && simulation.total_us > 0);
  EXPECT_GE(simulation.total_us, simulation.compute_us * (1 - 1e-9));
  EXPECT_LE(simulation.efficiency, 1 + 1e-9);
}

TEST(EveryStage, ServesOrRefusesRandomPoints) {
  const auto shuffle_seed = static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937_64 random(shuffle_seed);
  int served = 0;
  for (int i = 0; i < kPoints; ++i) {
    const Point point = random_point(random);
    SCOPED_TRACE(to_string(point));
    EXPECT_EQ(parse_schedule(to_string(point.schedule), point.op, point.machine), point.schedule);
    const std::vector<std::string> reasons = legal(point.op, point.schedule, point.machine);
    try {
      if (reasons.empty()) {
        ++served;
        expect_served(point, random());
      } else {
        expect_refused(point, reasons);
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (HasFailure()) return;
  }
  RecordProperty("served", served);
  EXPECT_GT(served, kPoints / 5);  // 148 to 204 of 600 over 80 seeds
  EXPECT_LT(served, kPoints * 3 / 4);
}

}  // namespace
}  // namespace stretto
