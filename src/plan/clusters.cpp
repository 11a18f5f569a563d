// What lanes of a cluster have in common.
#include <fmt/format.h>

#include "plan/faults.h"
#include "plan/tile_task.h"

namespace stretto {
namespace {

// One lane's instructions but notifies, which follow from its own work and hold up nobody.
class Walk {
 public:
  Walk(const Plan& plan, size_t lane) : plan_(plan), number_(lane), lane_(plan.lanes[lane]) {
    skip();
  }

  const Lane& lane() const { return lane_; }
  bool done() const { return at_ == lane_.instrs.size(); }
  const Instr& instr() const { return lane_.instrs[at_]; }
  void advance() {
    ++at_;
    skip();
  }
  bool fits() const {
    const Opcode op = instr().op;
    return op == Opcode::wait || is_sum(op) || op == Opcode::boundary ||
           (op == Opcode::gemm && instr().num_reads == 2);
  }
  std::string text() const {
    return done() ? "its end" : fmt::format("'{}'", print(plan_, lane_, instr()));
  }
  PlanFault fault(std::string what) const { return {std::move(what), number_, at_}; }

 private:
  void skip() {
    while (!done() && instr().op == Opcode::notify) ++at_;
  }

  const Plan& plan_;
  const size_t number_;
  const Lane& lane_;
  size_t at_ = 0;
};

// But for rows, and where results go.
bool alike(const Plan& plan, const Instr& a, const Instr& b) {
  if (a.op != b.op) return false;
  if (a.op == Opcode::wait) {
    return a.signal == b.signal && a.amount == b.amount && a.lag == b.lag;
  }
  if (a.op == Opcode::boundary) return a.id == b.id;
  if (is_sum(a.op)) return a.num_reads == b.num_reads;
  const auto x = plan.reads(a), y = plan.reads(b);
  return x[0].col0 == y[0].col0 && x[0].col1 == y[0].col1 && x[1] == y[1];
}

PlanFault fault_in_pair(const Plan& plan, size_t first, size_t second) {
  Walk a(plan, first), b(plan, second);
  for (; !a.done() || !b.done(); a.advance(), b.advance()) {
    for (const Walk& walk : {a, b}) {
      if (walk.done() || walk.fits()) continue;
      return walk.fault(fmt::format(
          "expected in a cluster waits, notifies, boundaries, gemms of one region of A and their "
          "sums, found {} in {}",
          walk.text(), describe(walk.lane())));
    }
    if (!a.done() && !b.done() && alike(plan, a.instr(), b.instr())) continue;
    return (b.done() ? a : b)
        .fault(fmt::format(
            "expected lanes of a cluster to multiply the same columns of B and to wait alike, "
            "found {} in {} and {} in {}",
            a.text(), describe(a.lane()), b.text(), describe(b.lane())));
  }
  return {};
}

}  // namespace

PlanFault fault_in_clusters(const Plan& plan) {
  if (plan.cluster == 1) return {};
  if (plan.any_library()) return {"expected 'gemm library' or clusters of lanes, found both"};
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    const Lane& lane = plan.lanes[l];
    if (lane.kind != LaneKind::compute) continue;
    const bool has_partner = l + 1 < plan.lanes.size() && plan.lanes[l + 1].rank == lane.rank &&
                             plan.lanes[l + 1].kind == LaneKind::compute;
    if (!has_partner) {
      return {fmt::format("expected pairs of compute lanes in a plan with clusters, found {} alone",
                          describe(lane)),
              l};
    }
    if (lane.index % 2 != 0 || plan.lanes[l + 1].index != lane.index + 1) {
      return {
          fmt::format("expected a cluster to be compute lanes 2i and 2i + 1 of a rank, found {} "
                      "and {}",
                      describe(lane), describe(plan.lanes[l + 1])),
          l};
    }
    PlanFault fault = fault_in_pair(plan, l, l + 1);
    if (!fault.what.empty()) return fault;
    ++l;
  }
  return {};
}

}  // namespace stretto
