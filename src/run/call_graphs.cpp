#include "run/call_graphs.h"

namespace stretto::runtime {

CallGraphs::CallGraphs(const cuda::Stream& stream, int64_t first, int64_t last,
                       const std::function<void(int64_t rows)>& enqueue)
    : first_(first) {
  for (int64_t rows = first; rows <= last; ++rows) {
    auto capture = std::make_unique<cuda::Capture>(stream, [&] { enqueue(rows); });
    const size_t shared = shared_for(*capture, rows);
    runs_.push_back({std::move(capture), shared});
  }
}

// Mostly the last one's: an algorithm multiplies many counts.
size_t CallGraphs::shared_for(const cuda::Capture& capture, int64_t rows) {
  for (size_t i = shared_.size(); i-- > 0;) {
    if (!shared_[i].graph->become(capture)) continue;
    shared_[i].rows = rows;
    return i;
  }
  shared_.push_back({std::make_unique<cuda::Graph>(capture), rows});
  return shared_.size() - 1;
}

bool CallGraphs::launch(const cuda::Stream& stream, int64_t rows) {
  const int64_t index = rows - first_;
  if (index < 0 || index >= static_cast<int64_t>(runs_.size())) return false;
  const Run& run = runs_[static_cast<size_t>(index)];
  Shared& shared = shared_[run.shared];
  if (shared.rows != rows && !shared.graph->become(*run.capture)) return false;
  shared.rows = rows;
  shared.graph->launch(stream);
  return true;
}

}  // namespace stretto::runtime
