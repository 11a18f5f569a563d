// The emulator's block context: what `Block` is in a kernel that runs on the CPU. Operations that
// the GPU's has too mean the same: their contracts are in device/lang/gpu_block.h and gpu_waits.h.
#pragma once

#include "stretto/device/lang/meeting.h"
#include "stretto/fibre/pointer.h"

namespace stretto::fibre {

using device::Compare;
using device::Group;
using device::Patience;
using device::SignalOp;
using device::Team;
using device::uint32;
using device::uint64;
using device::Vec16;

class Engine;
struct Thread;

class Block {
 public:
  template <class T>
  using Pointer = fibre::Pointer<T>;
  static constexpr int kMeetWords = 3;

  Block(Engine& engine, Thread& thread) : engine_(engine), thread_(thread) {}
  Block(const Block&) = delete;

  int rank() const;
  int num_ranks() const;
  int block_idx() const;
  int num_blocks() const;
  int thread_idx() const;
  int num_threads() const;
  int warp_size() const;

  void sync(Where where = Where::here());
  bool sync_or(bool value, Where where = Where::here());
  void sync_warp(Where where = Where::here());
  bool sync_warp_or(bool value, Where where = Where::here());
  float warp_max(float value, int lanes, Where where = Where::here());
  float sum(float value, Where where = Where::here());

  template <class T>
  Pointer<T> peer(const Pointer<T>& own, int rank, Where where = Where::here()) {
    return Pointer<T>(peer_address(own.address(), rank, where));
  }
  template <class T>
  Pointer<T> shared(int offset_bytes) {
    return Pointer<T>(shared_address(offset_bytes));
  }

  template <class T>
  std::remove_const_t<T> load(const Pointer<T>& from, Order order = Order::kRelaxed,
                              Scope scope = Scope::kSystem, Where where = Where::here()) {
    std::remove_const_t<T> value;
    load_strong(from.address(), &value, sizeof value, order, scope, where);
    return value;
  }
  template <class T>
  void store(const Pointer<T>& to, const std::type_identity_t<T>& value,
             Order order = Order::kRelaxed, Scope scope = Scope::kSystem,
             Where where = Where::here()) {
    store_strong(to.address(), &value, sizeof value, order, scope, where);
  }
  // Read-modify-writes return the old value.
  template <class T>
  T fetch_add(const Pointer<T>& at, std::type_identity_t<T> value, Order order = Order::kRelaxed,
              Scope scope = Scope::kSystem, Where where = Where::here()) {
    return static_cast<T>(
        modify(at.address(), sizeof(T), Update::kAdd, value, 0, order, scope, where));
  }
  template <class T>
  T exchange(const Pointer<T>& at, std::type_identity_t<T> value, Order order = Order::kRelaxed,
             Scope scope = Scope::kSystem, Where where = Where::here()) {
    return static_cast<T>(
        modify(at.address(), sizeof(T), Update::kSet, value, 0, order, scope, where));
  }
  template <class T>
  T compare_swap(const Pointer<T>& at, std::type_identity_t<T> expected,
                 std::type_identity_t<T> value, Order order = Order::kRelaxed,
                 Scope scope = Scope::kSystem, Where where = Where::here()) {
    return static_cast<T>(modify(at.address(), sizeof(T), Update::kCompareSwap, value, expected,
                                 order, scope, where));
  }

  template <class T>
  std::remove_const_t<T> load_ended(const Pointer<T>& from, Where where = Where::here()) {
    return load(from, Order::kRelaxed, Scope::kGpu, where);
  }
  template <class T>
  void prefetch(const Pointer<T>&) {}

  void let_next_start(Where where = Where::here());
  void wait_for_kernel_before(Where where = Where::here());

  void fence(Where where = Where::here());
  void quiet(Where where = Where::here());

  template <class T>
  void put(const Pointer<T>& dest, const Pointer<const std::type_identity_t<T>>& source,
           uint64 num_bytes, int rank, Group group, bool blocking, Where where = Where::here()) {
    put_bytes(dest.address(), source.address(), num_bytes, rank, group, blocking, where);
  }
  template <class T>
  void get(const Pointer<T>& dest, const Pointer<const std::type_identity_t<T>>& source,
           uint64 num_bytes, int rank, Group group, bool blocking, Where where = Where::here()) {
    get_bytes(dest.address(), source.address(), num_bytes, rank, group, blocking, where);
  }
  template <class T>
  void put_signal(const Pointer<T>& dest, const Pointer<const std::type_identity_t<T>>& source,
                  uint64 num_bytes, const Pointer<uint64>& signal, uint64 value, SignalOp op,
                  int rank, Group group, bool blocking, Where where = Where::here()) {
    put_signal_bytes(dest.address(), source.address(), num_bytes, signal.address(), value, op, rank,
                     group, blocking, where);
  }
  void signal(const Pointer<uint64>& signal, uint64 value, SignalOp op, int rank,
              Where where = Where::here(), Order order = Order::kRelease);

  template <class T>
  bool wait_until(const Pointer<T>& word, Compare compare, uint64 bound,
                  Where where = Where::here(), int from = -1, Patience = Patience::kUsual) {
    uint64 seen = 0;
    return wait_value(word, compare, bound, seen, where, from);
  }
  template <class T>
  bool wait_value(const Pointer<T>& word, Compare compare, uint64 bound, uint64& seen,
                  Where where = Where::here(), int from = -1, Patience = Patience::kUsual) {
    static_assert(sizeof(T) == 8 || sizeof(T) == 4);
    return wait_word(word.address(), sizeof(T), compare, bound, seen, where, from);
  }
  bool wait_words_not(const Pointer<const Vec16>& at, uint32 poison, Vec16& value,
                      Where where = Where::here(), int from = -1, Patience = Patience::kUsual);
  template <int kMost>
  bool wait_vectors_not(const Pointer<const Vec16>& at, uint64 stride, int count, int skip,
                        uint32 poison, Vec16 (&values)[kMost], Where where = Where::here(),
                        int first_rank = 0, Patience = Patience::kUsual) {
    for (int j = 0; j < count; ++j) {
      if (j == skip) continue;
      if (!wait_words_not(at + static_cast<uint64>(j) * stride, poison, values[j], where,
                          first_rank + j)) {
        return false;
      }
    }
    return true;
  }
  template <int kMost, class RankOf>
  bool wait_each_not(const Pointer<Vec16> (&at)[kMost], uint32 poison, Vec16 (&values)[kMost],
                     RankOf rank_of, Where where = Where::here(),
                     Patience patience = Patience::kUsual) {
    for (int j = 0; j < kMost; ++j) {
      if (at[j] && !wait_words_not(at[j], poison, values[j], where, rank_of(j), patience)) {
        return false;
      }
    }
    return true;
  }
  void disagree(int rank, const char* argument, uint32 which, uint64 own, uint64 theirs,
                Where where = Where::here());
  bool enter(const Team& team, int number, Group group, bool reports, Where where = Where::here());
  void leave();
  void meets_other(const Team& team, int rank, uint64 own, uint64 theirs,
                   Where where = Where::here());
  void no_such_root(const Team& team, int root, Where where = Where::here());

  Pointer<uint64> sync_signals() const;
  Pointer<uint64> sync_epochs() const;

 private:
  enum class Update : uint8_t { kSet, kAdd, kCompareSwap };
  friend class Engine;

  Address peer_address(const Address& own, int rank, Where where);
  Address shared_address(int offset_bytes);
  void load_strong(const Address& from, void* value, size_t num_bytes, Order order, Scope scope,
                   Where where);
  void store_strong(const Address& to, const void* value, size_t num_bytes, Order order,
                    Scope scope, Where where);
  uint64 modify(const Address& at, size_t num_bytes, Update update, uint64 value, uint64 expected,
                Order order, Scope scope, Where where);
  void put_bytes(const Address& dest, const Address& source, uint64 num_bytes, int rank,
                 Group group, bool blocking, Where where);
  void get_bytes(const Address& dest, const Address& source, uint64 num_bytes, int rank,
                 Group group, bool blocking, Where where);
  void put_signal_bytes(const Address& dest, const Address& source, uint64 num_bytes,
                        const Address& signal, uint64 value, SignalOp op, int rank, Group group,
                        bool blocking, Where where);
  void agree(const char* name, const Address& dest, const Address& source, uint64 num_bytes,
             int rank, Where where);
  bool wait_word(const Address& word, size_t num_bytes, Compare compare, uint64 bound, uint64& seen,
                 Where where, int from);

  Engine& engine_;
  Thread& thread_;
};

}  // namespace stretto::fibre
