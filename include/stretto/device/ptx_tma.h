// The bulk copy engine (TMA, sm_90) between global and shared memory: boxes of tensors, and plain
// bytes.
//
// Coordinates are elements, innermost first. Past the tensor's end loads bring zeros and stores
// leave memory alone; a store that begins before the tensor faults (seen on H200: illegal
// instruction). Loads complete on an mbarrier by bytes; stores in groups of the issuing thread, in
// two steps: shared memory may be reused (`read`), and the data is visible (full).
#pragma once

#include "stretto/device/tensor_map.h"

namespace stretto::device {

// Of an SM: where blocks of later kernels may run, too.
STRETTO_DEVICE uint32 sm_index() {
  uint32 index;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(index));
  return index;
}

// What this SM holds of the map is dropped.
STRETTO_DEVICE void acquire_tensor_map(const TensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map) : "memory");
}

STRETTO_DEVICE void prefetch_tensor_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

STRETTO_DEVICE void tma_load(uint32 destination, const TensorMap* map, int32 x, int32 y,
                             uint32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// The same for a tensor of three dimensions, and of five.
STRETTO_DEVICE void tma_load(uint32 destination, const TensorMap* map, int32 x, int32 y, int32 z,
                             uint32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
STRETTO_DEVICE void tma_load(uint32 destination, const TensorMap* map, int32 x, int32 y, int32 z,
                             int32 u, int32 v, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v)
      : "memory");
}

// Delivers the box to the same place in every block of the cluster named in `block_mask`, and
// completes each one's own barrier.
STRETTO_DEVICE void tma_load_multicast(uint32 destination, const TensorMap* map, int32 x, int32 y,
                                       uint32 barrier, uint16 block_mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(block_mask)
      : "memory");
}

STRETTO_DEVICE void tma_store(const TensorMap* map, int32 x, int32 y, uint32 source) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
      "r"(source), "r"(x), "r"(y)
      : "memory");
}

// Contiguous bytes without a map: addresses and size are multiples of 16.
STRETTO_DEVICE void bulk_load(uint32 destination, uint64 source, uint32 num_bytes, uint32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(destination),
      "l"(source), "r"(num_bytes), "r"(barrier)
      : "memory");
}
STRETTO_DEVICE void bulk_store(uint64 destination, uint32 source, uint32 num_bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination),
               "r"(source), "r"(num_bytes)
               : "memory");
}

STRETTO_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// All but the newest kPending groups have read their shared memory.
template <int kPending>
STRETTO_DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// All but the newest kPending groups have written their data; only after this may a flag say so.
template <int kPending>
STRETTO_DEVICE void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace stretto::device
