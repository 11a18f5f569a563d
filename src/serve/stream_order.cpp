#include "serve/stream_order.h"

#include <map>

namespace stretto {

std::shared_ptr<StreamOrder> StreamOrder::of_gpu(int gpu) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<StreamOrder>> known;
  const std::lock_guard lock(mutex);
  std::shared_ptr<StreamOrder> found = known[gpu].lock();
  if (!found) known[gpu] = found = std::make_shared<StreamOrder>();
  return found;
}

void StreamOrder::enqueue(const cuda::Stream& stream, const std::function<void()>& run) {
  const std::lock_guard lock(mutex_);
  const std::optional<uint64_t> capture = stream.capture();
  if (capture && capture != capture_) captured_ = {};
  if (capture) capture_ = capture;
  Last& last = capture ? captured_ : eager_;
  if (last.event && last.stream != stream.handle()) stream.wait(*last.event);
  run();
  if (!last.event) last.event = std::make_unique<cuda::Event>(false);
  last.event->record(stream);
  last.stream = stream.handle();
}

}  // namespace stretto
