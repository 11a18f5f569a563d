#include "tune/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/set_rows.h"
#include "tune/beyond_simulated.h"
#include "tune/phased_gathers.h"
#include "tune/product_turns.h"

namespace stretto {
namespace {

// Products share SMs, movers and boundaries, and a norm between them goes with some and not with
// others, so that their times alone do not add up.
constexpr std::string_view kForAll[] = {"tiles",    "decomposed", "low-latency",
                                        "few-rows", "sequential", "library"};
// What each product would have alone stays unless the others are expected to be faster by so much:
// up to 2048 rows none of bench/results/layers_h200_x2.json was simulated further off
// (tests/tune/measured_layers_test.cpp), and what is not known, starts of kernels and rounds of
// tiles, does not grow with plans. Of those of milliseconds all that it called faster were so.
constexpr double kClearly = 0.07, kClearlyUs = 60;

// Of two plans that are expected alike a chain of kernels of tiles, each of which begins while the
// one before it ends, is faster: MLPs of 512 rows took 0.97, 0.96 and 0.99 of what the fastest plan
// with a collective behind the second product took, where 0.99 to 1.01 was expected
// (bench/results/mlp_ways_h200_x2.json). Longer ones, whatever their kernels, are as expected.
constexpr double kAsFast = 1.03, kMostChainUs = 600;

bool is_chain(const OperatorSchedule& schedule) {
  return std::all_of(schedule.products.begin(), schedule.products.end(), [](const Schedule& one) {
    return one.gemm == GemmBy::tiles && one.mover != Mover::nccl && one.mover != Mover::copy_engine;
  });
}

// Schedules of all products, and where each of them is from.
struct Contender {
  std::vector<std::string> names;
  OperatorSchedule schedule;
  double us = 0;
};

bool is_faster(const Contender& a, const Contender& b) { return a.us < b.us; }

// Copy engines move what the library multiplies: there is no preset of it.
void multiply_by_library(OperatorSchedule& schedule) {
  for (Schedule& product : schedule.products) {
    product.gemm = GemmBy::library;
    product.reuse = Reuse::double_buffer;
  }
}

class Contenders {
 public:
  Contenders(const Operator& op, const Machine& machine, const Tuning& tuning, RowCount rows,
             Predictions& predictions)
      : op_(op), machine_(machine), predictions_(predictions) {
    if (rows == RowCount::fixed) beyond_.emplace(op, machine, tuning, predictions);
  }

  // Those that can serve and are new, with the time that is expected.
  void add(std::vector<Contender> more) {
    std::erase_if(more, [&](const Contender& one) {
      return knows(one.schedule) || !legal(op_, one.schedule, machine_).empty();
    });
    std::vector<OperatorSchedule> schedules;
    for (const Contender& one : more) schedules.push_back(one.schedule);
    const std::vector<double> us = predictions_.us(op_, schedules);
    for (size_t i = 0; i < more.size(); ++i) {
      more[i].us = us[i] + (beyond_ ? beyond_->us(schedules[i]) : 0);
    }
    all_.insert(all_.end(), more.begin(), more.end());
  }
  std::vector<Schedule> near_fastest_alone(size_t product) const {
    return beyond_ ? beyond_->near_fastest(product) : std::vector<Schedule>();
  }
  bool any() const { return !all_.empty(); }
  const Contender& fastest() const {
    return *std::min_element(all_.begin(), all_.end(), is_faster);
  }
  // The fastest chain, where it is expected to take no longer than the other, but for a little.
  const Contender* chain_as_fast_as(const Contender& other) const {
    if (other.us > kMostChainUs || is_chain(other.schedule)) return nullptr;
    const Contender* found = nullptr;
    for (const Contender& one : all_) {
      const bool is_as_fast = is_chain(one.schedule) && one.us <= kAsFast * other.us;
      if (is_as_fast && (found == nullptr || is_faster(one, *found))) found = &one;
    }
    return found;
  }

 private:
  bool knows(const OperatorSchedule& schedule) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const Contender& one) { return one.schedule == schedule; });
  }

  const Operator& op_;
  const Machine& machine_;
  Predictions& predictions_;
  std::optional<BeyondSimulated> beyond_;
  std::vector<Contender> all_;
};

std::string what_it_is(const Contender& one, const std::vector<std::string>& products) {
  const auto differs = [&](const std::string& name) { return name != one.names.front(); };
  if (std::none_of(one.names.begin(), one.names.end(), differs)) {
    return one.names.front() + " for all";
  }
  constexpr size_t kMostTold = 16;
  std::string text;
  for (size_t p = 0; p < one.names.size(); ++p) {
    if (p == kMostTold) return text + fmt::format(" and so on for {} more", one.names.size() - p);
    text += fmt::format("{}{} for {}", p == 0 ? "" : ", ", one.names[p], products[p]);
  }
  return text;
}

}  // namespace

AutoSchedules fastest_together(const Operator& op, const Machine& machine, const Tuning& tuning,
                               RowCount rows, AutoSchedules alone, Predictions& predictions) {
  const size_t products = alone.schedule.products.size();
  const auto from = [&](std::string_view name, OperatorSchedule schedule) {
    set_rows(schedule, rows);
    return Contender{std::vector<std::string>(products, std::string(name)), std::move(schedule)};
  };
  std::vector<Contender> for_all = {from("the fastest alone", alone.schedule)};
  for (const std::string_view name : kForAll) {
    for_all.push_back(from(name, schedule_of(find_preset(name), op, machine)));
  }
  OperatorSchedule copied = schedule_of(find_preset("decomposed"), op, machine);
  multiply_by_library(copied);
  for_all.push_back(from("decomposed,gemm=library", std::move(copied)));

  Contenders all(op, machine, tuning, rows, predictions);
  all.add({for_all.front()});
  const bool goes_together = all.any();
  const double alone_us = goes_together ? all.fastest().us : 0;
  for_all.front().us = alone_us;
  all.add(for_all);
  if (!all.any()) return alone;
  std::vector<const Segment*> segments;
  for (const OperatorSegment& segment : op.segments) {
    if (segment.product) segments.push_back(&*segment.product);
  }
  // One product after the other, beside what the others have in the fastest yet, and beside what is
  // fastest for each.
  const auto turns =
      rows == RowCount::fixed ? product_turns(op) : std::vector<std::vector<size_t>>();
  for (const std::vector<size_t>& turn : turns) {
    const size_t p = turn.front();
    const Contender fastest = all.fastest();
    std::vector<Contender> changed;
    const auto change = [&](std::string_view name, const Schedule& to) {
      for (const Contender& others : {fastest, for_all.front()}) {
        changed.push_back(others);
        for (const size_t of_turn : turn) {
          changed.back().names[of_turn] = name;
          changed.back().schedule.products[of_turn] = to;
        }
      }
    };
    for (const Contender& other : for_all) change(other.names[p], other.schedule.products[p]);
    for (const Schedule& near : all.near_fastest_alone(p)) change("near the fastest alone", near);
    for (const Schedule& one : gated_phases(*segments[p], machine)) change("tiles in phases", one);
    all.add(std::move(changed));
  }
  const Contender* chosen = &all.fastest();
  const double clearly_us = std::min(kClearly * chosen->us, kClearlyUs);
  const bool stays = goes_together && alone_us <= chosen->us + clearly_us;
  if (stays) chosen = &for_all.front();
  if (const Contender* const chain = all.chain_as_fast_as(*chosen)) {
    chosen = chain;
  } else if (stays) {
    return alone;
  }
  alone.schedule = chosen->schedule;
  alone.reason = fmt::format(
      "{}, expected: {:.0f} us; {}", what_it_is(*chosen, alone.schedule.names), chosen->us,
      goes_together ? fmt::format("what is fastest for each {:.0f}", alone_us)
                    : "what is fastest for each does not go together");
  alone.sureness = {};
  return alone;
}

}  // namespace stretto
