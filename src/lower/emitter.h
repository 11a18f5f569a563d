// Appends instructions to their lane and to the program at once, so that the two agree on the
// order.
#pragma once

#include <initializer_list>
#include <optional>

#include "lower/lowering.h"
#include "stretto/error.h"

namespace stretto {

class Emitter {
 public:
  // Tasks go to lanes of this table; they are of a part of the rows.
  //
  // Those of a product of teams are told of the ranks of one team, counted from its first, and each
  // team has them.
  Emitter(Lowering& state, const LaneTable& lanes, const PartLowering& part)
      : state_(state), lanes_(lanes), part_(state.is_split() ? &part.rows : nullptr) {}
  // The same, with room for the tasks of that product.
  Emitter(Lowering& state, const SegmentLowering& product);

  // Operands of the next task: all reads before all writes. Their rows are counted within the part,
  // those of the caller's tensors too.
  void read(const Region& region) {
    STRETTO_ASSERT(num_writes_ == 0 && num_reads_ < UINT16_MAX,
                   "operands out of order or too many");
    add(region);
    ++num_reads_;
  }
  void write(const Region& region) {
    STRETTO_ASSERT(num_writes_ < UINT16_MAX, "too many operands");
    add(region);
    ++num_writes_;
  }
  void task(uint32_t lane, Opcode op, int32_t tile = -1);
  // Of a kind that needs whole numbers.
  void counted_task(uint32_t lane, Opcode op, std::initializer_list<int64_t> counts,
                    int32_t tile = -1);
  void stage(uint32_t lane, const Stage& stage, int32_t tile = -1);
  // `id`: its number among those of this emitter, which stand together.
  void collective(int rank, CollectiveKind kind, int32_t id, float attribute = 0,
                  int64_t count = 0);

  // A kernel boundary in all compute lanes of the rank.
  void boundary(int rank);

 private:
  void add(const Region& region) {
    const size_t count = size_t{num_reads_} + num_writes_;
    if (count == operands_.size()) operands_.resize(2 * count + 16);
    operands_[count] = region;
  }
  void append(uint32_t lane, Instr& instr);
  void append_of_team(uint32_t lane, Instr& instr);
  uint32_t lanes_of_team() const { return static_cast<uint32_t>(ranks_ * lanes_.all.per_rank()); }
  // Of columns, tasks are of the first rank's; the last one may have fewer. Whether a result is
  // left.
  bool cut_to_buffers();
  void append_of_part(uint32_t lane, Instr& instr);

  Lowering& state_;
  const LaneTable& lanes_;
  const RowPart* const part_;                // null: of all rows
  int teams_ = 1, ranks_ = 0;                // ranks of one; not asked where all are one
  size_t kernel_ = 0;                        // of the graph's, that makes collectives: its number
  std::optional<int32_t> first_collective_;  // its number among all
  std::vector<Region> operands_;             // of the next task, and room for more
  uint16_t num_reads_ = 0, num_writes_ = 0;
};

}  // namespace stretto
