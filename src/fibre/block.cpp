#include "stretto/fibre/block.h"

#include <fmt/format.h>

#include "core/ranks_text.h"
#include "fibre/engine.h"
#include "fibre/mutation.h"

namespace stretto::fibre {
namespace {

const char* symbol(Compare compare) {
  constexpr const char* kSymbols[] = {"==", "!=", ">", ">=", "<", "<="};
  return kSymbols[static_cast<size_t>(compare)];
}

Order weakened(Order order, Where where) {
  if (order == Order::kAcqRel && is_lost(Loss::kAcquire, where)) order = Order::kRelease;
  if (order == Order::kAcqRel && is_lost(Loss::kRelease, where)) order = Order::kAcquire;
  const bool is_relaxed = (order == Order::kAcquire && is_lost(Loss::kAcquire, where)) ||
                          (order == Order::kRelease && is_lost(Loss::kRelease, where));
  return is_relaxed ? Order::kRelaxed : order;
}

}  // namespace

void read_plain(const Address& address, void* value, size_t num_bytes, Where where) {
  Thread& thread = running_thread();
  Engine& engine = running_engine();
  engine.step(thread, where);
  engine.read(thread, folded(address), value, num_bytes, where);
}

void write_plain(const Address& address, const void* value, size_t num_bytes, Where where) {
  running_engine().write(running_thread(), folded(address), value, num_bytes, where);
}

int Block::rank() const { return thread_.rank; }
int Block::num_ranks() const { return engine_.shape.ranks; }
int Block::block_idx() const { return thread_.block; }
int Block::num_blocks() const { return thread_.launch->blocks; }
int Block::thread_idx() const { return thread_.thread; }
int Block::num_threads() const { return thread_.launch->threads; }
int Block::warp_size() const { return engine_.shape.warp_size; }

void Block::sync(Where where) { sync_or(false, where); }
bool Block::sync_or(bool value, Where where) {
  if (is_lost(Loss::kBarrier, where)) return value;
  return engine_.barrier(thread_, true, value, where);
}
void Block::sync_warp(Where where) { sync_warp_or(false, where); }
bool Block::sync_warp_or(bool value, Where where) {
  if (is_lost(Loss::kBarrier, where)) return value;
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
  engine_.load(thread_, folded(from), value, num_bytes, weakened(order, where), scope, where);
}

void Block::store_strong(const Address& to, const void* value, size_t num_bytes, Order order,
                         Scope scope, Where where) {
  engine_.store(thread_, folded(to), value, num_bytes, weakened(order, where), scope, where);
}

uint64 Block::modify(const Address& at, size_t num_bytes, Update update, uint64 value,
                     uint64 expected, Order order, Scope scope, Where where) {
  const auto updated = [&](uint64_t old) -> uint64_t {
    if (update == Update::kAdd) return old + value;
    if (update == Update::kCompareSwap && old != expected) return old;
    return value;
  };
  return engine_.modify(thread_, folded(at), num_bytes, weakened(order, where), scope, where,
                        updated);
}

void Block::let_next_start(Where where) { engine_.let_next_start(thread_, where); }
void Block::wait_for_kernel_before(Where where) {
  if (!is_lost(Loss::kWait, where)) engine_.wait_for_kernel_before(thread_, where);
}

void Block::fence(Where where) {
  if (!is_lost(Loss::kFence, where)) engine_.fence(thread_, false, where);
}
void Block::quiet(Where where) {
  if (!is_lost(Loss::kFence, where)) engine_.fence(thread_, true, where);
}

void Block::signal(const Pointer<uint64>& signal, uint64 value, SignalOp op, int rank, Where where,
                   Order order) {
  if (is_lost(Loss::kSignal, where)) return;
  engine_.signal(thread_, folded(signal.address()), value, op == SignalOp::kAdd, rank, {}, where,
                 weakened(order, where) != Order::kRelaxed);
}

bool Block::wait_word(const Address& word, size_t num_bytes, Compare compare, uint64 bound,
                      uint64& seen, Where where, int from) {
  const Address at = folded(word);
  const bool waits = !is_lost(Loss::kWait, where);
  const bool ready = engine_.wait(
      thread_, at, num_bytes, where,
      [&](bool) {
        seen = 0;
        engine_.look(thread_, at, &seen, num_bytes, Order::kRelaxed, Scope::kSystem, false, where);
        return !waits || holds(seen, compare, bound);
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
  if (ready && !is_lost(Loss::kAcquire, where)) {
    engine_.acquire_at(thread_, at, num_bytes, Scope::kSystem);
  }
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
  const Address address = folded(at.address());
  const bool waits = !is_lost(Loss::kSentinel, where);
  return engine_.wait(
      thread_, address, sizeof value, where,
      [&](bool first) {
        engine_.look(thread_, address, &value, sizeof value, Order::kRelaxed, Scope::kSystem, first,
                     where);
        for (uint32 word : value.word) {
          if (waits && word == poison) return false;
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
