// What the kernel of experts multiplies in place of the GEMM kernel: whole products of rows that
// choose their matrices. It deals out its tiles itself, of as many rows as each expert has.
#pragma once

#include <string>
#include <vector>

#include "gpu/grouped_shape.h"
#include "launch/gemm_needs.h"
#include "launch/rank_program.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// c = follower(a * w[expert of the row]^T), of one rank and one partition.
struct ExpertProduct {
  Region a;                       // all rows of the partition; where it gathers, the tokens
  Region gate, up;                // of each expert the rows of w; `up` only where a swiglu follows
  Region c;                       // all rows of the partition
  int32_t experts = 1, each = 0;  // from one expert's first row of w to the next one's
  int32_t per = 1;                // choice i takes row i / per of the tokens
  int32_t entry_rows = 1;
  // Of the partition: COUNTS, CHOICES, and ROWS, as long as memory has rows where c is handed over
  // by choice (choice_rows.h).
  Region counts, choices, rows;
  int32_t all_experts = 1;  // of all ranks, for which `rows` has choices
};

// Those that the tiles of a kernel make up, which is_by_experts(): why_no_expert_products() is
// empty.
std::vector<ExpertProduct> expert_products_of(const Plan& plan, const TileSums& sums,
                                              const std::vector<BlockPart>& kernel);
// Why they make up none; empty when they do.
std::string why_no_expert_products(const Plan& plan, const TileSums& sums,
                                   const std::vector<BlockPart>& kernel);

inline bool is_by_experts(const GemmNeeds& needs) { return needs.library && needs.grouped; }

// What is known of it ahead of a launch, about; and the kernel that is fast for it.
GroupedShape shape_of(const ExpertProduct& product);
device::GroupedConfig config_for(const Plan& plan, const GemmNeeds& needs,
                                 const ExpertProduct& product);

}  // namespace stretto::cuda
