// What happened and what let it happen. Every node begins when its predecessor ends, so walking
// back from the last node gives a path without gaps to the start of the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/plan.h"
#include "stretto/simulate.h"

namespace stretto::sim {

enum class NodeKind : uint8_t {
  launch,  // of a rank's kernels
  task,    // gemm, reduce, copy, collective
  store,   // remote writes of a gemm, under way after its tile is done
  notify,  // on its way to the counter
  boundary
};

inline constexpr uint32_t kNoNode = UINT32_MAX;
inline constexpr int32_t kNoRank = -1;

struct Node {
  double end = 0;
  uint32_t before = kNoNode;
  InstrRef where;
  NodeKind kind = NodeKind::task;
  int32_t port_rank = kNoRank;  // whose port determined the end, if one did
};

class History {
 public:
  uint32_t add(const Node& node) {
    nodes_.push_back(node);
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  const Node& operator[](uint32_t node) const { return nodes_[node]; }

  // The path that ends with `last`, last step first.
  std::vector<CriticalStep> path_to(const Plan& plan, uint32_t last) const;

 private:
  std::string why(const Plan& plan, const Node& node) const;

  std::vector<Node> nodes_;
};

}  // namespace stretto::sim
