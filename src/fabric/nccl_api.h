// The part of NCCL that Stretto uses, declared here and found in libnccl at run time.
//
// NVLink multicast is never used: loading sets NCCL_NVLS_ENABLE=0 for this process.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

#include "gpu/driver_api.h"

namespace stretto::fabric {

struct NcclCommObject;
struct NcclWindowObject;
using NcclComm = NcclCommObject*;
using NcclWindow = NcclWindowObject*;
struct NcclId {
  char bytes[128];
};

// ncclConfig_t as of 2.18; later ones take it for what it was then.
struct NcclConfig {
  static constexpr int kUnset = INT_MIN;
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = kUnset, cga_cluster_size = kUnset, min_blocks = kUnset, max_blocks = kUnset;
  const char* network = nullptr;
  int split_share = kUnset;
};

inline constexpr int kNcclSum = 0;
inline constexpr int kNcclWindowSymmetric = 1;
// As ncclGetVersion counts: with what is looked for here, and with windows.
inline constexpr int kNcclSince = 21800, kNcclWindowsSince = 22800;

// X(member, symbol, parameters): what every NCCL from 2.18 on has
#define STRETTO_NCCL_FUNCTIONS(X)                                                                  \
  X(version, ncclGetVersion, (int*))                                                               \
  X(unique_id, ncclGetUniqueId, (NcclId*))                                                         \
  X(init_rank, ncclCommInitRankConfig, (NcclComm*, int, NcclId, int, NcclConfig*))                 \
  X(destroy, ncclCommDestroy, (NcclComm))                                                          \
  X(abort, ncclCommAbort, (NcclComm))                                                              \
  X(async_error, ncclCommGetAsyncError, (NcclComm, int*))                                          \
  X(group_start, ncclGroupStart, ())                                                               \
  X(group_end, ncclGroupEnd, ())                                                                   \
  X(all_gather, ncclAllGather, (const void*, void*, size_t, int, NcclComm, cuda::StreamHandle))    \
  X(reduce_scatter, ncclReduceScatter,                                                             \
    (const void*, void*, size_t, int, int, NcclComm, cuda::StreamHandle))                          \
  X(all_reduce, ncclAllReduce,                                                                     \
    (const void*, void*, size_t, int, int, NcclComm, cuda::StreamHandle))                          \
  X(broadcast, ncclBroadcast,                                                                      \
    (const void*, void*, size_t, int, int, NcclComm, cuda::StreamHandle))                          \
  X(reduce, ncclReduce, (const void*, void*, size_t, int, int, int, NcclComm, cuda::StreamHandle)) \
  X(send, ncclSend, (const void*, size_t, int, int, NcclComm, cuda::StreamHandle))                 \
  X(receive, ncclRecv, (void*, size_t, int, int, NcclComm, cuda::StreamHandle))

// What windows need (2.28); null in older ones, the last one also in 2.28 itself.
#define STRETTO_NCCL_WINDOW_FUNCTIONS(X)                                                  \
  X(mem_alloc, ncclMemAlloc, (void**, size_t))                                            \
  X(mem_free, ncclMemFree, (void*))                                                       \
  X(window_register, ncclCommWindowRegister, (NcclComm, void*, size_t, NcclWindow*, int)) \
  X(window_deregister, ncclCommWindowDeregister, (NcclComm, NcclWindow))                  \
  X(peer_pointer, ncclGetPeerDevicePointer, (NcclWindow, size_t, int, void**))

struct NcclApi {
#define STRETTO_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  STRETTO_NCCL_FUNCTIONS(STRETTO_MEMBER)
  STRETTO_NCCL_WINDOW_FUNCTIONS(STRETTO_MEMBER)
#undef STRETTO_MEMBER
  const char* (*error_string)(int) = nullptr;
  const char* (*last_error)(NcclComm) = nullptr;
  int version_code = 0;  // 22809
};

// Why there is no NCCL to talk to, in the user's terms; empty when there is one.
const std::string& why_no_nccl();
// Why windows cannot be used, in the user's terms; empty when they can.
std::string why_no_windows();

// Throws SystemError(why_no_nccl()).
const NcclApi& nccl();

// "NCCL 2.28.9"
std::string nccl_version();

// Throws SystemError naming `what` was tried and NCCL's reason.
void check_nccl(int status, const char* what);
// The same of an allocation, where memory may just not suffice.
void check_nccl_alloc(int status, size_t num_bytes);

}  // namespace stretto::fabric
