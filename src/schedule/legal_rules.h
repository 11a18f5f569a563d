// The rules of legal(), but those of one edge alone, which are in the file of its row
// (lower/edge_row.h). Each is a function; all of them always speak, in the order of
// lower/legal.cpp.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "stretto/schedule.h"

namespace stretto {

// Sides of tiles.
inline constexpr int kMinTile = 8, kMaxTile = 512, kTileStep = 8;

struct Case {
  const Segment& op;
  const Schedule& schedule;
  const Machine& machine;
  const bool op_good;
  std::vector<std::string> reasons;  // the operator's own problems first

  template <typename... Args>
  void refuse(fmt::format_string<Args...> format, Args&&... args) {
    reasons.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
};

// legal_numbers.cpp
void check_numbers(Case& c);
void check_ranges_of_k(Case& c);
void check_machine(Case& c);
void check_size(Case& c);

// legal_moves.cpp: how dense products with a gather or a sum, or with neither, move, order and add;
// and those of its rules that other edges have too.
void check_moves(Case& c);
void check_sync(Case& c);
void check_reduction(Case& c);
void check_pair(Case& c);

// legal_routed.cpp: all that there is to say of products whose rows choose matrices.
void check_routed(Case& c);
void check_permute(Case& c);

// legal_brought.cpp: what brings a product its input, beside the rules of its edge.
void check_brought(Case& c);

// legal_look_ups.cpp: all that there is to say of pooled look-ups.
void check_look_ups(Case& c);

// legal_cluster.cpp
void check_cluster(Case& c);

// legal_libraries.cpp: all of it, and its rules.
void check_libraries(Case& c);
void check_gemm(Case& c);
void check_algorithm(Case& c);
void check_collectives(Case& c);
void check_kernel(Case& c);  // of products of all kinds

}  // namespace stretto
