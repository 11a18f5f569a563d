#include "stretto/fibre/block.h"

#include <fmt/format.h>

#include "core/ranks_text.h"
#include "fibre/engine.h"

namespace stretto::fibre {
namespace {

struct Slice {
  uint64_t begin = 0;
  uint64_t size = 0;
};

// What thread `index` of `count` moves of `bytes`: whole 16-byte pieces.
Slice slice_of(uint64_t bytes, uint64_t index, uint64_t count) {
  const uint64_t pieces = (bytes + 15) / 16;
  const uint64_t begin = std::min(bytes, pieces * index / count * 16);
  const uint64_t end = std::min(bytes, pieces * (index + 1) / count * 16);
  return {begin, end - begin};
}

// This thread's part of a transfer that its group makes together.
Slice group_slice(const Block& block, uint64_t num_bytes, Group group) {
  if (group == Group::kThread) return {0, num_bytes};
  const int size = group == Group::kBlock ? block.num_threads() : block.warp_size();
  const int first = block.thread_idx() / size * size;
  return slice_of(num_bytes, static_cast<uint64_t>(block.thread_idx() - first),
                  static_cast<uint64_t>(std::min(size, block.num_threads() - first)));
}

uint64_t key(const Address& address) {
  return reinterpret_cast<uintptr_t>(address.allocation) * 31 +
         static_cast<uint64_t>(address.offset) * 7 + static_cast<uint64_t>(address.rank);
}

Address plus(Address address, uint64_t bytes) {
  address.offset += static_cast<int64_t>(bytes);
  return address;
}

const char* symbol(Compare compare) {
  constexpr const char* kSymbols[] = {"==", "!=", ">", ">=", "<", "<="};
  return kSymbols[static_cast<size_t>(compare)];
}

}  // namespace

void read_plain(const Address& address, void* value, size_t num_bytes, Where where) {
  Thread& thread = running_thread();
  Engine& engine = running_engine();
  engine.step(thread, where);
  engine.read(thread, address, value, num_bytes, false, Scope::kSystem, where);
}

void write_plain(const Address& address, const void* value, size_t num_bytes, Where where) {
  running_engine().write(running_thread(), address, value, num_bytes, where);
}

int Block::rank() const { return thread_.rank; }
int Block::num_ranks() const { return engine_.shape.ranks; }
int Block::block_idx() const { return thread_.block; }
int Block::num_blocks() const { return thread_.launch->blocks; }
int Block::thread_idx() const { return thread_.thread; }
int Block::num_threads() const { return thread_.launch->threads; }
int Block::warp_size() const { return engine_.shape.warp_size; }

void Block::sync(Where where) { engine_.barrier(thread_, true, false, where); }
bool Block::sync_or(bool value, Where where) {
  return engine_.barrier(thread_, true, value, where);
}
void Block::sync_warp(Where where) { engine_.barrier(thread_, false, false, where); }
bool Block::sync_warp_or(bool value, Where where) {
  return engine_.barrier(thread_, false, value, where);
}

float Block::warp_max(float value, int lanes, Where where) {
  const int first = thread_idx() / lanes * lanes;
  const int end = std::min(first + lanes, num_threads());
  const std::vector<float> all = engine_.gather_values(thread_, false, value, where);
  const int warp_first = thread_idx() / warp_size() * warp_size();
  float most = value;
  for (int i = first; i < end; ++i) most = std::max(most, all[size_t(i - warp_first)]);
  return most;
}
float Block::sum(float value, Where where) {
  float total = 0;
  for (float one : engine_.gather_values(thread_, true, value, where)) total += one;
  return total;
}
void Block::disagree(int rank, const char* argument, uint32, uint64 own, uint64 theirs,
                     Where where) {
  engine_.disagree(thread_, rank, argument, std::to_string(own), std::to_string(theirs), where);
}

Address Block::peer_address(const Address& own, int rank, Where where) {
  return engine_.peer(thread_, own, rank, where);
}

Address Block::shared_address(int offset_bytes) {
  return {thread_.group->shared.get(), thread_.rank, offset_bytes};
}

void Block::load_strong(const Address& from, void* value, size_t num_bytes, Order order,
                        Scope scope, Where where) {
  engine_.load(thread_, from, value, num_bytes, order, scope, where);
}

void Block::store_strong(const Address& to, const void* value, size_t num_bytes, Order order,
                         Scope scope, Where where) {
  engine_.store(thread_, to, value, num_bytes, order, scope, where);
}

uint64 Block::modify(const Address& at, size_t num_bytes, Update update, uint64 value,
                     uint64 expected, Order order, Scope scope, Where where) {
  return engine_.modify(thread_, at, num_bytes, order, scope, where, [&](uint64_t old) -> uint64_t {
    if (update == Update::kAdd) return old + value;
    if (update == Update::kCompareSwap && old != expected) return old;
    return value;
  });
}

void Block::fence(Where where) { engine_.fence(thread_, false, where); }
void Block::quiet(Where where) { engine_.fence(thread_, true, where); }

void Block::agree(const char* name, const Address& dest, const Address& source, uint64 num_bytes,
                  int rank, Where where) {
  engine_.agree(thread_,
                {name, {key(dest), key(source), num_bytes, static_cast<uint64_t>(rank)}, where});
}

void Block::put_bytes(const Address& dest, const Address& source, uint64 num_bytes, int rank,
                      Group group, bool blocking, Where where) {
  if (group == Group::kBlock) agree("putmem_block", dest, source, num_bytes, rank, where);
  const Slice slice = group_slice(*this, num_bytes, group);
  engine_.put(thread_, plus(dest, slice.begin), plus(source, slice.begin), slice.size, rank,
              blocking, where);
}

void Block::get_bytes(const Address& dest, const Address& source, uint64 num_bytes, int rank,
                      Group group, bool blocking, Where where) {
  if (group == Group::kBlock) agree("getmem_block", dest, source, num_bytes, rank, where);
  const Slice slice = group_slice(*this, num_bytes, group);
  engine_.get(thread_, plus(dest, slice.begin), plus(source, slice.begin), slice.size, rank,
              blocking, where);
}

void Block::put_signal_bytes(const Address& dest, const Address& source, uint64 num_bytes,
                             const Address& signal, uint64 value, SignalOp op, int rank,
                             Group group, bool blocking, Where where) {
  if (group == Group::kBlock) agree("putmem_signal_block", dest, source, num_bytes, rank, where);
  const Slice slice = group_slice(*this, num_bytes, group);
  const Event written = engine_.put(thread_, plus(dest, slice.begin), plus(source, slice.begin),
                                    slice.size, rank, blocking, where);
  const bool adds = op == SignalOp::kAdd;
  if (group == Group::kThread) {
    engine_.signal(thread_, signal, value, adds, rank, {&written, 1}, where);
    return;
  }
  const bool whole_block = group == Group::kBlock;
  engine_.barrier(thread_, whole_block, false, where, written);
  if (thread_idx() % (whole_block ? num_threads() : warp_size()) == 0) {
    const std::vector<Event> all_written = std::move(thread_.brought);
    engine_.signal(thread_, signal, value, adds, rank, all_written, where);
  }
}

void Block::signal(const Pointer<uint64>& signal, uint64 value, SignalOp op, int rank, Where where,
                   Order order) {
  engine_.signal(thread_, signal.address(), value, op == SignalOp::kAdd, rank, {}, where,
                 order != Order::kRelaxed);
}

bool Block::wait_word(const Address& word, size_t num_bytes, Compare compare, uint64 bound,
                      uint64& seen, Where where, int from) {
  const bool ready = engine_.wait(
      thread_, word, num_bytes, where,
      [&] {
        seen = 0;
        engine_.read(thread_, word, &seen, num_bytes, true, Scope::kSystem, where);
        return holds(seen, compare, bound);
      },
      [&] {
        if (!thread_.in_team.empty()) {
          return fmt::format("waits for rank {} in meeting {} with it, of the team of {}", from,
                             bound >> device::kMarkBits, thread_.in_team);
        }
        return fmt::format("waits for {} {} {}; it is {}",
                           word.allocation->element_name(word.rank, word.offset), symbol(compare),
                           bound, seen);
      });
  if (ready) engine_.acquire_at(thread_, word, num_bytes, Scope::kSystem);
  return ready;
}

bool Block::enter(const Team& team, int number, Group group, bool, Where where) {
  if (group == Group::kBlock) {
    engine_.agree(thread_, {"a team's collective", {device::mark_of(team)}, where});
  }
  const std::string ranks = ranks_text(team.start, team.stride, team.size);
  if (number < 0) {
    engine_.refuse_call(
        thread_,
        fmt::format("rank {} calls a collective of the team of {}, which it is not of",
                    thread_.rank, ranks),
        where);
  }
  thread_.in_team = ranks;
  return true;
}

void Block::leave() { thread_.in_team.clear(); }

void Block::meets_other(const Team& team, int rank, uint64 own, uint64 theirs, Where where) {
  const Team other = device::team_of_mark(theirs);
  if (device::mark_of(other) != device::mark_of(team)) {
    engine_.disagree(thread_, rank, device::kOtherTeam,
                     ranks_text(team.start, team.stride, team.size),
                     ranks_text(other.start, other.stride, other.size), where);
  }
  engine_.disagree(thread_, rank, device::kOtherCall, meet_name(device::meet_of_mark(own)),
                   meet_name(device::meet_of_mark(theirs)), where);
}

void Block::no_such_root(const Team& team, int root, Where where) {
  engine_.refuse_call(
      thread_,
      fmt::format("rank {} broadcasts from number {} of the team of {}, which has {}", thread_.rank,
                  root, ranks_text(team.start, team.stride, team.size), team.size),
      where);
}

bool Block::wait_words_not(const Pointer<const Vec16>& at, uint32 poison, Vec16& value, Where where,
                           int from, Patience) {
  const Address& address = at.address();
  return engine_.wait(
      thread_, address, sizeof value, where,
      [&] {
        engine_.read(thread_, address, &value, sizeof value, true, Scope::kSystem, where);
        for (uint32 word : value.word) {
          if (word == poison) return false;
        }
        return true;
      },
      [&] {
        return fmt::format(
            "waits for {} to write {}, which holds {:#x} where it has not been written",
            from < 0 ? "somebody" : fmt::format("rank {}", from),
            address.allocation->element_name(address.rank, address.offset), poison);
      });
}

Block::Pointer<uint64> Block::sync_signals() const {
  return Pointer<uint64>(Address{engine_.sync_signals, thread_.rank, 0});
}
Block::Pointer<uint64> Block::sync_epochs() const {
  return Pointer<uint64>(Address{engine_.sync_epochs, thread_.rank, 0});
}

}  // namespace stretto::fibre
