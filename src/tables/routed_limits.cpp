// What movers can do of rows that choose experts.
#include <fmt/format.h>

#include <algorithm>

#include "plan/tile_task.h"
#include "stretto/device/mover_routed.h"
#include "tables/routed_kinds.h"

namespace stretto::cuda {
namespace {

bool is_whole_rows(const Plan& plan, const Region& region) {
  return region.cols() == plan.buffers[region.buffer].cols;
}

// Of a route, or one of the steps.
std::string why_no_partition(const Plan& plan, const Instr& instr) {
  const auto reads = plan.reads(instr), writes = plan.writes(instr);
  const bool counts = instr.op == Opcode::count_choices;  // a row side by side
  const bool fills = instr.op == Opcode::fill_entries;    // reads no ids
  const auto is_solid = [&](const Region& table) { return is_whole_rows(plan, table); };
  const bool solid = (fills || is_solid(reads[0])) &&
                     (counts || std::all_of(writes.begin(), writes.end(), is_solid));
  if (!solid) return "GPUs make partitions in tables that are columns, of all ids of a token";
  const int32_t own = (counts                              ? writes[0].cols()
                       : fills                             ? reads[0].cols()
                       : instr.op == Opcode::place_choices ? reads[1].cols()
                                                           : writes[3].rows()) -
                      1;
  if (device::partition_workers(own) != 0) return "";
  return fmt::format(
      "GPUs have no room to count the choices of {} experts: deal them to more ranks", own);
}

}  // namespace

std::string why_no_routed_task(const Plan& plan, const Instr& instr) {
  const auto reads = plan.reads(instr), writes = plan.writes(instr);
  if (makes_partition(instr.op)) return why_no_partition(plan, instr);
  const bool is_sum = instr.op == Opcode::weigh || instr.op == Opcode::combine;
  if (is_sum && !is_whole_rows(plan, reads[0])) {
    return "GPUs weigh with all weights of a token";
  }
  if (is_sum && reads[1].cols() == 1 && plan.buffers[reads[1].buffer].dtype == DType::i64) {
    return "GPUs read ROWS of 32 bits: give i32";
  }
  if (instr.op == Opcode::sum_counts) return "";
  const int32_t rows = writes[0].rows();
  const bool alike = std::all_of(writes.begin(), writes.end(), [&](const Region& to) {
    return to.rows() == rows &&
           plan.buffers[to.buffer].dtype == plan.buffers[writes[0].buffer].dtype;
  });
  const Region& from = reads[routed_row_of(instr.op).source];
  const bool is_pooled = instr.op == Opcode::embed || instr.op == Opcode::embed_mean;
  const bool is_picked = instr.op == Opcode::permute;
  const Region& has_them = is_sum || is_pooled || is_picked ? reads[0] : from;
  const bool has_rows = has_them.rows() == rows;
  if (!alike || !has_rows) {
    return fmt::format("GPUs {} all rows of a task to each place that it writes",
                       to_string(instr.op));
  }
  const int64_t widest = std::max(writes[0].cols(), reads[0].cols());
  if (widest > kMaxDim) {  // and lanes go on from column to column in as many
    return fmt::format("a block makes rows of at most {} columns, found {}", kMaxDim, widest);
  }
  if (writes[0].elements() > INT32_MAX) {  // kernels count them in 32 bits
    return fmt::format("a block makes at most {} elements at once: take tiles of fewer rows",
                       INT32_MAX);
  }
  return "";
}

}  // namespace stretto::cuda
