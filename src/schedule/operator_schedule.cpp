// Schedules of operators with several products: their text, and whether they can serve.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "schedule/coordinates.h"
#include "schedule/plan_size.h"
#include "schedule/row_parts.h"
#include "schedule/rows_with_tiles.h"
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

// What schedules name besides products: edges at none of them, and stages over rows. Of a name the
// product has it, then the edge.
std::vector<const OperatorSegment*> edges_of(const Operator& op) {
  const auto comes_before = [](const OperatorSegment& a, const OperatorSegment& b) {
    return !b.product && (a.product || (a.is_gather() && !b.is_gather()));
  };
  std::vector<const OperatorSegment*> edges;
  for (const OperatorSegment& segment : op.segments) {
    const bool is_taken =
        std::any_of(op.segments.begin(), op.segments.end(), [&](const OperatorSegment& other) {
          return other.name == segment.name && comes_before(other, segment);
        });
    if (!segment.product && !is_taken) edges.push_back(&segment);
  }
  return edges;
}

std::vector<std::string_view> names_of_edges(const Operator& op) {
  std::vector<std::string_view> names;
  for (const OperatorSegment* edge : edges_of(op)) names.push_back(edge->name);
  return names;
}

// Products of the same choices take their rows from one partition.
// Product `at` is held to the one that makes its input.
std::string why_other_parts(const Operator& op, const std::vector<const OperatorSegment*>& products,
                            const std::vector<Schedule>& schedules, size_t at) {
  const OperatorSegment& one = *products[at];
  if (!one.product->is_routed() || op.tensor(one.input).stage < 0) return {};
  for (size_t i = 0; i < at; ++i) {
    const bool leaves_partition =
        products[i]->product->is_routed() && products[i]->router_weights < 0;
    if (products[i]->result != one.input || !leaves_partition) continue;
    const Schedule &from = schedules[i], &own = schedules[at];
    if (from.tile_m == own.tile_m && from.granularity == own.granularity) return {};
    return fmt::format("rows are those of {}'s partition: take granularity={} and tiles of {} rows",
                       products[i]->name, to_string(from.granularity), from.tile_m);
  }
  return {};
}

// The first product whose tensors collectives move; 0 where there is none.
size_t first_that_collects(const OperatorSchedule& schedule) {
  const auto found = std::find_if(schedule.products.begin(), schedule.products.end(),
                                  [](const Schedule& one) { return one.mover == Mover::nccl; });
  return found == schedule.products.end() ? 0
                                          : static_cast<size_t>(found - schedule.products.begin());
}

// Lanes of all products are there at once, and NCCL's kernels fit beside none of them.
std::string why_no_sm_left(const Operator& op, const std::vector<const OperatorSegment*>& products,
                           const OperatorSchedule& schedule, const Machine& machine) {
  int blocks = 0, nccl = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const Schedule& one = schedule.products[i];
    const bool by_nccl = one.mover == Mover::nccl;
    if (by_nccl && products[i]->product->is_routed()) continue;
    int& most = by_nccl ? nccl : blocks;
    most = std::max(most, one.comm_sms);
  }
  if (op.ranks == 1 || blocks == 0 || nccl == 0 || blocks + nccl < machine.sms) return {};
  return fmt::format(
      "comm-sms={} for NCCL beside comm-sms={} of other products leave no SM to compute on: {} has "
      "{}, take at most {} together",
      nccl, blocks, machine.name, machine.sms, machine.sms - 1);
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

constexpr std::string_view kSplit = "split=";

// The split that the words name, 1 where none does.
int read_split(std::string_view text, const Operator& op, std::vector<std::string>& reasons) {
  std::optional<int> split_of_text;
  for (const std::string_view whole : split(text, '/')) {
    const std::string_view part = without_blanks(whole);
    if (!part.starts_with(kSplit)) continue;
    const std::string_view value = part.substr(kSplit.size());
    const std::optional<int64_t> number = int_from(value);
    if (split_of_text) {
      reasons.emplace_back("split is given twice");
    } else if (!number || *number < 1 || *number > kMostParts) {
      reasons.push_back(
          fmt::format("split={}: expected a whole number from 1 to {}", quote(value), kMostParts));
      split_of_text = 1;
    } else {
      split_of_text = static_cast<int>(*number);
      if (std::string why = why_no_split(op, *split_of_text); !why.empty()) {
        reasons.push_back(std::move(why));
        split_of_text = 1;
      }
    }
  }
  return split_of_text.value_or(1);
}

constexpr std::string_view kMoverOfEdge = "mover=";

// "mover=copy-engine"; adds what is wrong with it.
Mover read_edge(std::string_view name, std::string_view text, std::vector<std::string>& reasons) {
  if (text.starts_with(kMoverOfEdge)) {
    const std::string_view value = text.substr(kMoverOfEdge.size());
    if (const std::optional<Mover> mover = value_of<Mover>(value)) return *mover;
    reasons.push_back(fmt::format("{}: {}", name, unknown_word("mover", value, names_of<Mover>())));
  } else {
    reasons.push_back(fmt::format(
        "{} is an edge at no product, which has a mover alone: expected {}:{}copy-engine, found {}",
        name, name, kMoverOfEdge, quote(text)));
  }
  return Mover::epilogue;
}

}  // namespace

Mover OperatorSchedule::mover_of_edge(std::string_view segment) const {
  const auto found = std::find_if(edges.begin(), edges.end(),
                                  [&](const EdgeSchedule& edge) { return edge.name == segment; });
  return found == edges.end() ? Mover::epilogue : found->mover;
}

std::string to_string(const OperatorSchedule& schedule) {
  std::string text;
  if (schedule.split > 1) text = fmt::format("{}{}/", kSplit, schedule.split);
  for (size_t i = 0; i < schedule.products.size(); ++i) {
    if (i > 0) text += "/";
    if (i < schedule.names.size()) text += schedule.names[i] + ":";
    text += to_string(schedule.products[i]);
  }
  for (const EdgeSchedule& edge : schedule.edges) {
    if (!text.empty() && text.back() != '/') text += "/";
    text += fmt::format("{}:{}{}", edge.name, kMoverOfEdge, to_string(edge.mover));
  }
  return text;
}

OperatorSchedule parse_schedules(std::string_view text, const Operator& op, const Machine& machine,
                                 std::span<const std::string_view> words) {
  std::vector<std::string> reasons;
  OperatorSchedule schedule;
  schedule.split = read_split(text, op, reasons);
  const Operator of_part = equal_part(op, schedule.split);
  const std::vector<const OperatorSegment*> products = products_of(of_part);
  std::vector<std::string_view> names;
  for (const OperatorSegment* product : products) names.push_back(product->name);
  std::vector<std::optional<Schedule>> found(products.size());
  std::vector<bool> named(products.size(), false);
  const std::vector<const OperatorSegment*> segments = edges_of(of_part);
  const std::vector<std::string_view> edges = names_of_edges(of_part);
  std::vector<std::optional<Mover>> movers(edges.size());
  for (const std::string_view whole : split(text, '/')) {
    std::string_view part = without_blanks(whole);
    if (part.starts_with(kSplit)) continue;
    const size_t colon = part.find(':');
    size_t first = 0, last = products.size();
    std::string prefix;
    if (colon != std::string_view::npos) {
      const std::string_view name = without_blanks(part.substr(0, colon));
      const auto edge = std::find(edges.begin(), edges.end(), name);
      if (edge != edges.end()) {
        std::optional<Mover>& mover = movers[static_cast<size_t>(edge - edges.begin())];
        if (mover) reasons.push_back(fmt::format("{} is given twice", name));
        mover = read_edge(name, without_blanks(part.substr(colon + 1)), reasons);
        continue;
      }
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end()) {
        std::vector<std::string_view> known = names;
        known.insert(known.end(), edges.begin(), edges.end());
        reasons.push_back(unknown_word("segment", name, known));
        continue;
      }
      first = static_cast<size_t>(at - names.begin());
      if (named[first]) {
        reasons.push_back(fmt::format("{} is given twice", name));
        continue;
      }
      named[first] = true;
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
  for (size_t i = 0; i < edges.size(); ++i) {
    // Who sends an edge's rows if nobody says so; rows have a kernel of their own then.
    const bool is_default = segments[i]->is_gather() && movers[i] == Mover::epilogue;
    if (!movers[i] || is_default) continue;
    schedule.edges.push_back({std::string(edges[i]), *movers[i]});
  }
  return schedule;
}

namespace {

// The kernel of experts adds no rows of bias.
bool adds_bias(const Operator& op, const OperatorSegment& product) {
  return std::any_of(product.stages.begin(), product.stages.end(),
                     [&](int stage) { return op.stage(stage).kind == StageKind::bias; });
}

// Beside tables the mover kernel has no room for what would follow a library's product in memory.
bool goes_by_tables(const Operator& op) {
  return std::any_of(op.tensors.begin(), op.tensors.end(),
                     [](const Tensor& tensor) { return is_index(tensor.dtype); });
}

std::string why_no_library(const Operator& op, const OperatorSegment& product) {
  if (product.product->is_routed()) {
    return adds_bias(op, product) ? "gemm=library with a bias behind experts: take gemm=tiles" : "";
  }
  if (!product.product->is_dense() || product.stages.size() == 1 || !goes_by_tables(op)) return "";
  return fmt::format(
      "gemm=library with {} behind the product, which beside experts and look-ups only tiles do: "
      "take gemm=tiles",
      to_string(op.stage(product.stages.back()).kind));
}

// Of an edge at no product. A kernel that waits for NCCL would have to leave it SMs.
std::string why_no_edge(const Operator& op, const std::vector<const OperatorSegment*>& products,
                        const OperatorSchedule& schedule, const EdgeSchedule& edge) {
  const std::vector<const OperatorSegment*> known = edges_of(op);
  const auto found = std::find_if(known.begin(), known.end(), [&](const OperatorSegment* segment) {
    return segment->name == edge.name;
  });
  if (found == known.end()) return unknown_word("edge", edge.name, names_of_edges(op));
  if (!(*found)->is_gather()) {
    if (edge.mover == Mover::epilogue) return why_no_rows_with_tiles(op, schedule, **found);
    return fmt::format(
        "mover={} of stages over rows, which move nothing: take mover=epilogue, with which the "
        "lanes of tiles take them, or leave it out",
        to_string(edge.mover));
  }
  if (edge.mover == Mover::comm_blocks) {
    return "mover=comm-blocks of an edge at no product, beside which there is nothing to compute: "
           "take mover=epilogue, whose blocks are all";
  }
  if (edge.mover != Mover::nccl || op.ranks == 1) return {};
  for (size_t i = 0; i < schedule.products.size(); ++i) {
    const Schedule& one = schedule.products[i];
    const bool is_fast = one.mover == Mover::nccl && one.collectives == CollectivesBy::low_latency;
    if (one.sync == Sync::event && !is_fast) continue;
    return fmt::format(
        "mover=nccl beside {}'s {}: take {}, or mover=epilogue or copy-engine", products[i]->name,
        is_fast ? "collectives=low-latency"
                : fmt::format("sync={}, whose kernels would wait for it", to_string(one.sync)),
        is_fast ? "collectives=nccl" : "sync=event for all products");
  }
  return {};
}

// Of an operator whose rows are not split, or of one part of them.
std::vector<std::string> legal_part(const Operator& op, const OperatorSchedule& schedule,
                                    const Machine& machine) {
  const std::vector<const OperatorSegment*> products = products_of(op);
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
    const Schedule &one = schedule.products[i], &first = schedule.products.front();
    if (one.gemm == GemmBy::library) {
      if (std::string why = why_no_library(op, *products[i]); !why.empty()) {
        reasons.push_back(prefix + why);
      }
    }
    // These are said once for a plan.
    if (one.cluster != first.cluster) {
      reasons.push_back(prefix + fmt::format("cluster is one for all products: take that of {}",
                                             products.front()->name));
    }
    const size_t collects = first_that_collects(schedule);
    if (one.mover == Mover::nccl && one.collectives != schedule.products[collects].collectives) {
      reasons.push_back(
          prefix + fmt::format("collectives is one for all products with mover=nccl: take that of "
                               "{}",
                               products[collects]->name));
    }
    if (const std::string why = why_other_parts(op, products, schedule.products, i); !why.empty()) {
      reasons.push_back(prefix + why);
    }
    if (op.only_product() == nullptr && one.rows != RowCount::fixed) {
      reasons.push_back(prefix + "rows=bucket serves operators of one product: take rows=fixed");
    }
  }
  if (std::string why = why_no_sm_left(op, products, schedule, machine); !why.empty()) {
    reasons.push_back(std::move(why));
  }
  for (const EdgeSchedule& edge : schedule.edges) {
    if (std::string why = why_no_edge(op, products, schedule, edge); !why.empty()) {
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

OperatorSchedule schedule_of(const Preset& preset, const Operator& op, const Machine& machine,
                             int split) {
  OperatorSchedule schedule;
  schedule.split = split;
  const Operator of_part = equal_part(op, split);
  for (const OperatorSegment* product : products_of(of_part)) {
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
