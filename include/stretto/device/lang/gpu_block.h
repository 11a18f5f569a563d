// The GPU's block context: what `Block` is in a kernel under nvcc and NVRTC (sm_80 and newer).
//
// Peers are reached by load and store over NVLink or PCIe: one node, all ranks with a mapped heap.
// The rules of order between GPUs are kept in here and in gpu_waits.h: signals are released at
// system scope, polls are relaxed with one acquiring load after success.
//
//   launch  entry<my_kernel<GpuBlock>, MyArgs<GpuBlock>>(world, args), by name under NVRTC
#pragma once

#include "stretto/device/lang/gpu_world.h"
#include "stretto/device/lang/meeting.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/lang/gpu_copy.h"
#include "stretto/device/lang/gpu_waits.h"
#include "stretto/device/lang/gpu_words.h"
#include "stretto/device/launch_order.h"
#endif

namespace stretto::device {

#ifndef STRETTO_DEVICE

// On the host only the types of kernel arguments are needed.
struct GpuBlock {
  template <class T>
  using Pointer = T*;
};

#else

template <class U, class T>
STRETTO_DEVICE U* pointer_cast(T* pointer) {
  return reinterpret_cast<U*>(pointer);
}

// The word with T's bits.
template <unsigned long kBytes>
struct WordOf;
template <>
struct WordOf<4> {
  using Type = uint32;
};
template <>
struct WordOf<8> {
  using Type = uint64;
};
template <>
struct WordOf<16> {
  using Type = Vec16;
};

template <class T>
struct Plain {
  using Type = T;
};
template <class T>
struct Plain<const T> {
  using Type = T;
};

class GpuBlock : public GpuWaits {
 public:
  template <class T>
  using Pointer = T*;
  static constexpr int kMeetWords = device::kMeetWords;

  STRETTO_DEVICE explicit GpuBlock(const GpuWorld& world) : GpuWaits(world) {}

  STRETTO_DEVICE int rank() const { return world_.rank; }
  STRETTO_DEVICE int num_ranks() const { return world_.num_ranks; }
  STRETTO_DEVICE int block_idx() const { return static_cast<int>(blockIdx.x); }
  STRETTO_DEVICE int num_blocks() const { return static_cast<int>(gridDim.x); }
  STRETTO_DEVICE int thread_idx() const { return static_cast<int>(threadIdx.x); }
  STRETTO_DEVICE int num_threads() const { return static_cast<int>(blockDim.x); }
  STRETTO_DEVICE static constexpr int warp_size() { return 32; }

  STRETTO_DEVICE void sync(Where = {}) { __syncthreads(); }
  STRETTO_DEVICE bool sync_or(bool value, Where = {}) { return __syncthreads_or(value) != 0; }
  STRETTO_DEVICE void sync_warp(Where = {}) { __syncwarp(); }
  STRETTO_DEVICE bool sync_warp_or(bool value, Where = {}) {
    const bool any = __any_sync(0xffffffffu, value);
    __syncwarp();
    return any;
  }

  // Over aligned groups of `lanes` threads of a warp, a power of two; all get the same bits.
  STRETTO_DEVICE float warp_max(float value, int lanes, Where = {}) {
    for (int step = lanes / 2; step > 0; step /= 2) {
      value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
    }
    return value;
  }
  // Over the block; all threads get the same bits, and the same ones in every run.
  STRETTO_DEVICE float sum(float value, Where = {}) {
    __shared__ float of_warp[32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    value = lane < (blockDim.x + 31) / 32 ? of_warp[lane] : 0.0f;
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
  }

  template <class T>
  STRETTO_DEVICE T* shared(int offset_bytes) {
    extern __shared__ uint4 stretto_shared_memory[];
    return reinterpret_cast<T*>(reinterpret_cast<char*>(stretto_shared_memory) + offset_bytes);
  }

  template <class T>
  STRETTO_DEVICE typename Plain<T>::Type load(T* from, Order order = Order::kRelaxed,
                                              Scope scope = Scope::kSystem, Where = {}) {
    using Word = typename WordOf<sizeof(T)>::Type;
    const auto* const at = reinterpret_cast<const Word*>(from);
    const Word word = order == Order::kRelaxed ? load_strong(at, scope) : load_acquire(at, scope);
    return *reinterpret_cast<const typename Plain<T>::Type*>(&word);
  }
  template <class T>
  STRETTO_DEVICE void store(T* to, const typename Plain<T>::Type& value,
                            Order order = Order::kRelaxed, Scope scope = Scope::kSystem,
                            Where = {}) {
    using Word = typename WordOf<sizeof(T)>::Type;
    if (order != Order::kRelaxed) fence_acq_rel(scope);
    store_strong(reinterpret_cast<Word*>(to), *reinterpret_cast<const Word*>(&value), scope);
  }
  template <class T>
  STRETTO_DEVICE T fetch_add(T* at, typename Plain<T>::Type value, Order order = Order::kRelaxed,
                             Scope scope = Scope::kSystem, Where = {}) {
    return modify(order, scope, [&] { return fetch_add_relaxed(at, value, scope); });
  }
  template <class T>
  STRETTO_DEVICE T exchange(T* at, typename Plain<T>::Type value, Order order = Order::kRelaxed,
                            Scope scope = Scope::kSystem, Where = {}) {
    return modify(order, scope, [&] { return exchange_relaxed(at, value); });
  }
  template <class T>
  STRETTO_DEVICE T compare_swap(T* at, typename Plain<T>::Type expected,
                                typename Plain<T>::Type value, Order order = Order::kRelaxed,
                                Scope scope = Scope::kSystem, Where = {}) {
    return modify(order, scope, [&] { return compare_swap_relaxed(at, expected, value); });
  }

  // What a kernel has made that has ended, where no wait of this kernel's is between: L1 may have
  // what was there before.
  template <class T>
  STRETTO_DEVICE typename Plain<T>::Type load_ended(T* from, Where = {}) {
    return __ldcg(from);
  }

  // A hint: this rank's memory that is read soon, and that nobody writes meanwhile.
  template <class T>
  STRETTO_DEVICE void prefetch(const T* at) {
    prefetch_line(at);
  }

  // Of kernels that are started while the one before them on the stream ends (launch_order.h); of
  // others both have been done when they begin.
  STRETTO_DEVICE void let_next_start(Where = {}) { device::let_next_start(); }
  STRETTO_DEVICE void wait_for_kernel_before(Where = {}) { device::wait_for_kernel_before(); }

  STRETTO_DEVICE void fence(Where = {}) { fence_acq_rel_sys(); }
  // What was stored before has arrived, so a load behind it comes after that.
  STRETTO_DEVICE void quiet(Where = {}) { fence_sc_sys(); }

  // Stores are asynchronous by themselves, so blocking and non-blocking forms are the same.
  template <class T>
  STRETTO_DEVICE void put(T* dest, const T* source, uint64 num_bytes, int rank, Group group, bool,
                          Where = {}) {
    copy_by(group, peer(dest, rank), source, num_bytes);
  }
  template <class T>
  STRETTO_DEVICE void get(T* dest, const T* source, uint64 num_bytes, int rank, Group group, bool,
                          Where = {}) {
    copy_by(group, dest, peer(source, rank), num_bytes);
  }
  template <class T>
  STRETTO_DEVICE void put_signal(T* dest, const T* source, uint64 num_bytes, uint64* signal_address,
                                 uint64 value, SignalOp op, int rank, Group group, bool,
                                 Where = {}) {
    copy_by(group, peer(dest, rank), source, num_bytes);
    if (group == Group::kBlock) {
      sync();
      if (thread_idx() != 0) return;
    } else if (group == Group::kWarp) {
      sync_warp();
      if (thread_idx() % warp_size() != 0) return;
    }
    signal(signal_address, value, op, rank);
  }
  // Relaxed, it releases what the thread's last fence() or quiet() covered: for several in a row.
  STRETTO_DEVICE void signal(uint64* own, uint64 value, SignalOp op, int rank, Where = {},
                             Order order = Order::kRelease) {
    uint64* const word = peer(own, rank);
    if (order == Order::kRelaxed) {
      op == SignalOp::kAdd ? add_relaxed_sys(word, value)
                           : store_strong(word, value, Scope::kSystem);
    } else if (op == SignalOp::kAdd) {
      add_release_sys(word, value);
    } else {
      store_release_sys(word, value);
    }
  }

  // A group's threads begin a collective of a team, by number_in(team, rank()); one of them
  // reports. False: not of the team.
  STRETTO_DEVICE bool enter(const Team& team, int number, Group, bool reports, Where = {}) {
    if (number >= 0) return true;
    if (reports) disagree(rank(), kNotOfTeam, 0, 0, mark_of(team));
    return false;
  }
  STRETTO_DEVICE void leave() {}
  // `rank` meets this one with another mark: in another team, or for something else.
  STRETTO_DEVICE void meets_other(const Team&, int rank, uint64 own, uint64 theirs, Where = {}) {
    const bool teams = (own ^ theirs) % (1u << kTeamBits) != 0;
    disagree(rank, teams ? kOtherTeam : kOtherCall, 0, own, theirs);
  }
  STRETTO_DEVICE void no_such_root(const Team& team, int root, Where = {}) {
    disagree(rank(), kNoSuchRoot, 0, static_cast<uint64>(static_cast<int64>(root)), mark_of(team));
  }

  STRETTO_DEVICE uint64* sync_signals() const { return world_.sync_signals; }
  STRETTO_DEVICE uint64* sync_epochs() const { return world_.sync_epochs; }

 private:
  template <class Update>
  STRETTO_DEVICE auto modify(Order order, Scope scope, Update update) {
    if (order == Order::kRelease || order == Order::kAcqRel) fence_acq_rel(scope);
    const auto old = update();
    if (order == Order::kAcquire || order == Order::kAcqRel) fence_acq_rel(scope);
    return old;
  }
};

// The kernel of a launch, for one entry a kernel and argument type.
template <auto kKernel, class Args>
__global__ void entry(const __grid_constant__ GpuWorld world, const __grid_constant__ Args args) {
  wait_for_stream();
  GpuBlock block(world);
  kKernel(block, args);
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
