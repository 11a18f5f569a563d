#include "tune/shortlist.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tune/near_measurements.h"
#include "tune/nearness.h"

namespace stretto {
namespace {

// How much longer than the fastest low-latency collectives may be expected to take and still have a
// place before the others: what one knows of tiles says little of them. Without a place they are
// missed where they were 7.5 % faster (tests/tune/unmeasured_shapes_test.cpp). With 1.25, or with a
// place for every way in which the operands of cuBLAS travel, one of the places that it takes is
// that of the fastest tiles, by 9 % (left_out_models_test.cpp).
constexpr double kNearlyAsFast = 1.15;
// What is expected to take so much longer is not worth a measurement, behind so many that are: on
// none of the shipped operators it was the fastest of its shortlist.
constexpr double kHopeless = 1.4;
constexpr size_t kAlways = 4;

// With fixed rows; the fastest expected first.
std::vector<Expectation> expected(const Segment& op, const Machine& machine, const Tuning& tuning,
                                  Predictions& predictions) {
  ExpectedNearby nearby =
      expected_nearby(op, tuning, machine, RowCount::fixed, RowsFrom::host, predictions);
  std::stable_sort(nearby.schedules.begin(), nearby.schedules.end(),
                   [](const Expectation& a, const Expectation& b) { return a.us < b.us; });
  return std::move(nearby.schedules);
}

class Listed {
 public:
  void add(const Schedule& one) {
    if (std::find(found_.begin(), found_.end(), one) == found_.end()) found_.push_back(one);
  }
  template <class Is>
  void add_best(const std::vector<Expectation>& all, double most_us, const Is& is) {
    const auto best = std::find_if(all.begin(), all.end(),
                                   [&](const Expectation& one) { return is(one.schedule); });
    if (best != all.end() && best->us <= most_us) add(best->schedule);
  }
  size_t size() const { return found_.size(); }
  std::vector<Schedule> take(size_t most) {
    found_.resize(std::min(found_.size(), most));
    return std::move(found_);
  }

 private:
  std::vector<Schedule> found_;
};

}  // namespace

std::vector<Schedule> shortlist(const Segment& op, const Machine& machine, const Tuning& tuning,
                                RowCount rows, size_t most, Predictions& predictions) {
  return shortlist_of(rows == RowCount::bucket ? served_shortlist(op, machine, tuning)
                                               : expected(op, machine, tuning, predictions),
                      op, machine, rows, most);
}

std::vector<Schedule> shortlist_of(const std::vector<Expectation>& all, const Segment& op,
                                   const Machine& machine, RowCount rows, size_t most) {
  Listed found;
  if (all.empty()) return {};
  found.add(all.front().schedule);
  if (rows == RowCount::fixed) {
    if (const auto library = library_for(op, machine)) found.add(*library);
  }
  found.add_best(all, HUGE_VAL, [](const Schedule& one) { return one.gemm == GemmBy::library; });
  found.add_best(all, kNearlyAsFast * all.front().us,
                 [](const Schedule& one) { return one.collectives == CollectivesBy::low_latency; });
  for (const Expectation& one : all) {
    const bool is_hopeless = rows == RowCount::fixed && one.us > kHopeless * all.front().us;
    if (!is_hopeless || found.size() < kAlways) found.add(one.schedule);
  }
  return found.take(most);
}

}  // namespace stretto
