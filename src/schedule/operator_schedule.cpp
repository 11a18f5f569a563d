// Schedules of operators with several products: their text, and whether they can serve.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

std::vector<const OperatorSegment*> products_of(const Operator& op) {
  std::vector<const OperatorSegment*> products;
  for (const OperatorSegment& segment : op.segments) {
    if (segment.product) products.push_back(&segment);
  }
  return products;
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::string to_string(const OperatorSchedule& schedule) {
  std::string text;
  for (size_t i = 0; i < schedule.products.size(); ++i) {
    if (i > 0) text += "/";
    if (i < schedule.names.size()) text += schedule.names[i] + ":";
    text += to_string(schedule.products[i]);
  }
  return text;
}

OperatorSchedule parse_schedules(std::string_view text, const Operator& op, const Machine& machine,
                                 std::span<const std::string_view> words) {
  const std::vector<const OperatorSegment*> products = products_of(op);
  std::vector<std::string_view> names;
  for (const OperatorSegment* product : products) names.push_back(product->name);
  std::vector<std::optional<Schedule>> found(products.size());
  std::vector<std::string> reasons;
  for (const std::string_view whole : split(text, '/')) {
    std::string_view part = without_blanks(whole);
    const size_t colon = part.find(':');
    size_t first = 0, last = products.size();
    std::string prefix;
    if (colon != std::string_view::npos) {
      const std::string_view name = without_blanks(part.substr(0, colon));
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end()) {
        reasons.push_back(unknown_word("segment", name, names));
        continue;
      }
      first = static_cast<size_t>(at - names.begin());
      last = first + 1;
      prefix = fmt::format("{}: ", name);
      part = without_blanks(part.substr(colon + 1));
    }
    for (size_t i = first; i < last; ++i) {
      try {
        found[i] = parse_schedule(part, *products[i]->product, machine, words);
      } catch (const UsageError& error) {
        reasons.push_back(prefix + error.what());
        break;  // the others would say the same
      }
    }
  }
  OperatorSchedule schedule;
  if (op.only_product() == nullptr) schedule.names.assign(names.begin(), names.end());
  for (size_t i = 0; i < found.size() && reasons.empty(); ++i) {
    if (!found[i]) {
      reasons.push_back(fmt::format("no schedule for {}: begin with one for all, \"tiles/{}:...\"",
                                    names[i], names[i]));
    } else {
      schedule.products.push_back(*found[i]);
    }
  }
  if (!reasons.empty()) throw UsageError(join(reasons, "; "));
  return schedule;
}

std::vector<std::string> legal(const Operator& op, const OperatorSchedule& schedule,
                               const Machine& machine) {
  const std::vector<const OperatorSegment*> products = products_of(op);
  check_products(op, schedule);
  std::vector<std::string> reasons;
  for (size_t i = 0; i < products.size(); ++i) {
    const std::string prefix =
        op.only_product() != nullptr ? "" : fmt::format("{}: ", products[i]->name);
    for (const std::string& reason : legal(*products[i]->product, schedule.products[i], machine)) {
      reasons.push_back(prefix + reason);
    }
    const Schedule &one = schedule.products[i], &first = schedule.products.front();
    // These are said once for a plan.
    if (one.gemm != first.gemm || one.algorithm != first.algorithm ||
        one.collectives != first.collectives || one.cluster != first.cluster) {
      reasons.push_back(prefix + fmt::format("gemm, algorithm, collectives and cluster are one for "
                                             "all products: take those of {}",
                                             products.front()->name));
    }
    if (op.only_product() == nullptr && one.rows != RowCount::fixed) {
      reasons.push_back(prefix + "rows=bucket serves operators of one product: take rows=fixed");
    }
  }
  return reasons;
}

OperatorSchedule schedule_of(const Preset& preset, const Operator& op, const Machine& machine) {
  OperatorSchedule schedule;
  for (const OperatorSegment* product : products_of(op)) {
    schedule.products.push_back(preset.make(*product->product, machine));
    if (op.only_product() == nullptr) schedule.names.push_back(product->name);
  }
  return schedule;
}

bool is_deterministic(const OperatorSchedule& schedule) {
  return std::all_of(schedule.products.begin(), schedule.products.end(),
                     [](const Schedule& one) { return is_deterministic(one); });
}

void check_products(const Operator& op, const OperatorSchedule& schedule) {
  STRETTO_ASSERT(products_of(op).size() == schedule.products.size(),
                 "a schedule for each product of the operator");
}

}  // namespace stretto
