#include "op/segment_cut.h"

#include <algorithm>

namespace stretto {

int SegmentCut::uses(int tensor) const {
  int count = 0;
  for (const Stage& stage : op.stages) {
    count += static_cast<int>(std::count(stage.in.begin(), stage.in.end(), tensor));
  }
  return count + (op.output_held(tensor) ? 1 : 0);
}

// A text without faults has a line for each stage.
void SegmentCut::refuse(const Stage& stage, const std::string& reason) {
  const auto number = static_cast<size_t>(&stage - op.stages.data());
  binding.refuse(binding.text.stages[number].in_place, reason);
}

void SegmentCut::refuse_made(int tensor, const std::string& reason) {
  const auto number = static_cast<size_t>(op.tensor(tensor).stage);
  binding.refuse(binding.text.stages[number].place, reason);
}

void SegmentCut::refuse_output(int tensor, const std::string& reason) {
  for (const OutputText& output : binding.text.outputs) {
    if (output.tensor == op.tensor(tensor).name) return binding.refuse(output.place, reason);
  }
}

}  // namespace stretto
