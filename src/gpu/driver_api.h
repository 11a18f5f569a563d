// The part of CUDA's driver API that Stretto uses, declared here and found in libcuda at run time:
// building needs no toolkit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "stretto/device/tensor_map.h"

namespace stretto::cuda {

using Result = int;
using DevicePtr = unsigned long long;
using DeviceId = int;
struct ContextObject;
struct ModuleObject;
struct FunctionObject;
struct StreamObject;
struct EventObject;
struct GraphObject;
struct GraphExecObject;
struct GraphUpdateProblem {
  int kind;
  void *node, *node_before;
};
using ContextHandle = ContextObject*;
using ModuleHandle = ModuleObject*;
using FunctionHandle = FunctionObject*;
using StreamHandle = StreamObject*;
using EventHandle = EventObject*;
using GraphHandle = GraphObject*;
using GraphExecHandle = GraphExecObject*;

struct DeviceUuid {
  unsigned char bytes[16];
};

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotReady = 600;         // a stream that still has work
inline constexpr Result kCaptureImplicit = 906;  // of a stream that would order a captured one
inline constexpr Result kGraphNotAlike = 910;

enum DeviceAttribute : int {
  kAttributeSmCount = 16,
  kAttributeSharedBytesPerBlock = 97,  // with opt-in
  kAttributeComputeMajor = 75,
  kAttributeComputeMinor = 76,
};
enum FunctionAttribute : int {
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicSharedBytes = 8,
};

struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int overlap;
  } value;
};
inline constexpr int kLaunchCluster = 4;
inline constexpr int kLaunchOverlap = 6;  // "programmatic stream serialization"

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};

// Physical memory that can be handed to other processes, and where it is mapped.
using MemoryHandle = unsigned long long;
struct MemoryLocation {
  int type, id;
};
inline constexpr int kLocationDevice = 1;
struct MemoryProperties {
  int type, handle_types;
  MemoryLocation location;
  void* reserved;
  unsigned char flags[8];
};
inline constexpr int kMemoryPinned = 1;
inline constexpr int kHandleFileDescriptor = 1;
struct MemoryAccess {
  MemoryLocation location;
  int flags;
};
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kGranularityRecommended = 1;

enum TensorMapType : int { kTensorFp16 = 6, kTensorFp32 = 7, kTensorBf16 = 9 };
enum TensorMapSwizzle : int { kSwizzle32 = 1, kSwizzle64 = 2, kSwizzle128 = 3 };
inline constexpr int kL2PromoteNone = 0;
inline constexpr int kL2Promote256 = 3;

// A rectangle to copy; rows are `pitch` bytes apart.
struct Copy2D {
  size_t from_x, from_y;
  int from_type;
  const void* from_host;
  DevicePtr from;
  void* from_array;
  size_t from_pitch;
  size_t to_x, to_y;
  int to_type;
  void* to_host;
  DevicePtr to;
  void* to_array;
  size_t to_pitch;
  size_t row_bytes, rows;
};
inline constexpr int kMemoryUnified = 4;

// Of an address.
inline constexpr int kPointerMemoryKind = 2, kPointerIsManaged = 8, kPointerDevice = 9;
inline constexpr unsigned kMemoryHost = 1, kMemoryDevice = 2;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kWaitAtLeast = 0;  // as signed distance
inline constexpr unsigned kEventUntimed = 2;
inline constexpr int kPeerNativeAtomics = 3;  // attribute of a pair of GPUs: a link such as NVLink
inline constexpr int kCaptureThreadLocal = 1, kCaptureRelaxed = 2;

// X(member, symbol, parameters)
#define STRETTO_DRIVER_FUNCTIONS(X)                                                                \
  X(init, cuInit, (unsigned))                                                                      \
  X(get_error_name, cuGetErrorName, (Result, const char**))                                        \
  X(get_error_string, cuGetErrorString, (Result, const char**))                                    \
  X(driver_version, cuDriverGetVersion, (int*))                                                    \
  X(device_count, cuDeviceGetCount, (int*))                                                        \
  X(device_get, cuDeviceGet, (DeviceId*, int))                                                     \
  X(device_name, cuDeviceGetName, (char*, int, DeviceId))                                          \
  X(device_uuid, cuDeviceGetUuid_v2, (DeviceUuid*, DeviceId))                                      \
  X(device_attribute, cuDeviceGetAttribute, (int*, int, DeviceId))                                 \
  X(can_access_peer, cuDeviceCanAccessPeer, (int*, DeviceId, DeviceId))                            \
  X(peer_attribute, cuDeviceGetP2PAttribute, (int*, int, DeviceId from, DeviceId to))              \
  X(context_retain, cuDevicePrimaryCtxRetain, (ContextHandle*, DeviceId))                          \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (DeviceId))                                     \
  X(context_set, cuCtxSetCurrent, (ContextHandle))                                                 \
  X(context_get, cuCtxGetCurrent, (ContextHandle*))                                                \
  X(context_synchronize, cuCtxSynchronize, ())                                                     \
  X(enable_peer, cuCtxEnablePeerAccess, (ContextHandle, unsigned))                                 \
  X(module_load, cuModuleLoadData, (ModuleHandle*, const void*))                                   \
  X(module_unload, cuModuleUnload, (ModuleHandle))                                                 \
  X(module_function, cuModuleGetFunction, (FunctionHandle*, ModuleHandle, const char*))            \
  X(function_attribute, cuFuncGetAttribute, (int*, int, FunctionHandle))                           \
  X(function_set_attribute, cuFuncSetAttribute, (FunctionHandle, int, int))                        \
  X(resident_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                  \
    (int* of_an_sm, FunctionHandle, int threads, size_t dynamic_shared_bytes))                     \
  X(resident_clusters, cuOccupancyMaxActiveClusters,                                               \
    (int* of_gpu, FunctionHandle, const LaunchConfig*))                                            \
  X(launch, cuLaunchKernelEx, (const LaunchConfig*, FunctionHandle, void**, void**))               \
  X(alloc, cuMemAlloc_v2, (DevicePtr*, size_t))                                                    \
  X(free, cuMemFree_v2, (DevicePtr))                                                               \
  X(memory_info, cuMemGetInfo_v2, (size_t * free, size_t * all))                                   \
  X(pointer_attributes, cuPointerGetAttributes, (unsigned, int* which, void** answers, DevicePtr)) \
  X(address_range, cuMemGetAddressRange_v2, (DevicePtr * begin, size_t * num_bytes, DevicePtr))    \
  X(host_alloc, cuMemHostAlloc, (void**, size_t, unsigned))                                        \
  X(host_free, cuMemFreeHost, (void*))                                                             \
  X(memory_granularity, cuMemGetAllocationGranularity, (size_t*, const MemoryProperties*, int))    \
  X(memory_create, cuMemCreate,                                                                    \
    (MemoryHandle*, size_t, const MemoryProperties*, unsigned long long))                          \
  X(memory_release, cuMemRelease, (MemoryHandle))                                                  \
  X(memory_export, cuMemExportToShareableHandle, (void*, MemoryHandle, int, unsigned long long))   \
  X(memory_import, cuMemImportFromShareableHandle, (MemoryHandle*, void*, int))                    \
  X(reserve, cuMemAddressReserve, (DevicePtr*, size_t, size_t, DevicePtr, unsigned long long))     \
  X(unreserve, cuMemAddressFree, (DevicePtr, size_t))                                              \
  X(map, cuMemMap, (DevicePtr, size_t, size_t, MemoryHandle, unsigned long long))                  \
  X(unmap, cuMemUnmap, (DevicePtr, size_t))                                                        \
  X(set_access, cuMemSetAccess, (DevicePtr, size_t, const MemoryAccess*, size_t))                  \
  X(copy_async, cuMemcpyDtoDAsync_v2, (DevicePtr, DevicePtr, size_t, StreamHandle))                \
  X(copy_2d_async, cuMemcpy2DAsync_v2, (const Copy2D*, StreamHandle))                              \
  X(copy_to_host_async, cuMemcpyDtoHAsync_v2, (void*, DevicePtr, size_t, StreamHandle))            \
  X(copy_to_device_async, cuMemcpyHtoDAsync_v2, (DevicePtr, const void*, size_t, StreamHandle))    \
  X(fill_bytes, cuMemsetD8Async, (DevicePtr, unsigned char, size_t, StreamHandle))                 \
  X(fill_words, cuMemsetD32Async, (DevicePtr, unsigned, size_t, StreamHandle))                     \
  X(stream_priorities, cuCtxGetStreamPriorityRange, (int* lowest, int* highest))                   \
  X(stream_create, cuStreamCreateWithPriority, (StreamHandle*, unsigned, int))                     \
  X(stream_priority, cuStreamGetPriority, (StreamHandle, int*))                                    \
  X(stream_destroy, cuStreamDestroy_v2, (StreamHandle))                                            \
  X(stream_synchronize, cuStreamSynchronize, (StreamHandle))                                       \
  X(stream_wait_event, cuStreamWaitEvent, (StreamHandle, EventHandle, unsigned))                   \
  X(stream_query, cuStreamQuery, (StreamHandle))                                                   \
  X(stream_wait_value, cuStreamWaitValue64_v2, (StreamHandle, DevicePtr, uint64_t, unsigned))      \
  X(stream_write_value, cuStreamWriteValue64_v2, (StreamHandle, DevicePtr, uint64_t, unsigned))    \
  X(capture_info, cuStreamGetCaptureInfo_v2,                                                       \
    (StreamHandle, int*, uint64_t*, GraphHandle*, const void**, size_t*))                          \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (int*))                                       \
  X(capture_begin, cuStreamBeginCapture_v2, (StreamHandle, int))                                   \
  X(capture_end, cuStreamEndCapture, (StreamHandle, GraphHandle*))                                 \
  X(graph_instantiate, cuGraphInstantiateWithFlags,                                                \
    (GraphExecHandle*, GraphHandle, unsigned long long))                                           \
  X(graph_update, cuGraphExecUpdate_v2, (GraphExecHandle, GraphHandle, GraphUpdateProblem*))       \
  X(graph_launch, cuGraphLaunch, (GraphExecHandle, StreamHandle))                                  \
  X(graph_nodes, cuGraphGetNodes, (GraphHandle, void** nodes, size_t* count))                      \
  X(graph_destroy, cuGraphDestroy, (GraphHandle))                                                  \
  X(graph_exec_destroy, cuGraphExecDestroy, (GraphExecHandle))                                     \
  X(event_create, cuEventCreate, (EventHandle*, unsigned))                                         \
  X(event_destroy, cuEventDestroy_v2, (EventHandle))                                               \
  X(event_record, cuEventRecord, (EventHandle, StreamHandle))                                      \
  X(event_query, cuEventQuery, (EventHandle))                                                      \
  X(event_elapsed_ms, cuEventElapsedTime, (float*, EventHandle, EventHandle))                      \
  X(tensor_map_encode, cuTensorMapEncodeTiled,                                                     \
    (device::TensorMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,  \
     const uint32_t*, int, int, int, int))                                                         \
  X(tensor_map_move, cuTensorMapReplaceAddress, (device::TensorMap*, void*))

struct DriverApi {
#define STRETTO_MEMBER(member, symbol, parameters) Result(*member) parameters = nullptr;
  STRETTO_DRIVER_FUNCTIONS(STRETTO_MEMBER)
#undef STRETTO_MEMBER
};

// Why there is no driver to talk to, in the user's terms; empty when there is one.
const std::string& why_no_driver();

// Throws SystemError(why_no_driver()).
const DriverApi& driver();

// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)"
std::string reason_of(Result result);

// Throws SystemError naming `what` was tried and the driver's reason.
void check(Result result, const char* what);

}  // namespace stretto::cuda
