#include "sim/chosen_experts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "plan/partition_tables.h"
#include "plan/tile_task.h"

namespace stretto::sim {

ChosenExperts::ChosenExperts(const Plan& plan) : plan_(plan) {
  if (plan.partitions.empty()) return;
  find_partitions();
  find_stacks();
}

// A token's choices are all different, so one expert is left out by all tokens with a chance of
// (1 - k / experts) for each.
void ChosenExperts::find_partitions() {
  partitions_.resize(static_cast<size_t>(plan_.ranks()),
                     std::vector<OfPartition>(plan_.partitions.size()));
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    for (const PartitionTables& tables : partition_tables(plan_, rank)) {
      const int16_t number = plan_.buffers[tables.choices.buffer].partition;
      if (number < 0) continue;
      const double own = tables.own_experts(), choices = tables.rows.rows();
      const double all = std::max<double>(1, static_cast<double>(tables.all_experts));
      const double chosen = std::min(1.0, tables.top_k / all);  // by a token
      const double left_out = std::pow(1 - chosen, choices / tables.top_k);
      OfPartition& of = partitions_[static_cast<size_t>(rank)][static_cast<size_t>(number)];
      of.rows.choices += choices * own / all;
      of.rows.experts += own * (1 - left_out);
      of.left_out *= left_out;
    }
  }
}

void ChosenExperts::find_stacks() {
  left_out_.resize(partitions_.size(), std::vector<double>(plan_.buffers.size(), 1.0));
  std::set<std::tuple<uint16_t, uint16_t, int16_t>> seen;
  for (const Lane& lane : plan_.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (!is_routed_product(instr.op)) continue;
      const uint16_t stack = plan_.reads(instr).back().buffer;
      const int16_t number = plan_.buffers[plan_.writes(instr)[0].buffer].partition;
      if (number < 0 || !seen.emplace(lane.rank, stack, number).second) continue;
      left_out_[lane.rank][stack] *= partitions_[lane.rank][static_cast<size_t>(number)].left_out;
    }
  }
}

double ChosenExperts::share_of(int rank, uint16_t stack) const {
  if (left_out_.empty()) return 1;
  const double left_out = left_out_[static_cast<size_t>(rank)][stack];
  return left_out < 1 ? 1 - left_out : 1;
}

ChosenExperts::Rows ChosenExperts::rows_of(int rank, int16_t partition) const {
  if (partitions_.empty() || partition < 0) return {};
  return partitions_[static_cast<size_t>(rank)][static_cast<size_t>(partition)].rows;
}

}  // namespace stretto::sim
