#include "tune/routed_ways.h"

#include <algorithm>

#include "schedule/routed_point.h"
#include "schedule/scheduled_segments.h"

namespace stretto {
namespace {

// Collectives of a plan are of one sort, also those of a router's product, which has none.
void set_collectives(OperatorSchedule& schedule) {
  for (Schedule& one : schedule.products) {
    if (one.mover == Mover::nccl) one.collectives = CollectivesBy::low_latency;
  }
}

}  // namespace

void take_all_at_once(const Operator& op, OperatorSchedule& schedule) {
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  for (size_t i = 0; i < products.size(); ++i) {
    if (products[i]->product->is_routed()) schedule.products[i].granularity = Granularity::whole;
  }
}

// The same without NCCL on the way: all SMs send tokens ahead of the products that take them, and
// who weighs rows writes sums to their owners, who add them.
std::optional<OperatorSchedule> by_all_blocks(const Operator& op, OperatorSchedule schedule) {
  bool any = false;
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  for (size_t i = 0; i < products.size(); ++i) {
    const Segment& product = *products[i]->product;
    Schedule& one = schedule.products[i];
    if (!product.is_routed() || product.only_moves() || one.mover != Mover::nccl) continue;
    any = true;
    one.mover = Mover::epilogue;
    if (one.reduction != Reduction::none) {
      one.reduction = product.adds_for_all() ? Reduction::two_shot : Reduction::slots;
    }
  }
  return any ? std::optional(std::move(schedule)) : std::nullopt;
}

// The same, but copy engines send the tokens that have to come, while ids come and tables are made.
std::optional<OperatorSchedule> by_copies(const Operator& op, OperatorSchedule by_blocks) {
  bool any = false;
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  for (size_t i = 0; i < products.size(); ++i) {
    const Segment& product = *products[i]->product;
    Schedule& one = by_blocks.products[i];
    const bool is_sent = product.is_routed() && product.kind.in != Edge::none;
    if (one.mover != Mover::epilogue || !is_sent) continue;
    one.mover = Mover::copy_engine;
    any = true;
  }
  return any ? std::optional(std::move(by_blocks)) : std::nullopt;
}

// The same, and own tokens are multiplied meanwhile. Measured on two ranks (docs/notes/moe.md),
// that took 0.95 of the time where an expert has 512 rows of each source and K is 2048, and 1.05
// to 1.07 where K is 4096, with 256 and 1024 rows: which the simulation does not tell apart.
std::optional<OperatorSchedule> by_source(const Operator& op, OperatorSchedule by_blocks) {
  constexpr int64_t kMostK = 2048, kLeastRows = 512;
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  for (size_t i = 0; i < products.size(); ++i) {
    const Segment& product = *products[i]->product;
    Schedule& one = by_blocks.products[i];
    if (one.mover != Mover::epilogue || !product.is_routed()) continue;
    const int64_t rows = product.row_shards().block() * product.top_k / product.experts;
    if (product.k > kMostK || rows < kLeastRows) return std::nullopt;
    one.mover = Mover::copy_engine;
    one.granularity = Granularity::chunk;
  }
  return by_blocks;
}

// The same, but for who brings tokens.
OperatorSchedule with_nccl_ahead(OperatorSchedule schedule) {
  for (Schedule& one : schedule.products) {
    if (one.mover == Mover::epilogue) one.mover = Mover::nccl;
  }
  return schedule;
}

// Whether no product is computed.
bool only_moves_rows(const Operator& op) {
  return std::all_of(op.segments.begin(), op.segments.end(), [](const OperatorSegment& one) {
    return !one.product || one.product->only_moves();
  });
}

bool moves_rows_alone(const Operator& op) {
  return std::any_of(op.segments.begin(), op.segments.end(), [](const OperatorSegment& one) {
    return one.product && one.product->is_routed() && one.product->only_moves();
  });
}

// All SMs send rows ahead of a partition and write sums to their owners, in the place of NCCL.
std::optional<OperatorSchedule> moved_by_all_blocks(const Operator& op,
                                                    OperatorSchedule sequential) {
  if (!only_moves_rows(op)) return std::nullopt;
  for (Schedule& one : sequential.products) {
    one.mover = Mover::epilogue;
    if (one.reduction != Reduction::none) one.reduction = Reduction::slots;
  }
  return sequential;
}

// Few rows are in order sooner in low entries.
OperatorSchedule in_low_entries(const Operator& op, const Machine& machine,
                                OperatorSchedule schedule) {
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  for (size_t i = 0; i < products.size(); ++i) {
    const Segment& product = *products[i]->product;
    if (product.is_routed() && product.only_moves())
      schedule.products[i] = routed_few_rows(product, machine);
  }
  return schedule;
}

// Rows that nothing multiplies, by their ids where slots have room for them.
std::optional<OperatorSchedule> by_ids(const Operator& op, const Machine& machine,
                                       OperatorSchedule schedule) {
  const OperatorSchedule preset = schedule_of(find_preset("low-latency"), op, machine);
  bool any = false;
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  for (size_t i = 0; i < products.size(); ++i) {
    if (!products[i]->product->is_routed() || !products[i]->product->only_moves()) continue;
    if (preset.products[i].collectives != CollectivesBy::low_latency) return std::nullopt;
    schedule.products[i] = preset.products[i];
    any = true;
  }
  return any ? std::optional(std::move(schedule)) : std::nullopt;
}

// The same around the products of experts, of so many tokens that copy engines, which send them
// beside tables, are not faster: between two ranks, of 4096 and 8192 tokens
// (bench/results/experts_by_ids_steps_h200_x2.json).
std::optional<OperatorSchedule> around_products_by_ids(const Operator& op, const Machine& machine,
                                                       OperatorSchedule library) {
  constexpr int64_t kMostTokens = 2048;  // of a rank
  const OperatorSchedule preset = schedule_of(find_preset("low-latency"), op, machine);
  bool any = false;
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  for (size_t i = 0; i < products.size(); ++i) {
    const Segment& product = *products[i]->product;
    if (!product.is_routed() || product.only_moves()) continue;
    const bool is_sent = product.kind.in != Edge::none;
    if (is_sent && product.row_shards().block() > kMostTokens) return std::nullopt;
    if (preset.products[i].collectives != CollectivesBy::low_latency) return std::nullopt;
    library.products[i] = preset.products[i];
    any = true;
  }
  if (!any) return std::nullopt;
  set_collectives(library);
  return library;
}

// Owners' sums by ids in the place of a pass that writes them and one that adds.
std::optional<OperatorSchedule> with_sums_by_ids(OperatorSchedule schedule) {
  bool any = false;
  for (Schedule& one : schedule.products) {
    const bool is_whole = one.granularity == Granularity::whole;
    if (one.reduction != Reduction::slots || !is_whole) continue;
    one.mover = Mover::nccl;
    one.reduction = Reduction::nccl;
    any = true;
  }
  if (!any) return std::nullopt;
  set_collectives(schedule);
  return schedule;
}

}  // namespace stretto
