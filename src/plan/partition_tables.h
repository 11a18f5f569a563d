// The tables of a plan's partitions, whoever makes them: one task, or many in steps.
#pragma once

#include <optional>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

// As route writes them; docs/plan-format.md has what each says.
struct PartitionTables {
  Region choices, experts, rows, counts;
  int64_t all_experts = 0;
  int32_t top_k = 1;  // choices of a token

  int32_t own_experts() const { return counts.rows() - 1; }
  // The numbers of entries that a region of EXPERTS is of, counted from the first of all; none
  // where it is of other ones.
  struct Entries {
    int32_t first, end;
  };
  std::optional<Entries> entries(const Region& of_experts) const;
};

// Those of a rank, in the order in which its lanes have the first task of each. Left out are those
// that steps make but in part.
std::vector<PartitionTables> partition_tables(const Plan& plan, int rank);

}  // namespace stretto
