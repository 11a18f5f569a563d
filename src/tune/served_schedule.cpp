// What a server takes for a bucket that it meets inside a call: nothing is lowered or simulated.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schedule/gather_order.h"
#include "stretto/error.h"
#include "stretto/tune.h"
#include "tune/nearness.h"
#include "tune/shortlist.h"
#include "tune/sureness.h"
#include "tune/sweep.h"
#include "tune/usual_schedules.h"

namespace stretto {
namespace {

// Chosen by tests/tune/served_choice_test.cpp's table. Waves of tiles that are full on one shape
// are not on another, so that several shapes say more of a schedule than the nearest alone.
constexpr size_t kSpeaking = 12;
// An operator at a distance of 1, a factor of 2.7, counts 0.14 times as much as one at none.
constexpr double kReach = 0.5;
// Beside them stands the doubt that a schedule is so much slower than the fastest, with the weight
// of a measurement at no distance: the less was measured of it, the faster it has to be.
constexpr double kDoubt = 1.3, kWeightOfDoubt = 1;

// Up to so many rows cuBLAS and low-latency collectives were the fastest of what serves on nearly
// all that was measured, of each size and number of ranks. Gathers lose little to them a while on,
// up to 256 rows of each rank: on 8 ranks tiles whose columns are few were slower than cuBLAS and
// NCCL with 1024 and 2048 rows, which low-latency collectives were on none.
int64_t few_rows(const Segment& op) {
  constexpr int64_t kFew = 256;
  return op.makes_terms() ? kFew : kFew * std::max(op.ranks, 2);
}

// Gathers in phases of K have plans of several times the tasks: with more copies than these by a
// rank a call would wait more than 1 ms a rank longer than for whole rows.
constexpr int64_t kMostPhasedCopies = 1024;

bool takes_long_to_plan(const Segment& op, const Schedule& schedule) {
  if (schedule.k_phases == 1) return false;
  const int64_t stripes = (op.m + schedule.tile_m - 1) / schedule.tile_m;
  return stripes * op.ranks * schedule.k_phases > kMostPhasedCopies;
}

Schedule swept(const Schedule& arriving, const Segment& op, const Machine& machine) {
  const bool are_tiles = arriving.gemm == GemmBy::tiles && arriving.order == Order::arrival &&
                         arriving.mover == Mover::comm_blocks;
  if (!are_tiles) return arriving;
  Schedule swept = arriving;
  swept.order = Order::own_first;
  swept.k_phases = 1;  // own rows hide the way of the others
  swept.own = Schedule().own;
  swept.start = Schedule().start;
  return legal(op, swept, machine).empty() ? swept : arriving;
}

struct Weighed {
  Schedule schedule;
  double sum = 0, weight = 0;  // of the logarithm of its time over the fastest's, over operators

  double slowness() const {
    return (sum + kWeightOfDoubt * std::log(kDoubt)) / (weight + kWeightOfDoubt);
  }
};

void add_measured(std::vector<Weighed>& candidates, const TunedOperator& tuned, const Segment& op,
                  const Machine& machine, RowsFrom from) {
  const double weight = std::exp(-reach(tuned, op, machine) / kReach);
  struct Serving {
    Schedule schedule;
    double us;
  };
  std::vector<Serving> serving;
  double fastest_us = 0;
  const bool sweeps = goes_in_sweeps(op, machine) && !goes_in_sweeps(tuned.op, machine);
  for (const Measured& measured : tuned.measured) {
    auto schedule = as_measured(tuned, measured, op, machine, RowCount::bucket, from);
    if (!schedule) continue;
    if (sweeps) schedule = swept(*schedule, op, machine);
    if (takes_long_to_plan(op, *schedule)) continue;
    const double us = measured.time_us + us_beyond_measured(*schedule, tuned.op, machine, from);
    if (serving.empty() || us < fastest_us) fastest_us = us;
    serving.push_back({*schedule, us});
  }
  for (const auto& [schedule, us] : serving) {
    auto known = std::find_if(candidates.begin(), candidates.end(), [&](const Weighed& one) {
      return comparable(one.schedule) == comparable(schedule);
    });
    if (known == candidates.end()) known = candidates.insert(known, {schedule});
    known->sum += weight * std::log(us / fastest_us);
    known->weight += weight;
  }
}

struct Nearby {
  std::vector<Expectation> schedules;  // the fastest first
  AutoSchedule chosen;
};

std::optional<Nearby> fastest_nearby(const Segment& op, const Machine& machine,
                                     const Tuning& tuning, RowsFrom from) {
  std::vector<const TunedOperator*> speaking = speaking_for(op, machine, tuning);
  std::erase_if(speaking,
                [&](const TunedOperator* tuned) { return reach(*tuned, op, machine) > kFar; });
  if (speaking.size() > kSpeaking) speaking.resize(kSpeaking);
  std::vector<Weighed> candidates;
  for (const TunedOperator* tuned : speaking) {
    add_measured(candidates, *tuned, op, machine, from);
  }
  if (candidates.empty()) return std::nullopt;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Weighed& a, const Weighed& b) { return a.slowness() < b.slowness(); });
  std::vector<Expectation> expected;
  for (const Weighed& one : candidates) {
    expected.push_back({one.schedule, std::exp(one.slowness())});
  }
  const TunedOperator& nearest = *speaking.front();
  const Expectation& best = expected.front();
  return Nearby{
      expected,
      with_sureness(
          {best.schedule,
           fmt::format("the fastest of {} that serve, by what was measured on {}{}, not simulated "
                       "(stretto tune measures it)",
                       candidates.size(),
                       speaking.size() > 1 ? fmt::format("{} shapes, first ", speaking.size()) : "",
                       where_measured(nearest, machine))},
          sure_elsewhere(op, reach(nearest, op, machine),
                         lead_of(best.schedule, best.us, expected)))};
}

AutoSchedule by_size(const Segment& op, const Machine& machine, RowsFrom from) {
  std::vector<Schedule> serving = usual_schedules(op, machine, RowCount::bucket);
  std::erase_if(serving, [&](const Schedule& one) { return !serves_from(one, op, from); });
  require_some_serve(!serving.empty());
  const bool is_few = op.m <= few_rows(op);
  for (const char* name : {"low-latency", "tiles"}) {
    if (name == std::string_view("low-latency") && !is_few) continue;
    Schedule preset = find_preset(name).make(op, machine);
    preset.rows = RowCount::bucket;
    const Schedule in_order = goes_in_sweeps(op, machine) ? swept(preset, op, machine) : preset;
    if (std::find(serving.begin(), serving.end(), preset) == serving.end()) continue;
    return with_sureness(
        {in_order, fmt::format("{} for {} rows: nothing that serves was measured within a "
                               "factor of four on {} (stretto tune measures it)",
                               name, op.m, machine.name)},
        sure_elsewhere(op, HUGE_VAL, 0));
  }
  return with_sureness({serving.front(), "the first preset that serves this"},
                       sure_elsewhere(op, HUGE_VAL, 0));
}

}  // namespace

AutoSchedule served_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                             RowsFrom from) {
  if (auto found = measured_schedule(op, machine, tuning, RowCount::bucket, from)) return *found;
  if (auto found = fastest_nearby(op, machine, tuning, from)) return found->chosen;
  return by_size(op, machine, from);
}

std::vector<Expectation> served_shortlist(const Segment& op, const Machine& machine,
                                          const Tuning& tuning) {
  const auto near = fastest_nearby(op, machine, tuning, RowsFrom::host);
  std::vector<Expectation> found;
  const auto add = [&](const Expectation& expected) {
    const auto is_same = [&](const Expectation& known) {
      return comparable(known.schedule) == comparable(expected.schedule);
    };
    if (std::none_of(found.begin(), found.end(), is_same)) found.push_back(expected);
  };
  add({served_schedule(op, machine, tuning).schedule, near ? near->schedules.front().us : 1});
  if (near) {
    for (const Expectation& one : near->schedules) add(one);
  }
  for (const Schedule& usual : usual_schedules(op, machine, RowCount::bucket)) {
    add({usual, HUGE_VAL});
  }
  return found;
}

}  // namespace stretto
