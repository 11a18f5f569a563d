// Outputs whose rows are a partition's. The plan has them entry by entry, the caller choice by
// choice: whoever stores a tile sends each row to that of its choice, which tables of the run name.
#pragma once

#include <optional>
#include <vector>

#include "plan/partition_tables.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Whether memory has a row of the buffer for each choice.
inline bool is_by_choice(const Buffer& buffer) {
  return buffer.role == BufferRole::output && buffer.partition >= 0;
}
// Rows that memory has of a buffer, where it has the most.
int64_t rows_in_memory(const Plan& plan, const Buffer& buffer);

// What the tables of a partition say of a tile's rows.
struct ChoiceTables {
  Region choices;      // of each row of the tile its choice, counted from the first in `rows`
  const Region* rows;  // ROWS: choices one below the other, as memory has the output's rows
};

class ChoiceRows {
 public:
  explicit ChoiceRows(const Plan& plan);

  // Of the tile `stored` of a product that chooses its matrices. Nothing where its rows are not
  // those of the entries whose EXPERTS it reads, as one task has made them: who has awaited that
  // has awaited CHOICES too.
  std::optional<ChoiceTables> of(const Instr& product, const Region& stored) const;
  // The same of rows that a permute stores, which are those whose CHOICES it reads.
  std::optional<ChoiceTables> of_permuted(const Instr& permute) const;

 private:
  const Plan& plan_;
  std::vector<std::vector<PartitionTables>> tables_;  // by rank
};

}  // namespace stretto::cuda
