// How a thread of a GPU's block waits for other ranks, and what is left of a wait that failed.
//
// Every wait has a deadline. One whose deadline passes records it, raises the abort word of every
// rank, and fails; from then on every wait that is not satisfied at once fails too, so kernels
// leave.
#pragma once

#include "stretto/device/lang/gpu_world.h"
#include "stretto/device/lang/words.h"
#include "stretto/device/poll.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/lang/gpu_words.h"
#endif

namespace stretto::device {

#ifdef STRETTO_DEVICE

class GpuWaits {
 public:
  STRETTO_DEVICE explicit GpuWaits(const GpuWorld& world) : world_(world) {}

  // Where `own`, in the symmetric heap, lies on `rank`; null where its heap is not mapped.
  template <class T>
  STRETTO_DEVICE T* peer(T* own, int rank, Where = {}) const {
    if (world_.heaps[rank] == nullptr) return nullptr;
    const auto offset = reinterpret_cast<const char*>(own) - world_.heaps[world_.rank];
    return reinterpret_cast<T*>(world_.heaps[rank] + offset);
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

 protected:
  const GpuWorld& world_;

 private:
  // Of poll_until().
  struct Limits {
    STRETTO_DEVICE const uint32* abort_word() const { return world.abort; }
    STRETTO_DEVICE uint32* host_word() const { return world.host_word; }
    STRETTO_DEVICE uint64 timeout_ns() const {
      return world.timeout_ns + (patience == Patience::kLonger ? kGraceNs : 0);
    }
    const GpuWorld& world;
    Patience patience;
  };

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
    const int first = a ? 0 : b ? 1 : c ? 2 : 3;
    const auto address = reinterpret_cast<uint64>(words + first);
    record({1, blockIdx.x, from, Wrong::kUnwritten, address, 0, sentinel, {}});
  }

  // The first of a rank is kept; all ranks leave.
  STRETTO_DEVICE void record(const ExpiredWait& what) {
    report_first(
        &world_.expired->filled, [&] { *world_.expired = what; },
        static_cast<uint32>(world_.num_ranks),
        [&](uint32 rank) { return peer(world_.abort, static_cast<int>(rank)); }, world_.host_word);
  }
};

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
