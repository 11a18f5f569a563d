#include "gpu/graph.h"

namespace stretto::cuda {
void Capture::begin(const Stream& stream) {
  check(driver().capture_begin(stream.handle(), kCaptureThreadLocal), "begin capturing a graph");
}
void Capture::end(const Stream& stream) {
  check(driver().capture_end(stream.handle(), &handle_), "capture a graph");
}
void Capture::give_up(const Stream& stream) noexcept {
  driver().capture_end(stream.handle(), &handle_);
  if (handle_ != nullptr) driver().graph_destroy(handle_);
}
Capture::~Capture() { driver().graph_destroy(handle_); }

size_t Capture::num_nodes() const {
  size_t count = 0;
  check(driver().graph_nodes(handle_, nullptr, &count), "count a graph's nodes");
  return count;
}

Graph::Graph(const Capture& capture) : num_nodes_(capture.num_nodes()) {
  check(driver().graph_instantiate(&exec_, capture.handle_, 0), "instantiate a graph");
}
Graph::~Graph() { driver().graph_exec_destroy(exec_); }

bool Graph::become(const Capture& capture) {
  GraphUpdateProblem problem;
  const Result result = driver().graph_update(exec_, capture.handle_, &problem);
  if (result == kGraphNotAlike) return false;
  check(result, "change a graph");
  return true;
}

void Graph::launch(const Stream& stream) const {
  check(driver().graph_launch(exec_, stream.handle()), "launch a graph");
}

}  // namespace stretto::cuda
