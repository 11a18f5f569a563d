#include "nccl.h"

#include <fmt/format.h>

#include <array>

#include "cuda/dynamic_library.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

constexpr int kSum = 0;
int type_of(DType dtype) { return dtype == DType::bf16 ? 9 : dtype == DType::fp16 ? 6 : 7; }

void check(int status, const char* what) {
  if (status != 0) throw SystemError(fmt::format("NCCL: {} failed with status {}", what, status));
}

void* pointer(cuda::DevicePtr address) { return reinterpret_cast<void*>(address); }

}  // namespace

Nccl::Nccl(int ranks) : comms_(static_cast<size_t>(ranks)) {
  const std::array<std::string, 1> names = {"libnccl.so.2"};
  const auto library = cuda::DynamicLibrary::open(names, cuda::toolkit_folders());
  if (!library) throw SystemError("no NCCL (libnccl.so.2) to compare with");
  const cuda::Import imports[] = {
      {"ncclGetUniqueId", reinterpret_cast<void**>(&api_.get_unique_id)},
      {"ncclCommInitRank", reinterpret_cast<void**>(&api_.init_rank)},
      {"ncclAllGather", reinterpret_cast<void**>(&api_.all_gather)},
      {"ncclReduceScatter", reinterpret_cast<void**>(&api_.reduce_scatter)},
      {"ncclAllReduce", reinterpret_cast<void**>(&api_.all_reduce)}};
  if (const char* missing = cuda::import_all(*library, imports)) {
    throw SystemError(fmt::format("NCCL lacks {}", missing));
  }
  check(api_.get_unique_id(&id_), "unique id");
}

void Nccl::join(int rank) {
  check(api_.init_rank(&comms_[static_cast<size_t>(rank)], static_cast<int>(comms_.size()), id_,
                       rank),
        "init");
}

void Nccl::all_gather(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                      cuda::DevicePtr to, int64_t count_each, DType dtype) const {
  check(api_.all_gather(pointer(from), pointer(to), static_cast<size_t>(count_each), type_of(dtype),
                        comms_[static_cast<size_t>(rank)], stream.handle()),
        "all-gather");
}

void Nccl::reduce_scatter(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                          cuda::DevicePtr to, int64_t count_each, DType dtype) const {
  check(
      api_.reduce_scatter(pointer(from), pointer(to), static_cast<size_t>(count_each),
                          type_of(dtype), kSum, comms_[static_cast<size_t>(rank)], stream.handle()),
      "reduce-scatter");
}

void Nccl::all_reduce(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                      cuda::DevicePtr to, int64_t count, DType dtype) const {
  check(api_.all_reduce(pointer(from), pointer(to), static_cast<size_t>(count), type_of(dtype),
                        kSum, comms_[static_cast<size_t>(rank)], stream.handle()),
        "all-reduce");
}

}  // namespace stretto::bench
