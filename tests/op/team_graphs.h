// Graphs whose tensors are dealt to teams of ranks, for tests of every room.
#pragma once

#include <string>
#include <string_view>

#include "stretto/operator.h"

namespace stretto {

// Of m rows: a gather before the products of every team, and sums behind them.
inline constexpr char kMlpInTeams[] =
    "input x [m, h] rows\n"
    "input wg [f, h] rows of tp\n"
    "input wu [f, h] rows of tp\n"
    "input wd [h, f] cols of tp\n"
    "g = gemm x wg\n"
    "u = gemm x wu\n"
    "a = swiglu g u\n"
    "y = gemm a wd\n"
    "output y rows\n";

// An all-to-all of every team: it has columns of its rows, each rank whole ones.
inline constexpr char kHeadsInTeams[] =
    "input x [m, f] cols of tp\n"
    "input w [h, f] whole\n"
    "y = gemm x w\n"
    "output y rows\n";

struct TeamSizes {
  int64_t m, h, f;
};

// Of lines like these: teams `tp` have so many ranks.
inline Operator op_in_teams(std::string_view lines, const TeamSizes& sizes, int64_t team,
                            int ranks) {
  const auto graph = parse_graph("graph own m h f t\nteam tp t\n" + std::string(lines));
  return make_graph(graph, {{"m", sizes.m}, {"h", sizes.h}, {"f", sizes.f}, {"t", team}}, ranks,
                    DType::bf16);
}

}  // namespace stretto
