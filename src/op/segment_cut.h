// A graph while it is cut into segments: what there is of them so far.
#pragma once

#include <string>
#include <vector>

#include "stretto/operator.h"

namespace stretto {

struct SegmentCut {
  static constexpr int kCaller = -1;

  SegmentCut(Operator& graph, std::vector<std::string>& why_not)
      : op(graph), reasons(why_not), of_tensor(graph.tensors.size(), kCaller) {}

  Operator& op;
  std::vector<std::string>& reasons;
  std::vector<OperatorSegment> segments;
  std::vector<int> of_tensor;  // the segment that makes it, or the caller

  OperatorSegment& segment(int i) { return segments[static_cast<size_t>(i)]; }
  int& segment_of(int tensor) { return of_tensor[static_cast<size_t>(tensor)]; }
  // How often a tensor is used: by stages, and as an output.
  int uses(int tensor) const;
  void refuse(const std::string& reason) { reasons.push_back(reason); }
};

// Once all stages are in segments: whose the edges between them are.
void put_edges(SegmentCut& cut);
// What the caller gets otherwise than ranks have it, where no product moves it: segments behind all
// others.
void put_edges_of_outputs(SegmentCut& cut);

}  // namespace stretto
