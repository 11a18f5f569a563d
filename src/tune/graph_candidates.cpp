// What a sweep measures of an operator that is not one product.
#include <algorithm>

#include "schedule/row_parts.h"
#include "stretto/error.h"
#include "stretto/tune.h"
#include "tune/expected_schedule.h"
#include "tune/predict.h"
#include "tune/product_turns.h"

namespace stretto {
namespace {

constexpr double kHopeless = 2;  // times what is predicted of the fastest
constexpr int kMostSplit = 2;

class Candidates {
 public:
  Candidates(const Operator& op, const Machine& machine, Predictions& predictions)
      : op_(op), machine_(machine), predictions_(predictions) {}

  // Those that can serve and are not known yet, simulated on all cores.
  void add(const std::vector<OperatorSchedule>& schedules) {
    const size_t first = all_.size();
    for (const OperatorSchedule& schedule : schedules) {
      const auto is_it = [&](const GraphCandidate& one) { return one.schedule == schedule; };
      if (std::any_of(all_.begin(), all_.end(), is_it)) continue;
      if (legal(op_, schedule, machine_).empty()) all_.push_back({schedule, 0});
    }
    std::vector<OperatorSchedule> added;
    for (size_t i = first; i < all_.size(); ++i) added.push_back(all_[i].schedule);
    const std::vector<double> us = predictions_.us(op_, added);
    for (size_t i = 0; i < added.size(); ++i) all_[first + i].predicted_us = us[i];
  }

  const GraphCandidate& fastest() const {
    return *std::min_element(all_.begin(), all_.end(), is_faster);
  }
  bool any() const { return !all_.empty(); }
  size_t count() const { return all_.size(); }

  // The first `kept` that are not hopeless, and of the others so many, the fastest first.
  std::vector<GraphCandidate> take(size_t kept, size_t more) {
    const double most = kHopeless * fastest().predicted_us;
    std::vector<GraphCandidate> taken(all_.begin(), all_.begin() + static_cast<long>(kept));
    std::vector<GraphCandidate> rest(all_.begin() + static_cast<long>(kept), all_.end());
    std::stable_sort(rest.begin(), rest.end(), is_faster);
    rest.resize(std::min(more, rest.size()));
    taken.insert(taken.end(), rest.begin(), rest.end());
    std::erase_if(taken, [&](const GraphCandidate& one) { return one.predicted_us > most; });
    std::stable_sort(taken.begin(), taken.end(), is_faster);
    return taken;
  }

 private:
  static bool is_faster(const GraphCandidate& a, const GraphCandidate& b) {
    return a.predicted_us < b.predicted_us;
  }

  const Operator& op_;
  const Machine& machine_;
  Predictions& predictions_;
  std::vector<GraphCandidate> all_;
};

std::vector<OperatorSchedule> of_presets(const Operator& op, const Machine& machine) {
  std::vector<OperatorSchedule> all;
  for (int split = 1; split <= kMostSplit; ++split) {
    if (split > 1 && !why_no_split(op, split).empty()) break;
    for (const Preset& preset : presets()) all.push_back(schedule_of(preset, op, machine, split));
  }
  return all;
}

}  // namespace

std::vector<GraphCandidate> graph_candidates(const Operator& op, const Machine& machine,
                                             size_t more) {
  const std::vector<OperatorSchedule> whole = of_presets(op, machine);
  Predictions predictions(machine);  // what `auto` weighs is asked for again
  Candidates candidates(op, machine, predictions);
  std::vector<OperatorSchedule> usual = whole;
  usual.push_back(auto_schedules(op, machine, Tuning(), predictions).schedule);
  candidates.add(usual);
  if (!candidates.any()) {
    throw UsageError(op.name() + ": no preset can serve it on this machine");
  }
  const size_t kept = candidates.count();
  // One product after the other, beside what the others have now.
  const size_t products = candidates.fastest().schedule.products.size();
  for (const std::vector<size_t>& turn : product_turns(op)) {
    const OperatorSchedule now = candidates.fastest().schedule;
    std::vector<OperatorSchedule> changed;
    for (const OperatorSchedule& other : whole) {
      if (other.split != now.split || other.products.size() != products) continue;
      OperatorSchedule one = now;
      for (const size_t p : turn) one.products[p] = other.products[p];
      changed.push_back(std::move(one));
    }
    candidates.add(changed);
  }
  return candidates.take(kept, more);
}

std::vector<GraphCandidate> candidates_to_measure(const Operator& op, const Machine& machine,
                                                  size_t more) {
  const Segment* const only = op.only_product();
  if (only == nullptr) return graph_candidates(op, machine, more);
  std::vector<GraphCandidate> all;
  for (const Candidate& one : sweep_candidates(*only, machine, more)) {
    all.push_back({one.schedule, one.predicted_us});
  }
  return all;
}

}  // namespace stretto
