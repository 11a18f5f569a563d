#include "sim/history.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::sim {
namespace {

const Instr& instr_at(const Plan& plan, InstrRef where) {
  return plan.lanes[where.lane].instrs[where.pos];
}

}  // namespace

std::string History::why(const Plan& plan, const Node& node) const {
  const std::string port =
      node.port_rank == kNoRank ? "" : fmt::format("link of rank {}", node.port_rank);
  if (node.kind == NodeKind::launch) return "launch";
  if (node.kind == NodeKind::store) return port.empty() ? "store of its block" : port;
  std::string cause;
  if (node.before == kNoNode) {
    cause = "start of the run";
  } else {
    const Node& before = nodes_[node.before];
    switch (before.kind) {
      case NodeKind::launch:
        cause = "launch";
        break;
      case NodeKind::task:
        cause = "lane order";
        break;
      case NodeKind::store:
        cause = node.kind == NodeKind::notify ? "its data are there" : "store of the tile before";
        break;
      case NodeKind::notify:
        cause = fmt::format("signal {}", describe(plan, instr_at(plan, before.where).signal));
        break;
      case NodeKind::boundary:
        cause = fmt::format("boundary {}", instr_at(plan, before.where).id);
        break;
    }
  }
  return port.empty() ? cause : cause + ", " + port;
}

std::vector<CriticalStep> History::path_to(const Plan& plan, uint32_t last) const {
  std::vector<CriticalStep> path;
  for (uint32_t at = last; at != kNoNode; at = nodes_[at].before) {
    const Node& node = nodes_[at];
    STRETTO_ASSERT(node.before == kNoNode || node.before < at, "a cause after its effect");
    const double start = node.before == kNoNode ? 0 : nodes_[node.before].end;
    path.push_back({node.where, start, node.end, why(plan, node)});
  }
  return path;
}

}  // namespace stretto::sim
