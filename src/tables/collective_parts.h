// The parts of a collective: what moves from where to where on every rank.
#pragma once

#include <vector>

#include "launch/buffer_places.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Whole rows of a buffer.
struct BufferRows {
  uint16_t buffer = 0, rank = 0;
  int32_t row0 = 0, row1 = 0;
};

// Where they begin, in a run on instance set `set` (num_sets()).
DevicePtr address_of(const Plan& plan, const BufferPlaces& places, const BufferRows& rows, int set);

// What one call can move: where it comes from and goes to on every rank that joins. Root and owner
// hold it once; on other ranks their own operand stands in, unused.
struct CollectivePiece {
  int group = 0;      // whose part it is, counted from the first that joins; of an all-reduce 0
  int64_t count = 0;  // elements
  std::vector<BufferRows> from, to;
};

// Those of a region. Rows that are narrower than their buffer are moved whole when nothing else of
// the plan uses the rest of them. Throws UsageError when it does.
BufferRows whole_rows(const Plan& plan, const Region& region);

// A rank's part of the collective with this id. Throws UsageError where it has none.
const Instr& collective_of(const Plan& plan, int rank, int32_t id);

class CollectiveParts {
 public:
  // Of the collective of which `instr` is that rank's part, but of no all-to-all. Throws UsageError
  // as whole_rows() does.
  CollectiveParts(const Plan& plan, const Instr& instr, int rank);

  const Plan::Joined& joined() const { return joined_; }
  CollectiveKind kind() const { return kind_; }
  // By group; those that follow each other everywhere are one.
  const std::vector<CollectivePiece>& pieces() const { return pieces_; }
  // One piece a group, one behind the other where all of them lie, equal but for the last ones,
  // which may be shorter or missing. An all-reduce has one piece.
  bool are_rows_of_owners() const;
  // Whether they are, and all are equal.
  bool are_even() const;

 private:
  void add(int group, size_t part);
  bool follows(const CollectivePiece& a, const CollectivePiece& b) const;

  const Plan& plan_;
  CollectiveKind kind_;
  Plan::Joined joined_;
  std::vector<Instr> by_rank_;  // from the first that joins
  int groups_ = 1;
  size_t parts_ = 0;
  std::vector<CollectivePiece> pieces_;
};

}  // namespace stretto::cuda
