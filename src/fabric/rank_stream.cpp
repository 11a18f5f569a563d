#include "fabric/rank_stream.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::fabric {
namespace {

constexpr int kThreads = 32;

cuda::LangKernelName name_of(const char* kernel, const char* args) {
  return {"kernels/stream_signals.h", fmt::format("{}<GpuBlock>", kernel),
          fmt::format("{}<GpuBlock>", args)};
}

}  // namespace

RankStream::RankStream(const LangGroup& group, int rank, const cuda::Device& device,
                       const cuda::Compiler& compiler, const cuda::Stream& stream)
    : world_(group.world(rank)),
      stream_(stream),
      notify_(device, compiler, name_of("rank_notify", "RankNotifyArgs"), kThreads),
      wait_(device, compiler, name_of("rank_wait", "RankWaitArgs"), kThreads) {}

void RankStream::rank_notify(device::uint64* signal, device::uint64 amount, int peer) {
  (void)at_peer(signal, sizeof *signal, peer);
  notify_.launch(stream_, 1, kThreads, world_,
                 device::RankNotifyArgs<device::GpuBlock>{signal, amount, peer});
}

void RankStream::rank_wait(device::uint64* signal, device::uint64 bound, int from) {
  (void)at_peer(signal, sizeof *signal, world_.rank);
  wait_.launch(stream_, 1, kThreads, world_,
               device::RankWaitArgs<device::GpuBlock>{signal, bound, from});
}

void RankStream::copy(void* dest, const void* source, size_t num_bytes, int peer) {
  const cuda::DevicePtr to = at_peer(dest, num_bytes, peer);
  if (num_bytes == 0) return;
  cuda::check(cuda::driver().copy_async(to, reinterpret_cast<cuda::DevicePtr>(source), num_bytes,
                                        stream_.handle()),
              "copy to a peer");
}

cuda::DevicePtr RankStream::at_peer(const void* own, size_t num_bytes, int peer) const {
  if (peer < 0 || peer >= world_.num_ranks) {
    throw UsageError(fmt::format("there is no rank {}; there are {}", peer, world_.num_ranks));
  }
  const auto at = reinterpret_cast<cuda::DevicePtr>(own);
  const auto heap = reinterpret_cast<cuda::DevicePtr>(world_.heaps[world_.rank]);
  if (at < heap || num_bytes > world_.heap_bytes || at - heap > world_.heap_bytes - num_bytes) {
    throw UsageError(
        fmt::format("{} bytes at {} are no symmetric memory of rank {}: take memory "
                    "that was allocated from its heap",
                    num_bytes, own, world_.rank));
  }
  return reinterpret_cast<cuda::DevicePtr>(world_.heaps[peer]) + (at - heap);
}

}  // namespace stretto::fabric
