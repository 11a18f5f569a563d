// Operators of several products: what each of them would have alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "schedule/set_rows.h"
#include "stretto/error.h"
#include "stretto/tune.h"
#include "tune/expected_schedule.h"
#include "tune/nearness.h"
#include "tune/routed_auto.h"
#include "tune/sureness.h"
#include "tune/together.h"

namespace stretto {
namespace {

// Not in how the operator is split over ranks, nor in what it is: how far apart the largest of its
// sizes are. Nothing: it says nothing of `op`.
std::optional<double> apart_in_sizes(const TunedGraph& tuned, const Operator& op,
                                     const Machine& machine) {
  if (tuned.machine != machine.name || is_of_another_gpu(tuned, machine)) return std::nullopt;
  if (tuned.op.name() != op.name() || tuned.op.ranks != op.ranks ||
      num_bytes(tuned.op.dtype) != num_bytes(op.dtype)) {
    return std::nullopt;
  }
  // A caller's own graph may have a shipped one's name.
  if (tuned.op.text != op.text && print(*tuned.op.text) != print(*op.text)) return std::nullopt;
  double most = tuned.op.dtype == op.dtype ? 0 : 1e-6;
  for (size_t i = 0; i < op.sizes.size(); ++i) {
    most = std::max(most, apart(tuned.op.sizes[i].second, op.sizes[i].second));
  }
  return most;
}

constexpr size_t kMostTold = 16;  // products in a reason
const double kNearSizes = std::log(2.001);

std::optional<AutoSchedules> measured_graph(const Operator& op, const Machine& machine,
                                            const Tuning& tuning, RowCount rows,
                                            double most_apart = kNearSizes) {
  std::vector<std::pair<double, const TunedGraph*>> near;
  for (const TunedGraph& tuned : tuning.graphs()) {
    const auto distance = apart_in_sizes(tuned, op, machine);
    if (distance && *distance <= most_apart) near.emplace_back(*distance, &tuned);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [distance, tuned] : near) {
    for (const Measured& measured : tuned->measured) {
      AutoSchedules chosen;
      try {
        chosen.schedule = parse_schedules(measured.schedule, op, machine);
      } catch (const UsageError&) {  // a split, for example, of more rows than there are
        continue;
      }
      for (Schedule& product : chosen.schedule.products) {
        if (product.partials != DType::fp32) product.partials = op.dtype;
      }
      set_rows(chosen.schedule, rows);
      if (!legal(op, chosen.schedule, machine).empty()) continue;
      chosen.reason = fmt::format(
          "the fastest that can serve this of {} measured on {}: {:.1f} us, {:.2f}x "
          "cuBLAS and NCCL",
          tuned->measured.size(), distance == 0 ? "it" : to_string(tuned->op), measured.time_us,
          tuned->library_us / measured.time_us);
      if (distance == 0) chosen.sureness = sure_by_measurement(measured);
      return chosen;
    }
  }
  return std::nullopt;
}

// Nobody measures them alone: products that ranks make each for itself, and what is one side of a
// product with an edge on both.
AutoSchedule of_unnamed(const Segment& product, const Machine& machine) {
  AutoSchedule found;
  found.schedule = find_preset("tiles").make(product, machine);
  if (product.communicates()) {
    found.reason = "tiles, since nothing is known of it alone";
    found.sureness = sure_elsewhere(product, HUGE_VAL, 0);
  } else {
    found.reason = "tiles, since nothing of it communicates";
    found.sureness.within = 0;
  }
  return found;
}

// What one product has alone: those that are alike ask once.
class ChosenAlone {
 public:
  template <typename Choose>
  const AutoSchedule& of(const Segment& product, const Choose& choose) {
    for (const auto& [known, chosen] : known_) {
      if (known == product) return chosen;
    }
    known_.emplace_back(product, choose(product));
    return known_.back().second;
  }

 private:
  std::deque<std::pair<Segment, AutoSchedule>> known_;
};

AutoSchedules chosen_by(const Operator& op, const Machine& machine, const Tuning& tuning,
                        RowCount rows, RowsFrom from, Predictions& predictions) {
  const bool is_one = op.only_product() != nullptr;
  AutoSchedules chosen;
  if (!is_one) {
    if (auto measured = measured_graph(op, machine, tuning, rows)) return *measured;
  }
  if (any_by_tables(op)) return routed_schedules(op, machine, rows, predictions);
  ChosenAlone alone;
  const auto choose = [&](const Segment& whole) {
    if (!whole.has_name()) return of_unnamed(whole, machine);
    const Segment product = of_one_weight(whole);
    return rows == RowCount::bucket ? served_schedule(product, machine, tuning, from)
                                    : auto_schedule(product, machine, tuning, predictions);
  };
  size_t untold = 0;
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product) continue;
    const AutoSchedule& found = alone.of(*segment.product, choose);
    chosen.schedule.products.push_back(for_weights_of(*segment.product, found.schedule));
    if (!is_one) chosen.schedule.names.push_back(segment.name);
    if (chosen.schedule.products.size() > kMostTold) {
      ++untold;
    } else {
      if (!chosen.reason.empty()) chosen.reason += "; ";
      if (!is_one) chosen.reason += segment.name + ": ";
      chosen.reason += found.reason;
    }
    const bool is_least_sure =
        chosen.schedule.products.size() == 1 || found.sureness.within > chosen.sureness.within;
    if (is_least_sure) chosen.sureness = found.sureness;
  }
  if (untold > 0) chosen.reason += fmt::format("; and so on for {} more", untold);
  return is_one ? chosen
                : fastest_together(op, machine, tuning, rows, std::move(chosen), predictions);
}

}  // namespace

AutoSchedules auto_schedules(const Operator& op, const Machine& machine, const Tuning& tuning,
                             RowCount rows, RowsFrom from) {
  Predictions predictions(machine);
  return chosen_by(op, machine, tuning, rows, from, predictions);
}

AutoSchedules auto_schedules(const Operator& op, const Machine& machine, const Tuning& tuning,
                             Predictions& predictions) {
  return chosen_by(op, machine, tuning, RowCount::fixed, RowsFrom::host, predictions);
}

std::optional<AutoSchedules> measured_schedules(const Operator& op, const Machine& machine,
                                                const Tuning& tuning) {
  return measured_graph(op, machine, tuning, RowCount::fixed, 0);
}

}  // namespace stretto
