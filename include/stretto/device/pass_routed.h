// Tasks of a pass (pass.h) whose rows tables name: sums, and rows that are put where their experts
// take them. What tables say is looked up for many rows at once, by a thread each,
// and a warp has a piece of a row: eight vectors of each lane are on their way at once, which is
// what memory's rate takes of an SM. Bits are those of the movers' add warps.
#pragma once

#include "stretto/device/mover_routed_sums.h"
#include "stretto/device/pass_elements.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// A term of a sum, or a row that is moved: where it is, and its weight or the row that it becomes.
struct NamedRow {
  uint64 address;
  float weight;
  uint32 to;
};

// What a block has looked up.
struct NamedRows {
  NamedRow rows[kPassThreads];
  uint32 counts[kPassThreads];  // of a sum's terms; or of each warp's rows
};

// By all threads of a block.
class PassRouted {
 public:
  STRETTO_DEVICE PassRouted(const RoutedTables& tables, NamedRows& named)
      : tables_(tables), task_(tables.task), named_(named) {}

  // The slice's rows are moved; sums are not cut.
  STRETTO_DEVICE void run(Slice slice) const {
    if (tables_.routed.kind == RoutedKind::permute) {
      permute(slice);
    } else {
      sum_rows();
    }
  }

 private:
  static constexpr uint32 kWarps = kPassThreads / 32, kVectors = 8;
  static constexpr uint32 kPiece = 256;  // columns of eight elements of each lane

  STRETTO_DEVICE void sum_rows() const {
    const uint32 terms = tables_.num_terms();
    uint32 group = 8;  // threads that look up a row's terms
    while (group < terms) group *= 2;
    const uint32 at_once = kPassThreads / group;
#pragma unroll 1
    for (uint32 first = 0; first < task_.rows; first += at_once) {
      const uint32 rows = task_.rows - first < at_once ? task_.rows - first : at_once;
      if (first != 0) __syncthreads();
      look_up_terms(first, rows, group);
      __syncthreads();
      if (task_.from == MoverType::fp32) {
        sum_named<Fp32x4, 4>(first, rows, group);
      } else if (task_.from == MoverType::bf16) {
        sum_named_of<Bf16x8>(first, rows, group, terms);
      } else {
        sum_named_of<Fp16x8>(first, rows, group, terms);
      }
    }
  }
  template <class Format>
  STRETTO_DEVICE void sum_named_of(uint32 first, uint32 rows, uint32 group, uint32 terms) const {
    if (terms <= 2) {
      sum_named<Format, 2>(first, rows, group);
    } else {
      sum_named<Format, 8>(first, rows, group);
    }
  }

  // Terms that are there, in order, and how many.
  STRETTO_DEVICE void look_up_terms(uint32 first, uint32 rows, uint32 group) const {
    const uint32 row = threadIdx.x / group, number = threadIdx.x & (group - 1);
    RoutedTerm term;
    if (row < rows) term = tables_.term(first + row, number);
    const uint32 there = __ballot_sync(0xffffffffu, term.is_there);
    const uint32 of_row =
        there >> (threadIdx.x & 31 & ~(group - 1)) & (0xffffffffu >> (32 - group));
    const uint32 before = __popc(of_row & ((1u << number) - 1));
    if (term.is_there) named_.rows[row * group + before] = {term.row, term.weight, 0};
    if (number == 0) named_.counts[row] = __popc(of_row);
  }

  // By warps, a unit of a row each: so many terms at once of each of as many pieces as make eight
  // vectors of a lane.
  template <class Format, uint32 kTerms>
  STRETTO_DEVICE void sum_named(uint32 first_row, uint32 rows, uint32 group) const {
    constexpr uint32 kHalves = 8 / Format::kElements;  // vectors of eight elements
    constexpr uint32 kPieces = kVectors / kTerms / kHalves, kWidth = kPieces * kPiece;
    const uint32 columns = task_.columns, across = (columns + kWidth - 1) / kWidth;
    const uint32 units = rows * across;
    const bool stores_all = tables_.routed.kind != RoutedKind::combine;
#pragma unroll 1
    for (uint32 unit = threadIdx.x / 32; unit < units; unit += kWarps) {
      const uint32 row = unit / across;
      const uint32 column = (unit - row * across) * kWidth + threadIdx.x % 32 * 8;
      const uint32 count = named_.counts[row];
      if (count == 0 && !stores_all) continue;
      float sums[kPieces][8] = {};
#pragma unroll 1
      for (uint32 at = 0; at < count; at += kTerms) {
        const NamedRow* const terms = named_.rows + row * group + at;
        Vec16 part[kTerms][kPieces][kHalves];
        float weights[kTerms];
#pragma unroll
        for (uint32 i = 0; i < kTerms; ++i) {
          const NamedRow term = terms[i];
          weights[i] = term.weight;
#pragma unroll
          for (uint32 p = 0; p < kPieces; ++p) {
            const bool is_there = at + i < count && column + p * kPiece < columns;
            const uint64 address = term.address + (column + p * kPiece) * 2 * kHalves;
#pragma unroll
            for (uint32 h = 0; h < kHalves; ++h) {
              part[i][p][h] = load_vector_if(is_there, address + h * 16);
            }
          }
        }
#pragma unroll
        for (uint32 i = 0; i < kTerms; ++i) {
          if (at + i >= count) break;
#pragma unroll
          for (uint32 p = 0; p < kPieces; ++p) {
#pragma unroll
            for (uint32 h = 0; h < kHalves; ++h) {
              add_weighted<Format>(weights[i], part[i][p][h], sums[p] + h * Format::kElements);
            }
          }
        }
      }
#pragma unroll
      for (uint32 p = 0; p < kPieces; ++p) {
        store_eight_to_each(task_, tables_.to, first_row + row, column + p * kPiece, sums[p]);
      }
    }
  }

  template <class Format>
  STRETTO_DEVICE static void add_weighted(float weight, const Vec16& part, float* sums) {
    float values[Format::kElements];
    if constexpr (Format::kElements == 8) {
      Format::read(values, part);
    } else {
#pragma unroll
      for (uint32 j = 0; j < 4; ++j) values[j] = float_of_bits(part.word[j]);
    }
#pragma unroll
    for (uint32 j = 0; j < Format::kElements; ++j) sums[j] = fmaf(weight, values[j], sums[j]);
  }

  // Sources: CHOICES, X.
  STRETTO_DEVICE void permute(Slice slice) const {
    const uint32 own =
        task_.rows > slice.index ? (task_.rows - slice.index + slice.count - 1) / slice.count : 0;
#pragma unroll 1
    for (uint32 first = 0; first < own; first += kPassThreads) {
      if (first != 0) __syncthreads();
      move_named(look_up_rows(first, own, slice));
    }
  }

  // Rows that are there, in order; how many.
  STRETTO_DEVICE uint32 look_up_rows(uint32 first, uint32 own, Slice slice) const {
    const uint32 number = first + threadIdx.x, row = slice.index + number * slice.count;
    const int32 choice = number < own ? number_at(tables_.from[0], row) : -1;
    const PermutedRow moved = tables_.permuted(choice, row);
    const uint32 there = __ballot_sync(0xffffffffu, moved.is_there);
    if (threadIdx.x % 32 == 0) named_.counts[threadIdx.x / 32] = __popc(there);
    __syncthreads();
    uint32 before = __popc(there & ((1u << threadIdx.x % 32) - 1)), all = 0;
#pragma unroll
    for (uint32 warp = 0; warp < kWarps; ++warp) {
      const uint32 count = named_.counts[warp];
      before += warp < threadIdx.x / 32 ? count : 0;
      all += count;
    }
    if (moved.is_there) {
      const MoverRegion& x = tables_.from[1];
      named_.rows[before] = {x.address + moved.from * x.row_bytes, 0, moved.to};
    }
    __syncthreads();
    return all;
  }

  STRETTO_DEVICE void move_named(uint32 rows) const {
    constexpr uint32 kLine = 512, kWidth = kVectors * kLine;
    const uint32 bytes = task_.columns * bytes_of(task_.from);
    const uint32 across = (bytes + kWidth - 1) / kWidth, units = rows * across;
#pragma unroll 1
    for (uint32 unit = threadIdx.x / 32; unit < units; unit += kWarps) {
      const uint32 row = unit / across;
      const uint32 at = (unit - row * across) * kWidth + threadIdx.x % 32 * 16;
      const NamedRow moved = named_.rows[row];
      Vec16 part[kVectors];
#pragma unroll
      for (uint32 i = 0; i < kVectors; ++i) {
        part[i] = load_vector_if(at + i * kLine < bytes, moved.address + at + i * kLine);
      }
#pragma unroll 1
      for (uint32 d = 0; d < task_.num_destinations; ++d) {
        const MoverRegion& to = tables_.to[d];
        const uint64 address = to.address + moved.to * to.row_bytes + at;
#pragma unroll
        for (uint32 i = 0; i < kVectors; ++i) {
          if (at + i * kLine < bytes) store_vector(address + i * kLine, part[i]);
        }
      }
    }
  }

  const RoutedTables& tables_;
  const MoverTask& task_;
  NamedRows& named_;
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
