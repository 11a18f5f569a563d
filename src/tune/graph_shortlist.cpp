#include "tune/graph_shortlist.h"

#include <algorithm>
#include <utility>

#include "schedule/row_parts.h"
#include "tune/expected_schedule.h"
#include "tune/routed_auto.h"
#include "tune/shortlist.h"
#include "tune/together.h"

namespace stretto {
namespace {

class Listed {
 public:
  Listed(const Operator& op, const Machine& machine, size_t most)
      : op_(op), machine_(machine), most_(most) {}

  bool is_full() const { return found_.size() >= most_; }
  void add(const OperatorSchedule& one) {
    if (is_full() || std::find(found_.begin(), found_.end(), one) != found_.end()) return;
    if (legal(op_, one, machine_).empty()) found_.push_back(one);
  }
  std::vector<OperatorSchedule> take() { return std::move(found_); }

 private:
  const Operator& op_;
  const Machine& machine_;
  const size_t most_;
  std::vector<OperatorSchedule> found_;
};

// Of each product what it would be measured with alone, but for what `auto` takes.
std::vector<std::vector<Schedule>> others_of_products(const Operator& op, const Machine& machine,
                                                      const Tuning& tuning, size_t most,
                                                      Predictions& predictions) {
  std::vector<std::vector<Schedule>> others;
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product) continue;
    std::vector<Schedule>& of_product = others.emplace_back();
    if (!segment.product->has_name()) continue;  // nothing is known of it alone
    of_product = shortlist(of_one_weight(*segment.product), machine, tuning, RowCount::fixed, most,
                           predictions);
    for (Schedule& one : of_product) one = for_weights_of(*segment.product, one);
  }
  return others;
}

}  // namespace

std::vector<OperatorSchedule> graph_shortlist(const Operator& op, const Machine& machine,
                                              const Tuning& tuning, size_t most,
                                              Predictions& predictions) {
  Listed listed(op, machine, most);
  const OperatorSchedule first = auto_schedules(op, machine, tuning, predictions).schedule;
  listed.add(first);
  listed.add(schedule_of(find_preset("library"), op, machine));
  if (first.split == 1 && why_no_split(op, 2).empty()) {
    OperatorSchedule parts = first;
    parts.split = 2;
    listed.add(parts);
  }
  listed.add(schedule_of(find_preset("tiles"), op, machine));
  if (any_by_tables(op)) {
    for (const auto& one : routed_contenders(op, machine, RowCount::fixed, predictions)) {
      listed.add(one.schedule);
    }
    return listed.take();
  }
  if (first.split > 1) return listed.take();  // its products have fewer rows
  const auto others = others_of_products(op, machine, tuning, most, predictions);
  for (size_t place = 0; place < most && !listed.is_full(); ++place) {
    for (size_t p = 0; p < others.size(); ++p) {
      if (place >= others[p].size()) continue;
      OperatorSchedule changed = first;
      changed.products[p] = others[p][place];
      listed.add(changed);
    }
  }
  return listed.take();
}

}  // namespace stretto
