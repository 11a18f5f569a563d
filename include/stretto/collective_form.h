// What the kinds of collectives do, what they have in common, and where they differ.
//
// Collectives join all ranks: none finishes before all have started. Each lane's part is a release
// of all that the lane did before, and of all that it had acquired, to the lanes of the others, as
// the order of a stream makes it. What it writes itself is known by its own notifies only.
//   all_gather      reads p regions; writes R * p, grouped by source rank.
//   reduce_scatter  reads R * p regions grouped by owner; writes p: the sums of this rank's group.
//   all_reduce      reads p regions, writes p.
//   all_to_all      reads R * p regions grouped by destination; writes R * p grouped by source.
//   all_reduce_norm reads X, R, W, writes S, Y: S = R + the sum of X over all ranks, in fp32 and
//                   rounded once; Y = S normed by rows (task kind norm) with weights W. R is the
//                   same on all ranks. Only with low_latency_collectives.
//   dispatch experts=E, combine experts=E   rows to the ranks of the experts that they choose, and
//                   weighted sums of what these made: docs/plan-format.md, "Routing". Only with
//                   low_latency_collectives.
//   dispatch_all experts=E, combine_all experts=E   the same, where each rank has a part of every
//                   expert, so that all ranks are those of a row that chooses one.
// But for the last four, region i of one rank pairs with region i of the others; shapes in a pair
// agree (empty allowed).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stretto {

// What is read and written of those that go by ids.
#define STRETTO_SENT_BY_IDS "X and IDS, or X, IDS and WEIGHTS, and what comes of them"
#define STRETTO_SUMMED_BY_IDS "WEIGHTS, IDS, rows and perhaps ROWS, and own sums"

// X(enumerator, text, meaning, what CollectiveForm has of it...)
#define STRETTO_COLLECTIVES(X)                                                                   \
  X(all_gather, "all_gather", "concatenate", .groups_writes = true, .operands = "p and ranks*p") \
  X(reduce_scatter, "reduce_scatter", "sum, scatter", .groups_reads = true, .adds = true,        \
    .operands = "ranks*p and p")                                                                 \
  X(all_reduce, "all_reduce", "sum, everywhere", .adds = true, .operands = "p and p")            \
  X(all_to_all, "all_to_all", "to each its part", .groups_reads = true, .groups_writes = true,   \
    .operands = "ranks*p and ranks*p")                                                           \
  X(all_reduce_norm, "all_reduce_norm", "sum, everywhere, to a residual, and its RMSNorm",       \
    .adds = true, .own_reads = 2, .own_writes = 1, .attribute = "eps",                           \
    .operands = "three (terms, residual, weights) and two (sum, norm)")                          \
  X(dispatch, "dispatch", "rows to the ranks of their experts", .operands = STRETTO_SENT_BY_IDS, \
    .count = "experts")                                                                          \
  X(combine, "combine", "weighted sums of rows of experts", .adds = true,                        \
    .operands = STRETTO_SUMMED_BY_IDS, .count = "experts")                                       \
  X(dispatch_all, "dispatch_all", "rows that choose an expert to all ranks",                     \
    .operands = STRETTO_SENT_BY_IDS, .count = "experts", .of_all_experts = true)                 \
  X(combine_all, "combine_all", "weighted sums of rows of parts of experts", .adds = true,       \
    .operands = STRETTO_SUMMED_BY_IDS, .count = "experts", .of_all_experts = true)

enum class CollectiveKind : uint8_t {
#define STRETTO_ENUM(name, text, meaning, ...) name,
  STRETTO_COLLECTIVES(STRETTO_ENUM)
#undef STRETTO_ENUM
};

struct CollectiveForm {
  // Regions are grouped: what is read by the rank that gets it, what is written by the rank that
  // it comes from. Neither: region i of all ranks is one.
  bool groups_reads = false, groups_writes = false;
  bool adds = false;
  // The last regions, which belong to the rank alone.
  uint16_t own_reads = 0, own_writes = 0;
  std::string_view attribute = {};  // the name of the number that it needs; empty: none
  std::string_view operands = {};   // what it reads and writes, for messages
  // The name of the whole number that it needs; empty: none. One that has it goes by ids, and pairs
  // no regions.
  std::string_view count = {};
  // Of such: each rank has a part of every expert; else experts are dealt to ranks.
  bool of_all_experts = false;

  constexpr bool goes_by_ids() const { return !count.empty(); }
  // Regions of a group, of those that a rank reads.
  constexpr size_t parts(size_t reads, size_t ranks) const {
    if (goes_by_ids()) return 0;
    const size_t moved = reads - (reads < own_reads ? reads : own_reads);
    return groups_reads ? moved / ranks : moved;
  }
};

constexpr CollectiveForm kCollectiveForms[] = {
#define STRETTO_FORM(name, text, meaning, ...) CollectiveForm{__VA_ARGS__},
    STRETTO_COLLECTIVES(STRETTO_FORM)
#undef STRETTO_FORM
};
constexpr const CollectiveForm& form_of(CollectiveKind kind) {
  return kCollectiveForms[static_cast<size_t>(kind)];
}

}  // namespace stretto
