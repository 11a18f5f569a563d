#include "plan/partition_tables.h"

#include <algorithm>
#include <tuple>

namespace stretto {
namespace {

bool is_same(const Region& a, const Region& b) {
  return std::tuple(a.buffer, a.rank, a.row0, a.row1, a.col0, a.col1) ==
         std::tuple(b.buffer, b.rank, b.row0, b.row1, b.col0, b.col1);
}

bool is_within(const Region& part, const Region& all) {
  return part.buffer == all.buffer && part.rank == all.rank && part.row0 >= all.row0 &&
         part.row1 <= all.row1;
}

// Tables that steps make, so far: of entries [first, end) of those that are known.
struct Filled {
  PartitionTables tables;
  int32_t choices = 0, entries = 0;  // rows that were seen
  bool has_counts = false;

  void add(std::span<const Region> writes) {
    const auto widen = [](Region& all, const Region& part) {
      all.row0 = std::min(all.row0, part.row0);
      all.row1 = std::max(all.row1, part.row1);
    };
    if (entries == 0) {
      tables.choices = writes[0];
      tables.experts = writes[1];
    }
    if (writes[0].buffer != tables.choices.buffer || writes[1].buffer != tables.experts.buffer) {
      return;
    }
    widen(tables.choices, writes[0]);
    widen(tables.experts, writes[1]);
    choices += writes[0].rows();
    entries += writes[1].rows();
    if (writes.size() == 3) tables.counts = writes[2];
    has_counts = has_counts || writes.size() == 3;
  }
  bool is_whole() const {
    return has_counts && choices == tables.choices.rows() && entries == tables.experts.rows();
  }
};

// All that go by the same rows fill the same partition.
void fill(const Plan& plan, const Instr& instr, std::vector<Filled>& found) {
  const Region& rows = plan.reads(instr)[1];
  auto same = std::find_if(found.begin(), found.end(),
                           [&](const Filled& one) { return is_same(one.tables.rows, rows); });
  if (same == found.end()) {
    same = found.insert(found.end(), Filled{});
    same->tables.rows = rows;
    same->tables.all_experts = instr.count(0);
  }
  same->add(plan.writes(instr));
}

}  // namespace

std::optional<PartitionTables::Entries> PartitionTables::entries(const Region& of) const {
  if (!is_within(of, experts)) return std::nullopt;
  return Entries{of.row0 - experts.row0, of.row1 - experts.row0};
}

std::vector<PartitionTables> partition_tables(const Plan& plan, int rank) {
  std::vector<Filled> found;
  std::vector<std::pair<Region, int32_t>> placed;  // ROWS of parts, and choices of their tokens
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != rank) continue;
    for (const Instr& instr : lane.instrs) {
      if (instr.kind() == nullptr) continue;
      const std::span<const Region> writes = plan.writes(instr);
      switch (instr.kind()->makes_partition) {
        case PartitionStep::none:
        case PartitionStep::counts:
          break;
        case PartitionStep::whole: {
          Filled one{{writes[0], writes[1], writes[2], writes[3], instr.count(0),
                      plan.reads(instr)[0].cols()}};
          one.choices = writes[0].rows();
          one.entries = writes[1].rows();
          one.has_counts = true;
          found.push_back(one);
          break;
        }
        case PartitionStep::places:
          placed.emplace_back(writes[0], plan.reads(instr)[0].cols());
          break;
        case PartitionStep::entries:
          fill(plan, instr, found);
          break;
      }
    }
  }
  std::vector<PartitionTables> tables;
  for (Filled& one : found) {
    if (!one.is_whole()) continue;
    for (const auto& [rows, top_k] : placed) {
      if (is_within(rows, one.tables.rows)) one.tables.top_k = top_k;
    }
    tables.push_back(one.tables);
  }
  return tables;
}

}  // namespace stretto
