// How many of a rank's experts have rows in a run whose experts are all as likely, as the tasks
// that make partitions say. What has none is neither read nor multiplied.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/plan.h"

namespace stretto::sim {

class ChosenExperts {
 public:
  explicit ChosenExperts(const Plan& plan);

  // Of the matrices that the rank has of a stack, the share that some row takes; 1 where no
  // partition says.
  double share_of(int rank, uint16_t stack) const;
  // Rows of a partition on a rank: choices of its experts, and the experts that have some, in each
  // block by itself. 0 where no task makes it.
  struct Rows {
    double choices = 0, experts = 0;
  };
  Rows rows_of(int rank, int16_t partition) const;

 private:
  struct OfPartition {
    Rows rows;
    double left_out = 1;  // chance that an expert has no row in any block
  };
  void find_partitions();
  void find_stacks();

  const Plan& plan_;
  std::vector<std::vector<OfPartition>> partitions_;  // by rank
  std::vector<std::vector<double>> left_out_;         // by rank and stack: of all its partitions
};

}  // namespace stretto::sim
