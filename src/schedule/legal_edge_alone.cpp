// Which mover an edge at no product may have.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "schedule/legal_operator_rules.h"
#include "schedule/rows_with_tiles.h"
#include "schedule/scheduled_segments.h"

namespace stretto {
namespace {

// A kernel that waits for NCCL would have to leave it SMs.
std::string why_no_nccl(const Operator& op, const OperatorSchedule& schedule) {
  const std::vector<const OperatorSegment*> products = scheduled_products(op);
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

}  // namespace

std::string why_no_edge(const Operator& op, const OperatorSchedule& schedule,
                        const EdgeSchedule& edge) {
  const std::vector<const OperatorSegment*> known = scheduled_edges(op);
  const auto found = std::find_if(known.begin(), known.end(), [&](const OperatorSegment* segment) {
    return segment->name == edge.name;
  });
  if (found == known.end()) return unknown_word("edge", edge.name, names_of_scheduled_edges(op));
  if (!(*found)->is_edge()) {
    if (edge.mover == Mover::epilogue) return why_no_rows_with_tiles(op, schedule, **found);
    return fmt::format(
        "mover={} of stages over rows, which move nothing: leave it out; beside tiles that are "
        "sent one by one, mover=epilogue has their lanes take them",
        to_string(edge.mover));
  }
  if (edge.mover == Mover::epilogue) {
    return "mover=epilogue of a gather is what it has without a word: leave it out";
  }
  if (edge.mover == Mover::comm_blocks) {
    return "mover=comm-blocks of an edge at no product, beside which there is nothing to compute: "
           "take mover=epilogue, whose blocks are all";
  }
  return edge.mover == Mover::nccl && op.ranks > 1 ? why_no_nccl(op, schedule) : "";
}

}  // namespace stretto
