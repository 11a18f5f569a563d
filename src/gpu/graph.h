// Work of a stream, captured to be launched as a whole.
#pragma once

#include <cstddef>

#include "gpu/device.h"

namespace stretto::cuda {

// What `enqueue` puts on the stream, which does not run.
class Capture {
 public:
  template <typename Enqueue>
  Capture(const Stream& stream, Enqueue enqueue) {
    begin(stream);
    try {
      enqueue();
    } catch (...) {
      give_up(stream);
      throw;
    }
    end(stream);
  }
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  // Kernels, copies and whatever else it has.
  size_t num_nodes() const;

 private:
  friend class Graph;
  void begin(const Stream& stream);
  void end(const Stream& stream);
  void give_up(const Stream& stream) noexcept;  // the stream can be used again
  GraphHandle handle_ = nullptr;
};

// What launches a capture many times; one launch behind the other.
class Graph {
 public:
  template <typename Enqueue>
  Graph(const Stream& stream, Enqueue enqueue) : Graph(Capture(stream, enqueue)) {}
  explicit Graph(const Capture& capture);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Launches from now on are of `capture`. False, and nothing changes, where its nodes are not of
  // the same kinds in the same order.
  bool become(const Capture& capture);
  void launch(const Stream& stream) const;
  size_t num_nodes() const { return num_nodes_; }

 private:
  GraphExecHandle exec_ = nullptr;
  size_t num_nodes_;
};

}  // namespace stretto::cuda
