#include "tune/beyond_simulated.h"

#include <algorithm>
#include <tuple>

#include "tune/together.h"

namespace stretto {
namespace {

// More of them cost simulations, of which large graphs take long.
constexpr double kHardlyLonger = 1.06;
constexpr size_t kMostNear = 4;

// Tiles and orders aside, the simulation errs alike.
auto kind_of(const Schedule& one) {
  return std::tuple(one.gemm, one.collectives, one.mover, one.granularity);
}

}  // namespace

BeyondSimulated::BeyondSimulated(const Operator& op, const Machine& machine, const Tuning& tuning,
                                 Predictions& predictions) {
  std::vector<Segment> products;
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product) continue;
    const auto alike = std::find(products.begin(), products.end(), *segment.product);
    if (alike != products.end()) {
      std::vector<Known> same = by_product_[static_cast<size_t>(alike - products.begin())];
      by_product_.push_back(std::move(same));
      products.push_back(*segment.product);
      continue;
    }
    products.push_back(*segment.product);
    std::vector<Known>& known = by_product_.emplace_back();
    if (!segment.product->has_name()) continue;
    const Segment product = of_one_weight(*segment.product);
    auto weighed = weighed_schedules(product, machine, tuning, predictions);
    std::erase_if(weighed, [&](const WeighedSchedule& one) {
      return for_weights_of(*segment.product, one.schedule) != one.schedule;
    });
    std::vector<Schedule> schedules;
    for (const WeighedSchedule& one : weighed) schedules.push_back(one.schedule);
    const std::vector<double> simulated = predictions.us(product, schedules);
    for (size_t i = 0; i < weighed.size(); ++i) {
      known.push_back(
          {schedules[i], weighed[i].us, weighed[i].us - simulated[i], weighed[i].is_measured});
    }
  }
}

double BeyondSimulated::us(const OperatorSchedule& schedule) const {
  double us = 0;
  for (size_t p = 0; p < by_product_.size(); ++p) {
    const std::vector<Known>& known = by_product_[p];
    const Schedule& asked = schedule.products[p];
    auto found = std::find_if(known.begin(), known.end(), [&](const Known& one) {
      return one.is_measured && one.schedule == asked;
    });
    if (found == known.end()) {
      found = std::find_if(known.begin(), known.end(), [&](const Known& one) {
        return one.is_measured && kind_of(one.schedule) == kind_of(asked);
      });
    }
    if (found != known.end()) us += found->beyond_us;
  }
  return us;
}

std::vector<Schedule> BeyondSimulated::near_fastest(size_t p) const {
  std::vector<Schedule> near;
  for (const Known& one : by_product_[p]) {
    if (near.size() == kMostNear || one.us > kHardlyLonger * by_product_[p].front().us) break;
    near.push_back(one.schedule);
  }
  return near;
}

}  // namespace stretto
