// Numbers that name no expert, or no row of a table, and are not -1, as GPUs count them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stretto::emu {

class BadIds {
 public:
  // What a task of a rank found in a run. Each rank that makes tables makes them of all tokens, so
  // one speaks for all; what ranks look up is in tables of their own.
  void add(int run, int rank, bool makes_tables, int64_t count) {
    if (count == 0) return;
    const auto at = static_cast<size_t>(run);
    if (runs_.size() <= at) runs_.resize(at + 1);
    if (!makes_tables) {
      runs_[at].looked_up += count;
      return;
    }
    std::vector<int64_t>& by_rank = runs_[at].by_rank;
    if (by_rank.size() <= static_cast<size_t>(rank)) by_rank.resize(static_cast<size_t>(rank) + 1);
    by_rank[static_cast<size_t>(rank)] += count;
  }
  int64_t most_of_a_run() const {
    int64_t most = 0;
    for (const Run& run : runs_) {
      int64_t of_all = 0;
      for (const int64_t one : run.by_rank) of_all = std::max(of_all, one);
      most = std::max(most, of_all + run.looked_up);
    }
    return most;
  }

 private:
  struct Run {
    std::vector<int64_t> by_rank = {};
    int64_t looked_up = 0;
  };
  std::vector<Run> runs_;
};

}  // namespace stretto::emu
