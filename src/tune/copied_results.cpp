#include "tune/copied_results.h"

#include <fmt/format.h>

#include <algorithm>

#include "tune/weighed.h"

namespace stretto {
namespace {

// A copy behind the last kernel of a graph starts (bench/results/unseen_torch_h200_x2.json beside
// unseen_h200_x2.json, sums of 344 x 8192 and 510 x 5120: 4.5 and 5.0 us with what they move).
constexpr double kCopyStartUs = 1.5;
// Where the copy is less than this share of what the product takes, it is not worth a simulation of
// other choices.
constexpr double kWorthAChoice = 0.05;

}  // namespace

double copied_result_us(const Schedule& schedule, const Segment& op, const Machine& machine) {
  if (!op.adds_for_all() || schedule.reduction != Reduction::two_shot) return 0;
  const auto bytes = static_cast<double>(op.m * op.n * num_bytes(op.dtype));
  return kCopyStartUs + 2 * bytes / (machine.hbm_gb_per_s * 1e3);
}

AutoSchedules with_copied_results(AutoSchedules chosen, const Segment& op, const Machine& machine,
                                  const Tuning& tuning) {
  const Schedule schedule = chosen.schedule.first();
  const double copy_us = copied_result_us(schedule, op, machine);
  const double product_us = flops_per_rank(op) / (machine.gemm_tflops * 1e6);
  if (copy_us <= kWorthAChoice * product_us) return chosen;
  const std::vector<WeighedSchedule> all = weighed_schedules(op, machine, tuning);
  const auto known = std::find_if(
      all.begin(), all.end(), [&](const WeighedSchedule& one) { return one.schedule == schedule; });
  // What this process has measured itself is known better than the others here.
  const bool is_learnt = chosen.sureness.by == Evidence::measured;
  if (known == all.end() || (is_learnt && !known->is_measured)) return chosen;
  const auto with_copy = [&](const WeighedSchedule& one) {
    return one.us + copied_result_us(one.schedule, op, machine);
  };
  const auto best = std::min_element(all.begin(), all.end(),
                                     [&](const WeighedSchedule& a, const WeighedSchedule& b) {
                                       return with_copy(a) < with_copy(b);
                                     });
  if (with_copy(*best) >= with_copy(*known)) return chosen;
  chosen.schedule = best->schedule;
  chosen.reason = fmt::format(
      "{:.1f} us {}, the fastest where results are copied to the caller, {:.1f} us with the copy; "
      "without it: {}",
      best->us, best->is_measured ? "measured" : "expected", with_copy(*known), chosen.reason);
  return chosen;
}

}  // namespace stretto
