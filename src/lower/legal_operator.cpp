// What makes the schedules of an operator impossible: of each product, of them together, and of the
// parts of its rows.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/legal_operator_rules.h"
#include "schedule/plan_size.h"
#include "schedule/row_parts.h"
#include "schedule/scheduled_segments.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

// Of an operator whose rows are not split, or of one part of them.
std::vector<std::string> legal_part(const Operator& op, const OperatorSchedule& schedule,
                                    const Machine& machine) {
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  std::vector<std::string> reasons;
  if (products.empty() && op.ranks > machine.ranks()) {
    reasons.push_back(fmt::format("{} ranks on {}, which has {}: take fewer or a larger machine",
                                  op.ranks, machine.name, machine.ranks()));
  }
  for (size_t i = 0; i < products.size(); ++i) {
    const std::string prefix =
        op.only_product() != nullptr ? "" : fmt::format("{}: ", products[i]->name);
    for (const std::string& reason : legal(*products[i]->product, schedule.products[i], machine)) {
      reasons.push_back(prefix + reason);
    }
    for (const std::string& reason : why_not_beside_others(op, schedule, i)) {
      reasons.push_back(prefix + reason);
    }
  }
  if (std::string why = why_no_sm_left(op, schedule, machine); !why.empty()) {
    reasons.push_back(std::move(why));
  }
  for (const EdgeSchedule& edge : schedule.edges) {
    if (std::string why = why_no_edge(op, schedule, edge); !why.empty()) {
      reasons.push_back(fmt::format("{}: {}", edge.name, why));
    }
  }
  return reasons;
}

std::vector<std::string> legal_size(const std::vector<const Operator*>& parts,
                                    const OperatorSchedule& schedule, const Machine& machine) {
  std::string why = why_too_many_instrs(parts, schedule, machine);
  if (why.empty()) return {};
  return {std::move(why)};
}

}  // namespace

std::vector<std::string> legal(const Operator& op, const OperatorSchedule& schedule,
                               const Machine& machine) {
  check_products(op, schedule);
  if (schedule.split < 1 || schedule.split > kMostParts) {
    return {fmt::format("split={}; it must be from 1 to {}", schedule.split, kMostParts)};
  }
  if (schedule.split > 1) {
    if (std::string why = why_no_split(op, schedule.split); !why.empty()) return {std::move(why)};
  }
  // What is wrong with the whole is wrong with its parts.
  std::vector<std::string> reasons = legal_part(op, schedule, machine);
  if (!reasons.empty()) return reasons;
  if (schedule.split == 1) return legal_size({&op}, schedule, machine);
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  for (size_t i = 0; i < products.size(); ++i) {
    const std::string why =
        why_no_source(op, schedule.split, *products[i]->product, schedule.products[i]);
    if (!why.empty()) reasons.push_back(fmt::format("{}: {}", products[i]->name, why));
  }
  if (!reasons.empty()) return reasons;
  for (const Schedule& one : schedule.products) {
    if (one.rows == RowCount::fixed) continue;
    return {
        fmt::format("split={} cuts rows where the plan says, and rows=bucket serves fewer: "
                    "take rows=fixed or split=1",
                    schedule.split)};
  }
  const RowParts cut = row_parts(op, schedule, machine);
  std::vector<const Operator*> parts;
  for (const RowPart& part : cut.parts) {
    parts.push_back(&part.op);
    for (const std::string& reason : legal_part(part.op, schedule, machine)) {
      const std::string of_part = fmt::format("a part of {} rows: {}", part.op.rows(), reason);
      if (std::find(reasons.begin(), reasons.end(), of_part) == reasons.end()) {
        reasons.push_back(of_part);
      }
    }
  }
  return reasons.empty() ? legal_size(parts, schedule, machine) : reasons;
}

}  // namespace stretto
