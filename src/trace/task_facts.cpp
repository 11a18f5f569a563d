#include "trace/task_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace stretto {
namespace {

void add_rank(std::vector<uint16_t>& ranks, uint16_t rank) {
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (at == ranks.end() || *at != rank) ranks.insert(at, rank);
}

}  // namespace

TaskFacts facts_of(const Plan& plan, const Lane& lane, const Instr& instr) {
  TaskFacts facts;
  if (!instr.is_task()) return facts;
  const auto bytes_of = [&](const Region& region) {
    return region.elements() * num_bytes(plan.buffers[region.buffer].dtype);
  };
  const auto reads = plan.reads(instr), writes = plan.writes(instr);
  if (!writes.empty()) facts.result = writes[0];
  const TaskKind* const kind = instr.kind();
  if (kind != nullptr && kind->worker == Worker::gemm_kernel && !reads.empty()) {
    facts.depth = reads[0].cols();
  }
  for (const Region& region : reads) {
    if (region.rank == lane.rank) continue;
    add_rank(facts.from, region.rank);
    facts.bytes_between += bytes_of(region);
  }
  for (const Region& region : writes) {
    facts.bytes += bytes_of(region);
    if (region.rank == lane.rank) continue;
    add_rank(facts.to, region.rank);
    facts.bytes_between += bytes_of(region);
  }
  return facts;
}

std::string title_of(const Plan& plan, const Instr& instr) {
  switch (instr.form()) {
    case OpForm::wait:
      return fmt::format("wait {} >= {}", describe(plan, instr.signal), instr.amount);
    case OpForm::collective:
      return fmt::format("{} {}", to_string(instr.collective), instr.id);
    case OpForm::notify:
    case OpForm::boundary:
    case OpForm::task_kind:
    case OpForm::deliver:
      break;
  }
  return instr.tile < 0 ? std::string(to_string(instr.op))
                        : fmt::format("{} {}", to_string(instr.op), instr.tile);
}

std::string list_of(const std::vector<uint16_t>& ranks) {
  return fmt::format("{}", fmt::join(ranks, ", "));
}

}  // namespace stretto
