// cuBLAS's own choice is often not its fastest, and only a measurement tells.
#include <algorithm>

#include "stretto/tune.h"

namespace stretto {
namespace {

// Where cuBLAS multiplies and takes longer than this over the fastest, another of its algorithms is
// not measured: it made products of some shapes up to 1.36 times as fast, and products are a part
// of a schedule's time.
constexpr double kTooSlow = 1.2;

}  // namespace

std::vector<Schedule> algorithms_to_measure(const Segment& op, const Machine& machine,
                                            const std::vector<Measured>& measured) {
  std::optional<Schedule> by_library;
  double library_us = 0, fastest_us = 0;
  for (const Measured& one : measured) {
    if (&one == &measured.front() || one.time_us < fastest_us) fastest_us = one.time_us;
    const Schedule schedule = parse_schedule(one.schedule, op, machine);
    if (schedule.gemm != GemmBy::library || schedule.algorithm != 0) continue;
    if (by_library && one.time_us >= library_us) continue;
    by_library = schedule;
    library_us = one.time_us;
  }
  std::vector<Schedule> others;
  if (!by_library || library_us > kTooSlow * fastest_us) return others;
  for (int algorithm = 1; algorithm < kMostAlgorithms; ++algorithm) {
    others.push_back(*by_library);
    others.back().algorithm = algorithm;
  }
  return others;
}

}  // namespace stretto
