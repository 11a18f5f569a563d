// How long it takes to prove, simulate and emulate layers of experts of eight ranks: what a user
// waits for, held in seconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "core/sampling.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

// Of a processor or of a clock on the wall, whichever are less: other processes take from one,
// threads of its own add to the other.
template <typename Function>
double seconds_of(const Function& function) {
  const std::clock_t cpu = std::clock();
  const auto wall = std::chrono::steady_clock::now();
  function();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - wall;
  return std::min(passed.count(), static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
}

template <typename Function>
double least_seconds_of(const Function& function) {
  return std::min({seconds_of(function), seconds_of(function), seconds_of(function)});
}

Plan plan_of(const char* text, const char* preset) {
  const Machine machine = default_machine(8);
  const Operator op = parse_operator(text, {8, DType::bf16});
  return lower(op, schedule_of(find_preset(preset), op, machine), machine);
}

class TimeOfExperts : public testing::TestWithParam<const char*> {};

// A second each is what is promised. A sixth of one was measured, where others had half of the
// processors: three times that is a change for the worse.
TEST_P(TimeOfExperts, ToProveAndToSimulate) {
  constexpr double kMostSeconds = all_or_sample(0.5, 20.0);
  const Plan plan = plan_of("moe-ep t=4096 h=7168 f=2048 experts=64 k=8", GetParam());
  EXPECT_LT(least_seconds_of([&] { EXPECT_TRUE(check(plan).clean()); }), kMostSeconds);
  const Machine machine = default_machine(8);
  EXPECT_LT(least_seconds_of([&] { EXPECT_GT(simulate(plan, machine).total_us, 0); }),
            kMostSeconds);
}

INSTANTIATE_TEST_SUITE_P(, TimeOfExperts,
                         testing::Values("tiles", "low-latency", "library", "sequential"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Half a minute is what is promised, of one run and what it is compared with. Two seconds were
// measured.
TEST(TimeOfAnEmulation, OfExperts) {
  const Plan plan = plan_of("moe-ep t=256 h=1024 f=768 experts=64 k=8", "tiles");
  EmulateOptions options;
  options.runs = 1;
  const double seconds = seconds_of([&] {
    const EmulateResult result = emulate(plan, options);
    EXPECT_TRUE(result.verified) << result.first_wrong;
  });
  EXPECT_LT(seconds, all_or_sample(6.0, 200.0));
}

}  // namespace
}  // namespace stretto
