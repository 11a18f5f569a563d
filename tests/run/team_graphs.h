// Graphs whose tensors are dealt to teams of ranks, for GPUs.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "op/team_graphs.h"
#include "stretto/error.h"

namespace stretto::runtime {

struct TeamGraph {
  const char *name, *lines;
};

inline constexpr TeamGraph kTeamGraphs[] = {
    {"mlp", kMlpInTeams},
    // Whole rows of a team that are added up; and what each rank of a team must have alike.
    {"sums",
     "input x [m, f] cols of tp\n"
     "input w [h, f] cols of tp\n"
     "input r [m, h] whole of tp\n"
     "input v [1, h] whole of tp\n"
     "y = gemm x w\n"
     "s = add y r\n"
     "n = norm s v\n"
     "output n whole of tp\n"},
    {"heads", kHeadsInTeams},
    {"two_kinds",
     "team pairs 2\n"
     "input x [m, f] cols of tp\n"
     "input w [h, f] cols of tp\n"
     "input r [m, h] rows\n"
     "input q [f, h] rows of pairs\n"
     "y = gemm x w\n"
     "s = add y r\n"
     "z = gemm s q\n"
     "output z cols of pairs\n"},
    {"experts",
     "input c [m, f] cols of tp\n"
     "input x [m, h] rows\n"
     "input wo [h, f] cols of tp\n"
     "input wr [8, h] whole\n"
     "input wg [8, f, h] experts\n"
     "input wd [8, h, f] experts\n"
     "o = gemm c wo\n"
     "s = add o x\n"
     "scores = gemm s wr\n"
     "ids = top_k scores k=2\n"
     "weights = softmax_gate scores ids\n"
     "g = grouped s wg ids\n"
     "b = silu g\n"
     "d = grouped b wd ids\n"
     "y = weigh d ids weights\n"
     "output y rows\n"},
};

inline const TeamGraph& team_graph(std::string_view name) {
  const auto found = std::find_if(std::begin(kTeamGraphs), std::end(kTeamGraphs),
                                  [&](const TeamGraph& one) { return one.name == name; });
  STRETTO_ASSERT(found != std::end(kTeamGraphs), "a graph of this name");
  return *found;
}

inline Operator op_of_teams(const TeamGraph& graph, int64_t team, int ranks) {
  return op_in_teams(graph.lines, {75 * ranks, 512, 1024}, team, ranks);
}

}  // namespace stretto::runtime
