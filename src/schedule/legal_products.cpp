// What an operator asks of its products' schedules together, where each by itself serves.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "schedule/awaited_collectives.h"
#include "schedule/legal_operator_rules.h"
#include "schedule/only_tiles.h"
#include "schedule/row_parts.h"
#include "schedule/scheduled_segments.h"

namespace stretto {
namespace {

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

// Where all sources come ahead of a product at once, nothing begins sooner for a partition of each.
// Parts of rows that lie apart need them all the same.
std::string why_by_source(const Operator& op, const OperatorSegment& product, const Schedule& one,
                          int split) {
  const bool by_nccl = one.mover == Mover::nccl;
  const bool come_at_once = op.ranks > 1 && (by_nccl || one.mover == Mover::epilogue);
  if (!product.product->is_routed() || !come_at_once || one.granularity != Granularity::chunk) {
    return {};
  }
  if (split > 1 && lies_apart_in_parts(op) != nullptr) return {};
  return fmt::format(
      "granularity=chunk and mover={} with rows that choose their matrices, {}: take "
      "granularity=whole, or mover=comm-blocks or copy-engine",
      to_string(one.mover),
      by_nccl ? "whose collectives bring all sources together"
              : "which all come ahead of products");
}

// A library is told no part of its input, so nothing but a kernel's end can stand before it.
std::string why_not_fed_so(const OperatorSegment& feeds, const Schedule& brings, GemmBy gemm) {
  if (!feeds.feeds() || gemm == GemmBy::tiles || brings.sync == Sync::event) return "";
  const bool ends = brings.granularity == Granularity::whole;
  return fmt::format(
      "gemm={} behind {} with sync={}, which its kernel knows nothing of: take "
      "sync=event{} there, or gemm=tiles",
      to_string(gemm), feeds.name, to_string(brings.sync), ends ? "" : " and granularity=whole");
}

// Collectives that go by ids bring each rank's own tokens, ids and weights to all, or what each has
// of all.
std::string why_not_by_ids(const Operator& op, const std::vector<const OperatorSegment*>& products,
                           const OperatorSchedule& schedule, size_t at) {
  const OperatorSegment& one = *products[at];
  const Segment& of = *one.product;
  const auto counts = std::count_if(op.stages.begin(), op.stages.end(), [&](const Stage& stage) {
    return stage.kind == StageKind::count && stage.in[0] == one.ids;
  });
  const auto refuse = [](std::string_view what, std::string_view right) {
    return fmt::format("collectives=low-latency with {}: take {}, or collectives=nccl", what,
                       right);
  };
  // A part is a stripe of each rank's tokens: who has all of them would have some here and there.
  if (const Tensor* const apart = schedule.split > 1 ? lies_apart_in_parts(op) : nullptr) {
    return refuse(fmt::format("parts of rows, of which {} has all", apart->name), "split=1");
  }
  if (counts > 1) return refuse("ids that are counted twice", "one count of them");
  const auto rounded_weights = [&](const OperatorSegment& product) {
    const DType has =
        product.router_weights < 0 ? DType::fp32 : op.tensor(product.router_weights).dtype;
    return has == DType::fp32
               ? ""
               : refuse(fmt::format("weights of {}", to_string(has)), "weights of fp32");
  };
  if (std::string why = rounded_weights(one); !why.empty()) return why;
  const auto is_own = [&](int tensor) { return op.tensor(tensor).held == Held::rows; };
  if (of.only_moves() && takes_choices(op, one)) {
    if (one.router_weights < 0) {
      return refuse("rows by choice that nobody adds up", "a sum of them");
    }
    return is_own(one.ids) ? refuse("rows by choice whose ids each rank has its own of",
                                    "ids that are held whole")
                           : "";
  }
  if (of.only_moves() && one.router_weights < 0) return {};
  // Weights come along for who adds up what these experts make and sends it back so, if somebody
  // does. Other sums bring their own.
  const OperatorSegment* sums = nullptr;
  for (size_t i = 0; i < products.size() && sums == nullptr; ++i) {
    const OperatorSegment& other = *products[i];
    const Schedule& by = schedule.products[i];
    const bool goes_by_ids =
        by.mover == Mover::nccl && by.collectives == CollectivesBy::low_latency;
    const bool adds = other.product->is_routed() && other.router_weights >= 0 &&
                      other.product->only_moves() == of.only_moves() && other.ids == one.ids;
    if (adds && goes_by_ids) sums = &other;
  }
  const bool has_sums = sums != nullptr;
  if (has_sums) {
    if (std::string why = rounded_weights(*sums); !why.empty()) return why;
    const Segment& adds = *sums->product;
    if (adds.ranks > 1 && adds.kind.out == Edge::none) {
      return refuse("sums that each rank makes in its own columns",
                    "an output that is held by rows");
    }
  }
  const auto has_rows_in_order = [&](const OperatorSegment& product) {
    const int maker = op.tensor(product.input).stage;
    return std::any_of(products.begin(), products.end(), [&](const OperatorSegment* other) {
      const std::vector<int>& made = other->stages;
      return other->product->is_routed() && other->ids == one.ids &&
             std::find(made.begin(), made.end(), maker) != made.end();
    });
  };
  // Ids are sent once, with the tokens of one product and the weights of one sum.
  int tokens = 0, weights = 0;
  for (const OperatorSegment* other : products) {
    if (!other->product->is_routed() || other->product->only_moves() || other->ids != one.ids) {
      continue;
    }
    tokens += !has_rows_in_order(*other);
    weights += other->router_weights >= 0;
  }
  if (tokens > 1 || weights > 1) {
    return refuse("ids that several layers of experts go by", "ids of each layer's own");
  }
  const bool brings = !has_rows_in_order(one) && is_own(one.input);
  if (!has_rows_in_order(one) && brings != is_own(one.ids)) {
    return brings
               ? refuse("ids that each rank has all of, beside its own tokens", "both held by rows")
               : refuse(
                     "ids of own tokens, beside all tokens",
                     has_sums ? "ids and weights that are held whole" : "ids that are held whole");
  }
  // Own weights go with sums where nothing else is brought.
  if (has_sums && is_own(one.ids) && !is_own(sums->router_weights)) {
    return refuse("ids of own tokens and weights of all", "both held by rows, or both whole");
  }
  return {};
}

// A kernel is one of the graph's, and is for the product's edge.
std::string why_no_kernel(const Operator& op, const Segment& product, const std::string& name) {
  std::vector<std::string> known;
  for (const EdgeKernel& kernel : op.kernels) known.push_back(kernel.name);
  const auto found = std::find(known.begin(), known.end(), name);
  if (found == known.end()) {
    if (known.empty()) {
      return fmt::format(
          "kernel={}, and {} names no kernel: a line of its graph would, as: kernel "
          "{} all-reduce \"{}.h\"",
          name, op.name(), name, name);
    }
    const std::vector<std::string_view> names(known.begin(), known.end());
    return unknown_word("kernel of the graph", name, names);
  }
  const Edge edge = op.kernels[static_cast<size_t>(found - known.begin())].edge;
  const auto has = [&](const Segment& of, Edge one) {
    return of.kind.in == one || of.kind.out == one;
  };
  if (has(product, edge)) return {};
  if (product.communicates()) {
    const Edge own = product.kind.in != Edge::none ? product.kind.in : product.kind.out;
    return fmt::format("kernel={} is for the edge {}, and this product has {}: take kernel=none",
                       name, to_string(edge), to_string(own));
  }
  // Where a text is for all products, those without an edge have nothing to ask of it.
  const auto products = scheduled_products(op);
  const bool any = std::any_of(products.begin(), products.end(), [&](const OperatorSegment* one) {
    return has(*one->product, edge);
  });
  if (any) return {};
  return fmt::format("kernel={} is for the edge {}, which no product has: take kernel=none", name,
                     to_string(edge));
}

// The first product whose tensors collectives move; 0 where there is none.
size_t first_that_collects(const OperatorSchedule& schedule) {
  const auto found = std::find_if(schedule.products.begin(), schedule.products.end(),
                                  [](const Schedule& one) { return one.mover == Mover::nccl; });
  return found == schedule.products.end() ? 0
                                          : static_cast<size_t>(found - schedule.products.begin());
}

}  // namespace

std::vector<std::string> why_not_beside_others(const Operator& op, const OperatorSchedule& schedule,
                                               size_t at) {
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  const Schedule &one = schedule.products[at], &first = schedule.products.front();
  std::vector<std::string> reasons;
  if (one.gemm != GemmBy::tiles) {
    if (const std::string why = why_only_tiles(op, *products[at]); !why.empty()) {
      reasons.push_back(fmt::format("gemm={} with {}: take gemm=tiles", to_string(one.gemm), why));
    }
  }
  if (products[at]->is_fed) {
    std::string why = why_not_fed_so(*products[at - 1], schedule.products[at - 1], one.gemm);
    if (!why.empty()) reasons.push_back(std::move(why));
  }
  if (products[at]->product->is_routed() && one.collectives == CollectivesBy::low_latency) {
    if (std::string why = why_not_by_ids(op, products, schedule, at); !why.empty()) {
      reasons.push_back(std::move(why));
    }
  }
  if (!one.kernel.empty()) {
    if (std::string why = why_no_kernel(op, *products[at]->product, one.kernel); !why.empty()) {
      reasons.push_back(std::move(why));
    }
  }
  if (std::string why = why_by_source(op, *products[at], one, schedule.split); !why.empty()) {
    reasons.push_back(std::move(why));
  }
  // These are said once for a plan.
  if (one.cluster != first.cluster) {
    reasons.push_back(
        fmt::format("cluster is one for all products: take that of {}", products.front()->name));
  }
  const size_t collects = first_that_collects(schedule);
  const bool collect = op.ranks > 1 && one.mover == Mover::nccl;
  if (collect && one.collectives != schedule.products[collects].collectives) {
    const std::string_view of_first = to_string(schedule.products[collects].collectives);
    const bool has_other = of_first == to_string(CollectivesBy::nccl) ||
                           !products[at]->product->exchanges();  // none by low-latency kernels
    reasons.push_back(fmt::format(
        "collectives={} beside collectives={} of {}, and all products with mover=nccl have one: "
        "take {} here, or collectives={} there",
        to_string(one.collectives), of_first, products[collects]->name,
        has_other ? fmt::format("collectives={}", of_first) : "another mover",
        to_string(one.collectives)));
  }
  if (std::string why = why_other_parts(op, products, schedule.products, at); !why.empty()) {
    reasons.push_back(std::move(why));
  }
  if (op.only_product() == nullptr && one.rows != RowCount::fixed) {
    reasons.emplace_back("rows=bucket serves operators of one product: take rows=fixed");
  }
  return reasons;
}

// Lanes of all products are there at once, and NCCL's kernels fit beside none of them.
std::string why_no_sm_left(const Operator& op, const OperatorSchedule& schedule,
                           const Machine& machine) {
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
  int blocks = 0, nccl = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const Schedule& one = schedule.products[i];
    const bool by_nccl = one.mover == Mover::nccl;
    if (by_nccl && products[i]->product->is_routed()) continue;
    int& most = by_nccl ? nccl : blocks;
    most = std::max(most, one.comm_sms);
  }
  const int set_aside = nccl, of_kernel = most_kernel_blocks(op, schedule);
  nccl = sms_for_collectives(op, schedule, nccl);
  // Movers' blocks stay as long as the program, also where nothing else waits beside a call.
  const bool has_no_room = nccl > std::max(1, set_aside)
                               ? blocks + nccl >= machine.sms
                               : blocks > 0 && blocks + of_kernel > machine.sms;
  if (op.ranks > 1 && of_kernel > 0 && has_no_room) {
    const int of_others = blocks + (nccl > std::max(1, set_aside) ? 1 : 0);
    return fmt::format(
        "a kernel of {} blocks, each with an SM while blocks of other products wait in theirs, "
        "beside comm-sms={}: {} has {} SMs, give it at most blocks={} in the graph",
        of_kernel, blocks, machine.name, machine.sms, std::max(1, machine.sms - of_others));
  }
  if (op.ranks == 1 || blocks == 0 || nccl == 0 || blocks + nccl < machine.sms) return {};
  return fmt::format(
      "comm-sms={} for NCCL beside comm-sms={} of other products leave no SM to compute on: {} has "
      "{}, take at most {} together",
      nccl, blocks, machine.name, machine.sms, machine.sms - 1);
}

}  // namespace stretto
