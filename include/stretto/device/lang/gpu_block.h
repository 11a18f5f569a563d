// The GPU's block context: what `Block` is in a kernel under nvcc and NVRTC (sm_80 and newer).
//
// Peers are reached by load and store over NVLink or PCIe: one node, all ranks with a mapped heap.
// The rules of order between GPUs are kept in here: signals are released at system scope, polls are
// relaxed with one acquiring load after success, every poll has a deadline. A wait whose deadline
// passes records it, raises the abort word of every rank, and fails; from then on every wait that
// is not satisfied at once fails too, so kernels leave.
//
//   launch  entry<my_kernel<GpuBlock>, MyArgs<GpuBlock>>(world, args), by name under NVRTC
#pragma once

#include "stretto/device/lang/gpu_world.h"
#include "stretto/device/lang/meeting.h"
#include "stretto/device/poll.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/lang/gpu_copy.h"
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

class GpuBlock {
 public:
  template <class T>
  using Pointer = T*;
  static constexpr int kMeetWords = device::kMeetWords;

  STRETTO_DEVICE explicit GpuBlock(const GpuWorld& world) : world_(world) {}

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
  STRETTO_DEVICE T* peer(T* own, int rank, Where = {}) const {
    if (world_.heaps[rank] == nullptr) return nullptr;
    const auto offset = reinterpret_cast<const char*>(own) - world_.heaps[world_.rank];
    return reinterpret_cast<T*>(world_.heaps[rank] + offset);
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

  // A hint: this rank's memory that is read soon, and that nobody writes meanwhile.
  template <class T>
  STRETTO_DEVICE void prefetch(const T* at) {
    prefetch_line(at);
  }

  STRETTO_DEVICE void fence(Where = {}) { fence_acq_rel_sys(); }
  STRETTO_DEVICE void quiet(Where = {}) { fence_acq_rel_sys(); }

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

  template <class T>
  STRETTO_DEVICE bool wait_until(T* word, Compare compare, uint64 bound, Where where = {},
                                 int from = -1, Patience patience = Patience::kUsual) {
    uint64 seen = 0;
    return wait_value(word, compare, bound, seen, where, from, patience);
  }
  // The same; `seen` is a value that held.
  template <class T>
  STRETTO_DEVICE bool wait_value(T* word, Compare compare, uint64 bound, uint64& seen, Where = {},
                                 int from = -1, Patience patience = Patience::kUsual) {
    const bool came = poll_until(
        Limits{world_, patience},
        [&] {
          seen = load_strong(word, Scope::kSystem);
          return holds(seen, compare, bound);
        },
        [&] { expire(word, bound, seen, from); });
    // The load that acquires reads the polled value or a later one. A later one that holds orders
    // as if the poll had read it. For one that does not, a fence acquires what the poll read.
    if (came && !holds(load_acquire(word, Scope::kSystem), compare, bound)) fence_acq_rel_sys();
    return came;
  }
  STRETTO_DEVICE bool wait_words_not(const Vec16* at, uint32 poison, Vec16& value, Where = {},
                                     int from = -1, Patience patience = Patience::kUsual) {
    Vec16 values[1];
    const bool came = wait_vectors_not(at, 0, 1, -1, poison, values, {}, from, patience);
    value = values[0];
    return came;
  }
  // The same for vector j at `at + j * stride`, j < count <= kMost, but not j == skip; the loads of
  // all are in flight together. Vector j is of rank first_rank + j.
  template <int kMost>
  STRETTO_DEVICE bool wait_vectors_not(const Vec16* at, uint64 stride, int count, int skip,
                                       uint32 poison, Vec16 (&values)[kMost], Where = {},
                                       int first_rank = 0, Patience patience = Patience::kUsual) {
    int missing = -1;
    const auto ready = [&] {
      STRETTO_UNROLL for (int j = 0; j < kMost; ++j) {
        if (j < count && j != skip) values[j] = load_strong(at + j * stride, Scope::kSystem);
      }
      missing = -1;
      STRETTO_UNROLL for (int j = 0; j < kMost; ++j) {
        if (j < count && j != skip && !differs(values[j], poison)) missing = j;
      }
      return missing < 0;
    };
    return poll_until(Limits{world_, patience}, ready,
                      [&] { unwritten(at + missing * stride, poison, first_rank + missing); });
  }

  // The same for vectors at any places: none where at[j] is null; vector j is of rank_of(j).
  template <int kMost, class RankOf>
  STRETTO_DEVICE bool wait_each_not(Vec16* const (&at)[kMost], uint32 poison,
                                    Vec16 (&values)[kMost], RankOf rank_of, Where = {},
                                    Patience patience = Patience::kUsual) {
    int missing = -1;
    const Vec16* missing_at = nullptr;
    const auto ready = [&] {
      STRETTO_UNROLL for (int j = 0; j < kMost; ++j) {
        if (at[j] != nullptr) values[j] = load_strong(at[j], Scope::kSystem);
      }
      missing = -1;
      STRETTO_UNROLL for (int j = 0; j < kMost; ++j) {
        if (at[j] != nullptr && !differs(values[j], poison)) missing = j, missing_at = at[j];
      }
      return missing < 0;
    };
    return poll_until(Limits{world_, patience}, ready,
                      [&] { unwritten(missing_at, poison, rank_of(missing)); });
  }

  // This rank and `rank` make this call with other arguments; every wait fails from now on.
  STRETTO_DEVICE void disagree(int rank, const char* argument, uint32, uint64 own, uint64 theirs,
                               Where = {}) {
    ExpiredWait what{1, blockIdx.x, rank, Wrong::kDisagrees, 0, own, theirs, {}};
    for (int i = 0; i < 16 && argument[i] != 0; ++i) what.argument[i] = argument[i];
    record(what);
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
  // Of poll_until().
  struct Limits {
    STRETTO_DEVICE const uint32* abort_word() const { return world.abort; }
    STRETTO_DEVICE uint64 timeout_ns() const {
      return world.timeout_ns + (patience == Patience::kLonger ? kGraceNs : 0);
    }
    const GpuWorld& world;
    Patience patience;
  };

  template <class Update>
  STRETTO_DEVICE auto modify(Order order, Scope scope, Update update) {
    if (order == Order::kRelease || order == Order::kAcqRel) fence_acq_rel(scope);
    const auto old = update();
    if (order == Order::kAcquire || order == Order::kAcqRel) fence_acq_rel(scope);
    return old;
  }

  STRETTO_DEVICE static bool differs(const Vec16& v, uint32 poison) {
    return v.word[0] != poison && v.word[1] != poison && v.word[2] != poison && v.word[3] != poison;
  }

  STRETTO_DEVICE void expire(const void* word, uint64 expected, uint64 seen, int from) {
    record(
        {1, blockIdx.x, from, Wrong::kExpired, reinterpret_cast<uint64>(word), expected, seen, {}});
  }
  // The first word of a vector that still holds the sentinel.
  STRETTO_DEVICE void unwritten(const Vec16* at, uint32 sentinel, int from) {
    const Vec16 now = load_strong(at, Scope::kSystem);
    const auto* const words = reinterpret_cast<const uint32*>(at);
    const bool a = now.word[0] == sentinel, b = now.word[1] == sentinel,
               c = now.word[2] == sentinel;
    record({1,
            blockIdx.x,
            from,
            Wrong::kUnwritten,
            reinterpret_cast<uint64>(words + (a   ? 0
                                              : b ? 1
                                              : c ? 2
                                                  : 3)),
            0,
            sentinel,
            {}});
  }

  // The first of a rank is kept; all ranks leave.
  STRETTO_DEVICE void record(const ExpiredWait& what) {
    report_first(
        &world_.expired->filled, [&] { *world_.expired = what; },
        static_cast<uint32>(world_.num_ranks),
        [&](uint32 rank) { return peer(world_.abort, static_cast<int>(rank)); });
  }

  const GpuWorld& world_;
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
