// Schedules of operators with several products: what they are made of.
#include <algorithm>

#include "schedule/one_collector.h"
#include "schedule/only_tiles.h"
#include "schedule/row_parts.h"
#include "schedule/scheduled_segments.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto {

Mover OperatorSchedule::mover_of_edge(std::string_view segment) const {
  const auto found = std::find_if(edges.begin(), edges.end(),
                                  [&](const EdgeSchedule& edge) { return edge.name == segment; });
  return found == edges.end() ? Mover::epilogue : found->mover;
}

OperatorSchedule schedule_of(const Preset& preset, const Operator& op, const Machine& machine,
                             int split) {
  OperatorSchedule schedule;
  schedule.split = split;
  const Operator of_part = equal_part(op, split);
  const std::vector<const OperatorSegment*> products = scheduled_products(of_part);
  for (const OperatorSegment* product : products) {
    schedule.products.push_back(preset.make(*product->product, machine));
    part_by_source(op, split, *product->product, schedule.products.back());
    take_tiles_where_only_these_serve(of_part, *product, schedule.products.back());
    if (op.only_product() == nullptr) schedule.names.push_back(product->name);
  }
  std::vector<Schedule*> made;
  for (Schedule& one : schedule.products) made.push_back(&one);
  take_nccl_where_any_must(products, made);
  return schedule;
}

bool is_deterministic(const OperatorSchedule& schedule) {
  return std::all_of(schedule.products.begin(), schedule.products.end(),
                     [](const Schedule& one) { return is_deterministic(one); });
}

void check_products(const Operator& op, const OperatorSchedule& schedule) {
  STRETTO_ASSERT(scheduled_products(op).size() == schedule.products.size(),
                 "a schedule for each product of the operator");
}

}  // namespace stretto
