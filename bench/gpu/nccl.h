// NCCL's collectives as the communication to compare with, found at run time.
#pragma once

#include <string>
#include <vector>

#include "cuda/device.h"
#include "stretto/dtype.h"

namespace stretto::bench {

// One communicator a rank, all in this process; rank r's calls come from a thread of its own.
class Nccl {
 public:
  // Throws SystemError when there is no NCCL.
  explicit Nccl(int ranks);
  // From rank's thread, its GPU current; returns once every rank has joined.
  void join(int rank);

  void all_gather(int rank, const cuda::Stream& stream, cuda::DevicePtr from, cuda::DevicePtr to,
                  int64_t count_each, DType dtype) const;
  void reduce_scatter(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                      cuda::DevicePtr to, int64_t count_each, DType dtype) const;
  void all_reduce(int rank, const cuda::Stream& stream, cuda::DevicePtr from, cuda::DevicePtr to,
                  int64_t count, DType dtype) const;

 private:
  struct UniqueId {
    char bytes[128];
  };
  struct Api {
    int (*get_unique_id)(UniqueId*) = nullptr;
    int (*init_rank)(void**, int, UniqueId, int) = nullptr;
    int (*all_gather)(const void*, void*, size_t, int, void*, cuda::StreamHandle) = nullptr;
    int (*reduce_scatter)(const void*, void*, size_t, int, int, void*,
                          cuda::StreamHandle) = nullptr;
    int (*all_reduce)(const void*, void*, size_t, int, int, void*, cuda::StreamHandle) = nullptr;
  };
  Api api_;
  UniqueId id_{};
  std::vector<void*> comms_;
};

}  // namespace stretto::bench
