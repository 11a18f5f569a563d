// What tiles ask of the GEMM kernel that computes them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stretto/device/gemm_task.h"
#include "stretto/plan.h"

namespace stretto::cuda {

class TileSums;

// Rows [first, last) of a tile that lie in one region of A.
struct RowPart {
  int32_t first, last;
  const Region* a;
};

// Rows of an entry of the partition that a product's rows are of, which choose their matrices.
inline int32_t rows_of_entry(const Plan& plan, const Instr& product) {
  const std::span<const Region> reads = plan.reads(product);
  const Region& experts = reads[1];
  return plan.writes(product)[0].rows() / experts.rows();
}

// Calls visit(part) for every part of the gemm's tile, from the first row on.
template <typename Visit>
void for_each_row_part(const Plan& plan, const Instr& gemm, const Visit& visit) {
  const std::span<const Region> reads = plan.reads(gemm);
  int32_t row = 0;
  for (const Region& a : reads.first(reads.size() - 1)) {
    visit(RowPart{row, row + a.rows(), &a});
    row += a.rows();
  }
}

// What the tiles of one kernel ask of it.
struct GemmNeeds {
  // A library multiplies, by this algorithm: tiles ask nothing. Where rows choose their matrices it
  // is the kernel of experts (expert_products.h).
  std::optional<int> library;
  // It is no library, but the kernel of few rows.
  bool few_rows = false;
  int rows = 0, columns = 0;    // of the largest, of one product; 0: there is none
  bool parts = false;           // some tile is stored from a row on that begins none of its chunks
  bool threes = false;          // some ends three rows behind a multiple of four, in its buffer
  std::optional<DType> stored;  // what every tile is stored in; nothing: none is, or they differ
  int adds = 0;                 // sums of other ranks that tiles are added to; 0: none is
  bool splits = false;          // some sums of ranges of K go through memory
  bool phases = false;          // some tile's sums of several ranges of K stay in registers
  bool sources = false;         // and they begin anywhere in K, or the first has an A of its own
  bool moves = false;           // comm lanes are blocks of it (joined_movers.h says so)
  bool norms = false;           // its blocks norm rows behind their tiles (rank_program.h says so)
  device::Follower follower = device::Follower::none;  // of every tile
  bool bias = false;
  // Rows choose matrices: all tiles are of entries, of `rows` rows each, or none is; and whether
  // they are gathered, all or none.
  bool grouped = false, gathers = false;
  bool grouped_alike = true;
  // Whether tiles are stored by choice (choice_rows.h): all, or none is.
  bool scatters = false;
  bool scatter_alike = true;
  bool follow_alike = true;  // the same follows every tile; a row of bias may
};

// Of one of the activations that follow a product; of another task it is an InternalError.
device::Follower follower_of(Opcode activation);

// Asks every tile. By stretch, which is what compute lanes have between two boundaries: all ranks
// take the same kernel for one, so that the few tiles of a ragged end want no kernel of their own.
std::vector<GemmNeeds> find_needs(const Plan& plan, const TileSums& sums);

}  // namespace stretto::cuda
