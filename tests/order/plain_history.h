// What LaneClocks should say, by walking a graph.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace stretto {

// The same history as a graph whose edges are walked one by one.
class PlainHistory {
 public:
  PlainHistory(std::vector<uint16_t> lane_rank, int ranks)
      : lane_rank_(std::move(lane_rank)),
        ranks_(ranks),
        last_(lane_rank_.size(), -1),
        run_start_(static_cast<size_t>(ranks), -1),
        runs_(static_cast<size_t>(ranks), 0) {}

  int append(uint32_t lane, const std::vector<int>& causes) {
    int node = add(causes);
    link(last_[lane] >= 0 ? last_[lane] : run_start_[lane_rank_[lane]], node);
    last_[lane] = node;
    return node;
  }
  std::vector<int> join(const std::vector<uint32_t>& lanes) {
    const int barrier = add({});
    for (uint32_t lane : lanes) {
      link(last_[lane] >= 0 ? last_[lane] : run_start_[lane_rank_[lane]], barrier);
    }
    std::vector<int> nodes;
    for (uint32_t lane : lanes) {
      last_[lane] = add({barrier});
      nodes.push_back(last_[lane]);
    }
    return nodes;
  }
  void end_run(int rank) {
    const int end = add({});
    link(run_start_[static_cast<size_t>(rank)], end);
    for (size_t lane = 0; lane < lane_rank_.size(); ++lane) {
      if (lane_rank_[lane] != rank) continue;
      link(last_[lane], end);
      last_[lane] = -1;
    }
    run_start_[static_cast<size_t>(rank)] = end;
    ends_[{rank, runs_[static_cast<size_t>(rank)]++}] = end;
  }
  bool precedes(int before, int after) const {
    return before == after || past_[after].count(before);
  }
  int end_of(int rank, uint32_t run) const {
    auto at = ends_.find({rank, run});
    return at == ends_.end() ? -1 : at->second;
  }

 private:
  int add(const std::vector<int>& causes) {
    past_.emplace_back();
    const int node = static_cast<int>(past_.size()) - 1;
    for (int cause : causes) link(cause, node);
    return node;
  }
  void link(int from, int to) {
    if (from < 0) return;
    past_[to].insert(from);
    past_[to].insert(past_[from].begin(), past_[from].end());
  }
  std::vector<uint16_t> lane_rank_;
  int ranks_;
  std::vector<int> last_, run_start_;
  std::vector<uint32_t> runs_;
  std::vector<std::set<int>> past_;
  std::map<std::pair<int, uint32_t>, int> ends_;
};

}  // namespace stretto
