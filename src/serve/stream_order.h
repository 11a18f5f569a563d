// Runs of a GPU one after the other, whatever streams they go to.
//
// Two runs at once may each hold the SMs that the other's peers wait for. Streams that nobody
// orders are ordered here: behind each run an event is recorded, for which the next one waits where
// its stream is another. All ranks enqueue the same runs in the same order, so none waits for a run
// that waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "gpu/device.h"

namespace stretto {

class StreamOrder {
 public:
  // That of a GPU, for all contexts of this process, until the last of them ends.
  static std::shared_ptr<StreamOrder> of_gpu(int gpu);

  // `enqueue` puts a run on the stream; the GPU is current. One thread at a time.
  void enqueue(const cuda::Stream& stream, const std::function<void()>& run);

 private:
  struct Last {
    std::unique_ptr<cuda::Event> event;  // behind it; none: there was no run
    cuda::StreamHandle stream = nullptr;
  };

  std::mutex mutex_;
  Last eager_;
  // In the capture `capture_`: what is captured waits for nothing outside, and nothing outside for
  // it, so launches of graphs are the caller's to order.
  Last captured_;
  std::optional<uint64_t> capture_;
};

}  // namespace stretto
