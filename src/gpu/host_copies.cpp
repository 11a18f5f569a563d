#include "gpu/host_copies.h"

#include <map>
#include <mutex>

#include "gpu/beside_captures.h"
#include "gpu/device.h"

namespace stretto::cuda {
namespace {

std::shared_ptr<const Stream> copy_stream() {
  ContextHandle context = nullptr;
  check(driver().context_get(&context), "ask for the current GPU");
  return copy_stream_of(context);
}

}  // namespace

std::shared_ptr<const Stream> copy_stream_of(ContextHandle context) {
  static std::mutex mutex;
  static std::map<ContextHandle, std::weak_ptr<const Stream>> streams;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const Stream>& known = streams[context];
  std::shared_ptr<const Stream> stream = known.lock();
  // Streams of one priority may share a hardware queue, where a copy would stand behind a wait.
  if (!stream) known = stream = std::make_shared<const Stream>(Stream::Priority::highest);
  return stream;
}

void copy_to_gpu(DevicePtr to, const void* from, size_t num_bytes) {
  if (num_bytes == 0) return;
  const BesideCaptures beside;
  const auto stream = copy_stream();
  check(driver().copy_to_device_async(to, from, num_bytes, stream->handle()), "copy to a GPU");
  stream->synchronize();
}

void copy_from_gpu(void* to, DevicePtr from, size_t num_bytes) {
  if (num_bytes == 0) return;
  const BesideCaptures beside;
  const auto stream = copy_stream();
  check(driver().copy_to_host_async(to, from, num_bytes, stream->handle()), "copy from a GPU");
  stream->synchronize();
}

}  // namespace stretto::cuda
