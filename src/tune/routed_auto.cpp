#include "tune/routed_auto.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "schedule/set_rows.h"
#include "tune/routed_ways.h"

namespace stretto {
namespace {

constexpr const char* kByCollectives = "library";
constexpr const char* kByBlocks = "library by all blocks";
constexpr const char* kByCopies = "library by copy engines";
constexpr const char* kBySource = "library by copy engines, source by source";
constexpr const char* kByIds = "low-latency";
constexpr const char* kTiles = "tiles";
constexpr const char* kSequential = "sequential";
constexpr const char* kLowTiles = "tiles in low entries";
constexpr const char* kMovedByBlocks = "all blocks";
constexpr const char* kWithWrittenSums = "library with written sums";
constexpr const char* kAroundByIds = "library, rows by ids";
constexpr const char* kCopiesThenIds = "library by copy engines, sums by ids";
constexpr const char* kBlocksThenIds = "library by all blocks, sums by ids";

bool has(const std::vector<RoutedContender>& all, std::string_view name) {
  return std::any_of(all.begin(), all.end(),
                     [&](const RoutedContender& one) { return one.name == name; });
}

// What communicates behind and ahead of products, and what beside them. The preset has a partition
// for each source where the rows that those pad may be worth it; one of all tokens is tried always.
std::vector<RoutedContender> contenders(const Operator& op, const Machine& machine, RowCount rows) {
  std::vector<RoutedContender> all;
  const auto add = [&](std::string name, OperatorSchedule schedule) {
    set_rows(schedule, rows);
    const bool is_new = std::none_of(all.begin(), all.end(), [&](const RoutedContender& known) {
      return known.schedule == schedule;
    });
    if (!is_new || !legal(op, schedule, machine).empty()) return;
    all.push_back({std::move(name), std::move(schedule)});
  };
  const OperatorSchedule tiles = schedule_of(find_preset(kTiles), op, machine);
  const OperatorSchedule sequential = schedule_of(find_preset(kSequential), op, machine);
  add(kTiles, tiles);
  add(kSequential, sequential);
  const OperatorSchedule library = schedule_of(find_preset(kByCollectives), op, machine);
  add(kByCollectives, library);
  const auto add_low_tiles = [&] {
    if (moves_rows_alone(op)) add(kLowTiles, in_low_entries(op, machine, tiles));
  };
  if (op.ranks == 1) {
    add_low_tiles();
    return all;
  }
  if (const auto blocks = by_all_blocks(op, library)) {
    add(kByBlocks, *blocks);
    add(kWithWrittenSums, with_nccl_ahead(*blocks));
    if (const auto copies = by_copies(op, *blocks)) {
      add(kByCopies, *copies);
      if (const auto ids = with_sums_by_ids(*copies)) add(kCopiesThenIds, *ids);
      if (const auto in_turn = by_source(op, *blocks)) add(kBySource, *in_turn);
    }
  }
  if (const auto ids = around_products_by_ids(op, machine, library)) {
    add(kAroundByIds, *ids);
  } else if (const auto blocks = by_all_blocks(op, library)) {
    if (const auto sums = with_sums_by_ids(*blocks)) add(kBlocksThenIds, *sums);
  }
  if (const auto moved = by_ids(op, machine, tiles)) {
    add(only_moves_rows(op) ? kByIds : "tiles beside low-latency", *moved);
  }
  if (!has(all, kByIds)) {  // it would come first
    if (const auto blocks = moved_by_all_blocks(op, sequential)) add(kMovedByBlocks, *blocks);
  }
  if (moves_rows_alone(op) && !only_moves_rows(op)) {
    for (const char* name : {kByIds, "few-rows"}) {
      add(name, schedule_of(find_preset(name), op, machine));
    }
  }
  add_low_tiles();
  OperatorSchedule whole = tiles;
  take_all_at_once(op, whole);
  add("tiles,granularity=whole", std::move(whole));
  return all;
}

// Ways of whole products are simulated within a few per cent of one another, and less apart than
// the simulation errs. Blocks took 0.74 to 0.95 of the time of collectives in each of 14 layers
// that two ranks were measured with (bench/results/experts_passes_h200_x2.json), and copy engines
// 0.92 to 0.97 of that of blocks in each of six of many tokens (docs/notes/moe.md), which is as
// they are simulated beside one another: so of these the faster comes first, as of rows by ids
// around products, which took 0.92 to 0.98 of the time of blocks in each of seven layers that are
// simulated at 0.87 to 0.96 of it (docs/notes/moe.md).
//
// On one rank tiles save the ends of kernels and no link, and nobody has timed rows that all blocks
// move: so these are taken where they are simulated to be faster by more than that.
//
// Rows by ids took 0.21 to 0.41 of what movers did, for 16, 128 and 4096 tokens of each of two
// ranks (bench/results/moved_h200_x2.json), and of movers the simulation leaves out up to 0.6: so
// these come first wherever they serve.
void prefer_what_was_faster(const Operator& op, std::vector<RoutedContender>& all) {
  constexpr double kErr = 1.04;
  const auto is_untimed = [&](const RoutedContender& one) {
    return one.name == kMovedByBlocks ||
           (op.ranks == 1 && (one.name == kTiles || one.name == kLowTiles));
  };
  if (is_untimed(all.front())) {
    const auto timed = std::find_if_not(all.begin(), all.end(), is_untimed);
    if (timed != all.end() && timed->us <= kErr * all.front().us) {
      std::rotate(all.begin(), timed, timed + 1);
    }
  }
  if (moves_rows_alone(op) && !only_moves_rows(op)) return;  // nobody has timed products beside
  const auto moved = std::find_if(all.begin(), all.end(),
                                  [](const RoutedContender& one) { return one.name == kByIds; });
  if (moved != all.end()) {
    std::rotate(all.begin(), moved, moved + 1);
    return;
  }
  const double most_us = kErr * all.front().us;
  const auto is_by_nccl = [](const RoutedContender& one) {
    return one.name == kByCollectives || one.name == kWithWrittenSums;
  };
  const auto prefer = [&](const auto& is_better) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const RoutedContender& one) {
      return one.us <= most_us && is_better(one);
    });
    if (found != all.end()) std::rotate(all.begin(), found, found + 1);
  };
  if (is_by_nccl(all.front())) {
    prefer([&](const RoutedContender& one) {
      return one.name.starts_with(kByCollectives) && !is_by_nccl(one);
    });
  }
  if (all.front().name == kByCopies || all.front().name == kCopiesThenIds) {
    prefer([](const RoutedContender& one) { return one.name == kBySource; });
  }
}

}  // namespace

bool any_by_tables(const Operator& op) {
  return std::any_of(op.segments.begin(), op.segments.end(), [](const OperatorSegment& segment) {
    return segment.product && !segment.product->is_dense();
  });
}

std::vector<RoutedContender> routed_contenders(const Operator& op, const Machine& machine,
                                               RowCount rows, Predictions& predictions) {
  std::vector<RoutedContender> all = contenders(op, machine, rows);
  if (all.size() < 2) return all;
  std::vector<OperatorSchedule> schedules;
  for (const RoutedContender& one : all) schedules.push_back(one.schedule);
  const std::vector<double> us = predictions.us(op, schedules);
  for (size_t i = 0; i < all.size(); ++i) all[i].us = us[i];
  // Of the equally fast the first.
  std::stable_sort(all.begin(), all.end(),
                   [](const RoutedContender& a, const RoutedContender& b) { return a.us < b.us; });
  prefer_what_was_faster(op, all);
  return all;
}

AutoSchedules routed_schedules(const Operator& op, const Machine& machine, RowCount rows,
                               Predictions& predictions) {
  const std::vector<RoutedContender> all = routed_contenders(op, machine, rows, predictions);
  AutoSchedules chosen;
  if (all.size() < 2) {
    const std::string name = all.empty() ? kTiles : all.front().name;
    if (all.empty()) {
      chosen.schedule = schedule_of(find_preset(name), op, machine);
      set_rows(chosen.schedule, rows);
    } else {
      chosen.schedule = all.front().schedule;
    }
    chosen.reason = op.ranks == 1 ? name + ", since no link has to be hidden"
                                  : name + ", since no other preset serves";
    return chosen;
  }
  chosen.schedule = all.front().schedule;
  chosen.reason = fmt::format("{}, simulated: {:.0f} us", all.front().name, all.front().us);
  for (size_t i = 1; i < all.size(); ++i) {
    chosen.reason += fmt::format(", {} {:.0f}", all[i].name, all[i].us);
  }
  return chosen;
}

}  // namespace stretto
