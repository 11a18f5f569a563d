// Any bytes are a graph or a UsageError; what was read prints and reads the same, and with sizes it
// is an operator, each of whose stages is in one segment, or is refused. One with faults is refused
// with any sizes.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "op/read_graph.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace {

using namespace stretto;

void check_segments(const Operator& op) {
  std::vector<int> times(op.stages.size(), 0);
  for (const OperatorSegment& segment : op.segments) {
    for (const int stage : segment.stages) ++times.at(static_cast<size_t>(stage));
    if (op.tensors.size() <= static_cast<size_t>(segment.result)) std::abort();
  }
  for (const int each : times) {
    if (each != 1) std::abort();
  }
}

void bind(const std::shared_ptr<const GraphText>& graph, int64_t size, int ranks) {
  Sizes sizes;
  for (const std::string& name : sizes_of(*graph)) sizes.emplace_back(name, size);
  static const Machine machine = load_machine("h200x8");
  try {
    const Operator op = make_graph(graph, sizes, ranks, DType::bf16);
    check_segments(op);
    legal(op, schedule_of(find_preset("tiles"), op, machine), machine);
  } catch (const UsageError&) {
  }
}

// What could be read of a text with faults is never served.
void bind_faulty(std::string_view text) {
  std::shared_ptr<const GraphText> graph;
  try {
    graph = read_graph(text, "faulty.graph");
  } catch (const UsageError&) {
    return;
  }
  for (const int64_t size : {0, 1, 16}) {
    Sizes sizes;
    for (const std::string& name : sizes_of(*graph)) sizes.emplace_back(name, size);
    if (size == 16 && !sizes.empty()) sizes.pop_back();
    for (const int ranks : {0, 1, 2}) {
      try {
        make_graph(graph, sizes, ranks, DType::bf16);
        std::abort();
      } catch (const UsageError&) {
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::shared_ptr<const GraphText> graph;
  try {
    graph = parse_graph({reinterpret_cast<const char*>(data), size}, "fuzz.graph");
  } catch (const UsageError&) {
    bind_faulty({reinterpret_cast<const char*>(data), size});
    return 0;
  }
  const std::string text = print(*graph);
  if (print(*parse_graph(text, "printed.graph")) != text) std::abort();
  for (const int ranks : {1, 2, 3}) {
    for (const int64_t each : {int64_t{1}, int64_t{7}, int64_t{8} * ranks, int64_t{1} << 30}) {
      bind(graph, each, ranks);
    }
  }
  return 0;
}
