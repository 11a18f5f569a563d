// A graph while it is cut into segments: what there is of them so far.
#pragma once

#include <string>
#include <vector>

#include "op/binding.h"
#include "stretto/operator.h"

namespace stretto {

struct SegmentCut {
  static constexpr int kCaller = -1;

  explicit SegmentCut(Binding& of)
      : binding(of), op(of.graph), of_tensor(of.graph.tensors.size(), kCaller) {}

  Binding& binding;
  Operator& op;
  std::vector<OperatorSegment> segments;
  std::vector<int> of_tensor;  // the segment that makes it, or the caller

  OperatorSegment& segment(int i) { return segments[static_cast<size_t>(i)]; }
  int& segment_of(int tensor) { return of_tensor[static_cast<size_t>(tensor)]; }
  // How often a tensor is used: by stages, and as an output.
  int uses(int tensor) const;
  // Where the stage, one of `op`, has its operands.
  void refuse(const Stage& stage, const std::string& reason);
  // Where a stage makes the tensor, or where the graph outputs it.
  void refuse_made(int tensor, const std::string& reason);
  void refuse_output(int tensor, const std::string& reason);
};

// Once all stages are in segments: whose the edges between them are.
void put_edges(SegmentCut& cut);
// A dense product with an edge on both sides becomes two segments, each with one of them: NAME.in
// in front of NAME.
void part_edges(SegmentCut& cut);
// What the caller gets otherwise than ranks have it, where no product moves it: segments behind all
// others.
void put_edges_of_outputs(SegmentCut& cut);

}  // namespace stretto
