#include "stretto/serve.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "op/stage_rules.h"
#include "stretto/error.h"

namespace stretto {
namespace {

std::string place_of(const Lane& lane, const Instr& task) {
  return fmt::format("{}, {} #{}", describe(lane), to_string(task.op), task.tile);
}

// Empty: it is, though its lane may be one of a copy engine.
std::string why_task_not_served(const Plan& plan, const TaskRowFinder& rows_of, const Lane& lane,
                                const Instr& task) {
  if (task.op == Opcode::collective) {
    return "collectives move whole pieces, whatever rows a run has: take a plan with "
           "mover=epilogue, or with gemm=library and collectives=low-latency";
  }
  for (const Region& to : plan.writes(task)) {
    if (lane.kind != LaneKind::copy || plan.buffers[to.buffer].role != BufferRole::output) continue;
    return fmt::format(
        "copy engines move whole pieces into {}, whatever rows a run has: take a plan with "
        "mover=epilogue",
        plan.buffers[to.buffer].name);
  }
  if (!rows_of(task)) {
    return fmt::format("some tasks work on rows of several owners ({}); rows=bucket cuts them",
                       place_of(lane, task));
  }
  return "";
}

// Every region of a collective has rows of its own owner.
bool has_rows_of_owners(const Plan& plan, const TaskRowFinder& rows_of, const Instr& collective) {
  const auto is_of_one = [&](const Region& region) { return rows_of(region).has_value(); };
  const auto reads = plan.reads(collective), writes = plan.writes(collective);
  return std::all_of(reads.begin(), reads.end(), is_of_one) &&
         std::all_of(writes.begin(), writes.end(), is_of_one);
}

bool is_served(const Plan& plan, const TaskRowFinder& rows_of, const Lane& lane,
               const Instr& task) {
  if (task.op == Opcode::deliver) return true;
  if (task.op == Opcode::collective) {
    return plan.low_latency_collectives && plan.library_gemms && !plan.few_rows_gemms &&
           has_rows_of_owners(plan, rows_of, task);
  }
  return lane.kind != LaneKind::copy && rows_of(task);
}

// The part of a region that a run has. `rows` are the task's.
Region clipped(const TaskRowFinder& rows_of, Region region, const TaskRows& rows,
               const device::RunRows& run) {
  const int32_t shift = rows_of.is_compact(region.buffer) ? run.shift(rows.owner) : 0;
  region.row0 += shift;
  region.row1 = region.row0 + run.present(rows.owner, rows.first, rows.count);
  return region;
}

// Gives `served` what a run has of a task's operands, and the task their numbers: it reads nothing
// when the run has no row of it.
void keep_operands(const Plan& plan, const TaskRowFinder& rows_of, const device::RunRows& run,
                   Instr& task, Plan& served) {
  const Instr whole = task;
  const auto reads = plan.reads(whole), writes = plan.writes(whole);
  task.first_operand = static_cast<uint32_t>(served.operands.size());
  task.num_reads = task.num_writes = 0;
  const auto keep = [&](const Region& region, uint16_t& count) {
    served.operands.push_back(region);
    ++count;
  };
  const auto keep_unless_empty = [&](const Region& region, uint16_t& count) {
    if (!region.empty()) keep(region, count);
  };
  if (task.op == Opcode::deliver) {
    for (Region region : reads) {
      region.row1 = std::min(region.row1, served.buffers[region.buffer].rows_on(region.rank));
      keep_unless_empty(region, task.num_reads);
    }
  } else if (task.op == Opcode::collective) {
    // Of ranks without rows the regions are empty.
    const auto part = [&](const Region& region) {
      return clipped(rows_of, region, *rows_of(region), run);
    };
    for (const Region& region : reads) keep(part(region), task.num_reads);
    for (const Region& region : writes) keep(part(region), task.num_writes);
  } else if (const TaskRows own = *rows_of(whole);
             run.present(own.owner, own.first, own.count) > 0) {
    const auto other = static_cast<size_t>(TaskRowFinder::operand_of_other_rows(whole));
    for (size_t i = 0; i < reads.size(); ++i) {
      keep_unless_empty(i == other ? reads[i] : clipped(rows_of, reads[i], own, run),
                        task.num_reads);
    }
    for (const Region& region : writes) {
      keep_unless_empty(clipped(rows_of, region, own, run), task.num_writes);
    }
  }
}

// Whether stages take the tensor as a weight, or row by row.
bool is_operand(const Operator& op, int tensor, bool as_weight) {
  return std::any_of(op.stages.begin(), op.stages.end(), [&](const Stage& stage) {
    for (size_t i = 0; i < stage.in.size(); ++i) {
      if (stage.in[i] == tensor && is_parameter(stage.kind, i) == as_weight) return true;
    }
    return false;
  });
}

}  // namespace

std::string why_rows_are_fixed(const Operator& op) {
  if (op.has_teams()) return "rows that are dealt to teams are all there in every run";
  if (op.segments.size() > 1) {
    return fmt::format("operators of one product serve fewer rows, and {} goes on with {}",
                       op.segments[0].name, op.segments[1].name);
  }
  Operator other;
  try {
    other = with_rows(op, op.rows() > op.ranks ? op.rows() - op.ranks : op.rows() + op.ranks);
  } catch (const UsageError& error) {  // it is one of so many rows alone
    return error.what();
  }
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    const Tensor &tensor = op.tensors[i], &moved = other.tensors[i];
    const auto id = static_cast<int>(i);
    const std::string& rows = op.sizes.front().first;
    if (tensor.rows == moved.rows && tensor.cols == moved.cols &&
        tensor.matrices == moved.matrices) {
      if (tensor.stage < 0 && !is_operand(op, id, false)) continue;
      return fmt::format("{} has {} rows in every run, whatever {} is", tensor.name, tensor.rows,
                         rows);
    }
    const bool has_rows = tensor.rows == op.rows() && moved.rows == other.rows() &&
                          tensor.cols == moved.cols && tensor.matrices == moved.matrices;
    if (has_rows && !is_operand(op, id, true)) continue;
    return fmt::format("{}, whose size goes by {}, would be another tensor with fewer rows",
                       tensor.name, rows);
  }
  return "";
}

device::RunRows run_rows(const Operator& op, int64_t rows) {
  if (rows < 1 || rows > op.rows()) {
    throw UsageError(
        fmt::format("a plan for {} rows serves 1 to {}, not {}", op.rows(), op.rows(), rows));
  }
  const RowShards owners = row_owners(op);
  return {static_cast<int32_t>(rows), owners.ranks, static_cast<int32_t>(owners.block())};
}

std::string why_no_run(const Plan& plan) {
  if (std::string reason = why_rows_are_fixed(plan.op); !reason.empty()) return reason;
  if (plan.run_of % row_owners(plan.op).ranks != 0) {
    return fmt::format("{} rows are in no equal shards of {} ranks", plan.run_of, plan.ranks());
  }
  if (plan.cluster > 1) return "clusters compute all rows";
  const bool moves_rows =
      plan.low_latency_collectives && plan.library_gemms && !plan.few_rows_gemms;
  const auto is_output = [&](const Region& to) {
    return plan.buffers[to.buffer].role == BufferRole::output;
  };
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (!instr.is_task()) continue;
      const bool is_collective = instr.op == Opcode::collective;
      const auto writes = plan.writes(instr);
      if (!moves_rows && is_collective) {
        return fmt::format("collectives move whole pieces, as that of {}", describe(lane));
      }
      if (lane.kind == LaneKind::copy && std::any_of(writes.begin(), writes.end(), is_output)) {
        return fmt::format("copy engines move whole pieces into outputs, as that of {}",
                           describe(lane));
      }
    }
  }
  return "";
}

std::vector<std::string> why_not_served(const Plan& plan) {
  std::vector<std::string> reasons;
  if (plan.run_of > 0) {
    return {fmt::format("it is itself a run of the plan for {} rows: take that plan", plan.run_of)};
  }
  const RowShards owners = row_owners(plan.op);
  if (owners.rows % owners.ranks != 0) {  // fewer rows may reach further owners
    reasons.push_back(fmt::format("shards must be equal: a plan for {} rows has them",
                                  owners.block() * owners.ranks));
  }
  if (std::string reason = why_rows_are_fixed(plan.op); !reason.empty()) {
    reasons.push_back(std::move(reason));
    return reasons;  // no other schedule of the operator would be served
  }
  if (plan.cluster > 1) {  // of a pair one may have no rows
    reasons.push_back("clusters compute all rows: a plan with cluster=1 serves fewer");
  }
  const TaskRowFinder rows_of(plan);
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (!instr.is_task() || is_served(plan, rows_of, lane, instr)) continue;
      std::string reason = why_task_not_served(plan, rows_of, lane, instr);
      if (reason.empty()) continue;
      // One of a kind is enough, and the kinds begin differently.
      const bool known = std::any_of(reasons.begin(), reasons.end(), [&](const std::string& other) {
        return other.compare(0, 10, reason, 0, 10) == 0;
      });
      if (!known) reasons.push_back(std::move(reason));
    }
  }
  return reasons;
}

Plan at_rows(const Plan& plan, int64_t rows, PlanLines* lines) {
  const device::RunRows run = run_rows(plan.op, rows);
  if (const std::vector<std::string> reasons = why_not_served(plan); !reasons.empty()) {
    throw UsageError(
        fmt::format("this plan serves {} rows only: {}", plan.op.rows(), join(reasons, "; ")));
  }
  const TaskRowFinder rows_of(plan);
  Plan served = plan;
  served.op = with_rows(plan.op, rows);
  if (rows < plan.op.rows()) served.run_of = plan.op.rows();
  for (Buffer& buffer : served.buffers) {
    if (!has_callers_rows(plan, buffer)) continue;
    const bool sharded = buffer.sharded_rows > 0;
    buffer.rows = static_cast<int32_t>(sharded ? RowShards{rows, plan.ranks()}.block() : rows);
    if (sharded) buffer.sharded_rows = static_cast<int32_t>(rows);
  }
  served.operands.clear();
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    std::vector<Instr> left;
    std::vector<uint32_t> left_lines;
    for (size_t pos = 0; pos < plan.lanes[l].instrs.size(); ++pos) {
      Instr instr = plan.lanes[l].instrs[pos];
      if (instr.is_task()) keep_operands(plan, rows_of, run, instr, served);
      if (instr.is_task() && instr.num_reads == 0) continue;
      left.push_back(instr);
      if (lines != nullptr) left_lines.push_back(lines->lanes[l].instrs[pos]);
    }
    served.lanes[l].instrs = std::move(left);
    if (lines != nullptr) lines->lanes[l].instrs = std::move(left_lines);
  }
  return served;
}

}  // namespace stretto
