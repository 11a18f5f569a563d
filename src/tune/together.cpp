#include "tune/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/rows_with_tiles.h"
#include "tune/beyond_simulated.h"

namespace stretto {
namespace {

// Products share SMs, movers and boundaries, and a norm between them goes with some and not with
// others, so that their times alone do not add up.
constexpr std::string_view kForAll[] = {"tiles", "decomposed", "low-latency", "sequential",
                                        "library"};
// What each product would have alone stays unless it is expected to take so many times as long: of
// the rows of bench/results/layers_h200_x2.json none up to 2048 rows was simulated further off
// (tests/tune/measured_layers_test.cpp).
constexpr double kClearly = 1.07;

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

// Schedules whose tiles' lanes take the rows behind them: of sums that owners make, and of those
// that rows make of what all ranks sent, which go by rows of tiles, so that these are whole one
// after the other. Small tiles leave less for the links behind the last wave.
std::vector<Contender> with_rows(const Operator& op, const Machine& machine,
                                 const Contender& tiles) {
  struct Point {
    Reduction reduction;
    Order order;
    int swizzle;
  };
  constexpr Point kPoints[] = {{Reduction::two_shot, Order::interleaved, 4},
                               {Reduction::two_shot, Order::interleaved, 8},
                               {Reduction::one_shot, Order::plain, 2},
                               {Reduction::one_shot, Order::plain, 4}};
  std::vector<Contender> all;
  const auto add = [&](Contender one) {
    const size_t before = one.schedule.edges.size();
    one.schedule = with_rows_by_tiles(op, one.schedule);
    if (one.schedule.edges.size() > before && legal(op, one.schedule, machine).empty()) {
      for (std::string& name : one.names) name += ", which take rows";
      all.push_back(std::move(one));
    }
  };
  add(tiles);
  for (const Point& point : kPoints) {
    for (const int columns : {128, 256}) {
      Contender one = tiles;
      for (Schedule& product : one.schedule.products) {
        if (product.reduction != Reduction::two_shot) continue;
        product.reduction = point.reduction;
        product.order = point.order;
        product.swizzle = point.swizzle;
        product.tile_m = std::max(product.tile_m, 128);
        product.tile_n = columns;
      }
      add(std::move(one));
    }
  }
  return all;
}

std::string what_it_is(const Contender& one, const std::vector<std::string>& products) {
  const auto differs = [&](const std::string& name) { return name != one.names.front(); };
  if (std::none_of(one.names.begin(), one.names.end(), differs)) {
    return one.names.front() + " for all";
  }
  std::string text;
  for (size_t p = 0; p < one.names.size(); ++p) {
    text += fmt::format("{}{} for {}", p == 0 ? "" : ", ", one.names[p], products[p]);
  }
  return text;
}

}  // namespace

AutoSchedules fastest_together(const Operator& op, const Machine& machine, const Tuning& tuning,
                               RowCount rows, AutoSchedules alone, Predictions& predictions) {
  const size_t products = alone.schedule.products.size();
  const auto from = [&](std::string_view name, OperatorSchedule schedule) {
    for (Schedule& product : schedule.products) product.rows = rows;
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
  all.add(for_all);
  if (!all.any()) return alone;
  // One product after the other, beside what the others have in the fastest yet, and beside what is
  // fastest for each.
  for (size_t p = 0; p < products && rows == RowCount::fixed; ++p) {
    const Contender fastest = all.fastest();
    std::vector<Contender> changed;
    const auto change = [&](std::string_view name, const Schedule& to) {
      for (const Contender& others : {fastest, for_all.front()}) {
        changed.push_back(others);
        changed.back().names[p] = name;
        changed.back().schedule.products[p] = to;
      }
    };
    for (const Contender& other : for_all) change(other.names[p], other.schedule.products[p]);
    for (const Schedule& near : all.near_fastest_alone(p)) change("near the fastest alone", near);
    all.add(std::move(changed));
  }
  if (rows == RowCount::fixed) {
    Contender tiles = from("tiles", schedule_of(find_preset("tiles"), op, machine));
    for (Schedule& product : tiles.schedule.products) {
      if (product.partials != DType::fp32) product.partials = op.dtype;
    }
    all.add(with_rows(op, machine, tiles));
    all.add(with_rows(op, machine, all.fastest()));
  }
  const Contender& fastest = all.fastest();
  if (goes_together && alone_us <= kClearly * fastest.us) return alone;
  alone.schedule = fastest.schedule;
  alone.reason = fmt::format(
      "{}, expected: {:.0f} us; {}", what_it_is(fastest, alone.schedule.names), fastest.us,
      goes_together ? fmt::format("what is fastest for each {:.0f}", alone_us)
                    : "what is fastest for each does not go together");
  alone.sureness = {};
  return alone;
}

}  // namespace stretto
