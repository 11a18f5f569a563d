// Shipped operators asked for as if what was measured of them, or more, did not exist; what is
// chosen is looked up in it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "stretto/tune.h"
#include "tune/sureness.h"

namespace stretto {

inline constexpr int64_t kMostRows = 2048;  // larger plans take too long for a test

struct Without {
  const char* name;
  std::function<bool(const Segment& one, const Segment& asked)> takes_away;
};

inline const Without kWithout[] = {
    {"the operator", [](const Segment& one, const Segment& asked) { return one == asked; }},
    {"its N and K, whatever the rows and ranks",
     [](const Segment& one, const Segment& asked) { return one.n == asked.n && one.k == asked.k; }},
    {"its number of ranks",
     [](const Segment& one, const Segment& asked) { return one.ranks == asked.ranks; }},
    {"its number of ranks, and N and K of a rank",
     [](const Segment& one, const Segment& asked) {
       const bool multiplies_alike =
           one.local_n() == asked.local_n() && one.local_k() == asked.local_k();
       return one.ranks == asked.ranks || multiplies_alike;
     }},
    {"anything", [](const Segment&, const Segment&) { return true; }}};

inline Tuning without(const std::vector<TunedOperator>& all, const Without& what,
                      const Segment& asked) {
  Tuning left;
  for (const TunedOperator& one : all) {
    if (!what.takes_away(one.op, asked)) left.add(one);
  }
  return left;
}

// Whatever a run's rows may be, and cuBLAS tiles products by itself.
inline bool is_same(Schedule a, Schedule b) {
  for (Schedule* one : {&a, &b}) {
    one->rows = RowCount::fixed;
    if (one->gemm != GemmBy::library) continue;
    one->tile_m = one->tile_n = one->swizzle = 0;
  }
  return a == b;
}

// Microseconds that the schedule took; 0 where it was not measured.
inline double measured_us(const TunedOperator& tuned, const Schedule& schedule,
                          const Machine& machine) {
  for (const Measured& one : tuned.measured) {
    if (is_same(parse_schedule(one.schedule, tuned.op, machine), schedule)) return one.time_us;
  }
  return is_same(schedule, find_preset("library").make(tuned.op, machine)) ? tuned.library_us : 0;
}

// Of what `auto` can take from elsewhere: all but algorithms that cuBLAS does not propose first.
inline double fastest_measured_us(const TunedOperator& tuned, const Machine& machine) {
  double best = tuned.library_us;
  for (const Measured& one : tuned.measured) {
    if (parse_schedule(one.schedule, tuned.op, machine).algorithm != 0) continue;
    best = std::min(best, one.time_us);
  }
  return best;
}

struct Tally {
  int asked = 0, known = 0, tenth_slower = 0, slower_than_library = 0;
  double log_of_best = 0, log_of_library = 0, worst = 1;

  void add(double us, double best_us, double library_us) {
    ++asked;
    if (us == 0) return;
    ++known;
    worst = std::min(worst, best_us / us);
    log_of_best += std::log(best_us / us);
    log_of_library += std::log(library_us / us);
    tenth_slower += us > 1.1 * best_us;
    slower_than_library += us > 1.02 * library_us;  // beyond what a repetition differs by
  }
  double mean_of_best() const { return std::exp(log_of_best / known); }
  std::string cells() const {
    return fmt::format("{} of {} | {:.3f} | {:.2f} | {} | {} | {:.2f} |", known, asked,
                       mean_of_best(), worst, tenth_slower, slower_than_library,
                       std::exp(log_of_library / known));
  }
};

}  // namespace stretto
