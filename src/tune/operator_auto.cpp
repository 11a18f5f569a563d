// Operators of several products: what each of them would have alone.
#include <algorithm>

#include "stretto/tune.h"

namespace stretto {
namespace {

void set_rows(OperatorSchedule& schedule, RowCount rows) {
  for (Schedule& product : schedule.products) product.rows = rows;
}

bool any_routed(const Operator& op) {
  return std::any_of(op.segments.begin(), op.segments.end(), [](const OperatorSegment& segment) {
    return segment.product && segment.product->is_routed();
  });
}

}  // namespace

AutoSchedules auto_schedules(const Operator& op, const Machine& machine, const Tuning& tuning,
                             RowCount rows, RowsFrom from) {
  const bool is_one = op.only_product() != nullptr;
  const bool serves = rows == RowCount::bucket && !is_one;
  AutoSchedules chosen;
  if (any_routed(op)) {
    chosen.schedule = schedule_of(find_preset("tiles"), op, machine);
    set_rows(chosen.schedule, rows);
    chosen.reason = "tiles, since nothing is tuned of rows that choose experts";
    return chosen;
  }
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product) continue;
    AutoSchedule found = serves ? served_schedule(*segment.product, machine, tuning, from)
                                : auto_schedule(*segment.product, machine, tuning, rows);
    chosen.schedule.products.push_back(found.schedule);
    if (!is_one) chosen.schedule.names.push_back(segment.name);
    if (!chosen.reason.empty()) chosen.reason += "; ";
    if (!is_one) chosen.reason += segment.name + ": ";
    chosen.reason += found.reason;
    const bool is_least_sure =
        chosen.schedule.products.size() == 1 || found.sureness.within > chosen.sureness.within;
    if (is_least_sure) chosen.sureness = found.sureness;
  }
  if (is_one || legal(op, chosen.schedule, machine).empty()) return chosen;
  chosen.schedule = schedule_of(find_preset("tiles"), op, machine);
  set_rows(chosen.schedule, rows);
  chosen.reason = "tiles, since what is fastest for each product does not go together";
  chosen.sureness = {};
  return chosen;
}

}  // namespace stretto
