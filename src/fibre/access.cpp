// Plain and strong accesses, and the race check.
#include <fmt/format.h>

#include <cstring>

#include "fibre/engine.h"

namespace stretto::fibre {

bool Engine::in_scope(Scope scope, uint32_t actor, uint32_t other) const {
  if (scope == Scope::kSystem || actor == other) return true;
  const Thread& a = owner_of(actor);
  const Thread& b = owner_of(other);
  if (a.rank != b.rank) return false;
  return scope == Scope::kGpu || (a.stream == b.stream && a.side == b.side && a.block == b.block);
}

bool Engine::includes(const Record& record, const Access& access) const {
  return in_scope(record.scope, record.event.actor, access.event.actor) &&
         in_scope(access.scope, access.event.actor, record.event.actor);
}

bool Engine::check(Allocation& allocation, int rank, int64_t offset, size_t bytes, bool writes,
                   const Access& access, Where where) {
  if (bytes == 0) return false;
  bool is_first = false;
  const uint64_t joint = static_cast<uint64_t>(offset) | bytes;
  if (joint % allocation.granule != 0) allocation.refine(joint & (~joint + 1));
  Allocation::Copy& copy = allocation.copy(rank);
  const size_t granule = allocation.granule;
  const size_t first = static_cast<size_t>(offset) / granule;
  const Record record{access.event,  where,        access.thread->launch->number,
                      access.strong, access.scope, access.observes};
  // A strong store whose value was seen by a strong load comes before whatever follows that load at
  // the same place, even though nothing else of the storing thread does.
  auto was_seen = [&](const Cell& cell) {
    if (!cell.write.strong) return false;
    for (const Record& read : cell.reads) {
      if (read.observed && read.strong && knows(*access.clock, read.event) &&
          in_scope(cell.write.scope, cell.write.event.actor, read.event.actor) &&
          in_scope(read.scope, read.event.actor, cell.write.event.actor)) {
        return true;
      }
    }
    return false;
  };
  auto conflict = [&](const Record& earlier, bool wrote, size_t cell) {
    if (earlier.event.seq == 0 || knows(*access.clock, earlier.event)) return;
    const bool both_strong = earlier.strong && access.strong;
    if (both_strong && includes(earlier, access)) return;
    std::string message = fmt::format(
        "{}: rank {} {} it while nothing orders that after the {} of rank {}",
        allocation.element_name(rank, static_cast<int64_t>(cell * granule)), access.thread->rank,
        access.verb, wrote ? "write" : "read", place_of(earlier).rank);
    if (both_strong) message += "; the scope of one of them does not include the other thread";
    fail(FindingKind::kRace, std::move(message), *access.thread, where, place_of(earlier));
  };
  for (size_t i = first; i < first + bytes / granule; ++i) {
    Cell& cell = copy.cells[i];
    if (!writes && !cell.written) {
      fail(FindingKind::kUnwritten,
           fmt::format("rank {} {} {}, which nobody wrote", access.thread->rank, access.verb,
                       allocation.element_name(rank, static_cast<int64_t>(i * granule))),
           *access.thread, where);
    }
    if (!was_seen(cell)) conflict(cell.write, true, i);
    if (writes) {
      for (const Record& read : cell.reads) conflict(read, false, i);
      cell.reads.clear();
      cell.write = record;
      is_first |= !cell.written;
      cell.written = true;
    } else {
      // Whatever races with an earlier read also races with a later one like it.
      std::erase_if(cell.reads, [&](const Record& read) {
        return knows(*access.clock, read.event) && (read.strong ? access.strong : !access.strong) &&
               (record.observed || !read.observed);
      });
      cell.reads.push_back(record);
    }
  }
  return is_first;
}

void Engine::read(Thread& thread, const Address& from, void* value, size_t bytes, Where where) {
  Allocation::Copy& copy = resolve(thread, from, bytes, bytes, false, "reads", where);
  if (copy.flights > 0) {
    deliver_known_at(thread.clock, *from.allocation, from.rank, from.offset, bytes);
  }
  const Event event{thread.actor, thread.clock[thread.actor]};
  check(*from.allocation, from.rank, from.offset, bytes, false,
        {event, &thread.clock, &thread, false, Scope::kSystem, "reads"}, where);
  std::memcpy(value, copy.bytes.data() + from.offset, bytes);
}

void Engine::write(Thread& thread, const Address& to, const void* value, size_t bytes,
                   Where where) {
  step(thread, where);
  Allocation::Copy& copy = resolve(thread, to, bytes, bytes, false, "writes", where);
  const Event event{thread.actor, thread.clock[thread.actor]};
  check(*to.allocation, to.rank, to.offset, bytes, true,
        {event, &thread.clock, &thread, false, Scope::kSystem, "writes"}, where);
  if (copy.flights > 0) {
    deliver_known_at(thread.clock, *to.allocation, to.rank, to.offset, bytes);
  }
  if (to.rank == thread.rank) {
    write_now(*to.allocation, to.rank, to.offset, value, bytes);
    return;
  }
  const size_t piece_bytes = std::min<size_t>(bytes, 8);
  for (size_t at = 0; at < bytes; at += piece_bytes) {
    Flight flight;
    flight.event = event;
    flight.issuer = thread.actor;
    flight.allocation = to.allocation;
    flight.rank = to.rank;
    flight.offset = to.offset + static_cast<int64_t>(at);
    const auto* data = static_cast<const uint8_t*>(value) + at;
    flight.bytes.assign(data, data + piece_bytes);
    send(std::move(flight));
  }
}

void Engine::load(Thread& thread, const Address& from, void* value, size_t bytes, Order order,
                  Scope scope, Where where) {
  step(thread, where);
  look(thread, from, value, bytes, order, scope, true, where);
}

void Engine::store(Thread& thread, const Address& to, const void* value, size_t bytes, Order order,
                   Scope scope, Where where) {
  step(thread, where);
  resolve(thread, to, bytes, bytes, false, "stores", where);
  const Event event{thread.actor, thread.clock[thread.actor]};
  const bool is_first = check(*to.allocation, to.rank, to.offset, bytes, true,
                              {event, &thread.clock, &thread, true, scope, "stores"}, where);
  const SharedClock released = order == Order::kRelaxed ? thread.fenced : publish(thread);
  // A vector arrives word by word.
  const size_t piece_bytes = bytes > 8 ? 4 : bytes;
  for (size_t at = 0; at < bytes; at += piece_bytes) {
    Flight flight;
    flight.event = event;
    flight.issuer = thread.actor;
    flight.allocation = to.allocation;
    flight.rank = to.rank;
    flight.offset = to.offset + static_cast<int64_t>(at);
    const auto* data = static_cast<const uint8_t*>(value) + at;
    flight.bytes.assign(data, data + piece_bytes);
    flight.strong = true;
    flight.is_first = is_first;
    flight.release = {released, thread.actor, scope};
    flight.place = place_of(thread, where);
    if (to.allocation->kind == MemoryKind::kShared) {
      apply(flight);
    } else {
      send(std::move(flight));
    }
  }
}

uint64_t Engine::modify(Thread& thread, const Address& at, size_t bytes, Order order, Scope scope,
                        Where where, const std::function<uint64_t(uint64_t)>& update) {
  step(thread, where);
  uint64_t old = 0;
  look(thread, at, &old, bytes, Order::kRelaxed, scope, false, where);
  const Event event{thread.actor, thread.clock[thread.actor]};
  check(*at.allocation, at.rank, at.offset, bytes, true,
        {event, &thread.clock, &thread, true, scope, "updates"}, where);
  if (order == Order::kAcquire || order == Order::kAcqRel) acquire_at(thread, at, bytes, scope);
  const bool releases = order == Order::kRelease || order == Order::kAcqRel;
  const SharedClock released = releases ? publish(thread) : thread.fenced;
  if (released) deliver_known(*released);
  const uint64_t value = update(old);
  SyncWord& word = at.allocation->copy(at.rank).words[at.offset];
  keep_older(word, &old, bytes, event);
  write_now(*at.allocation, at.rank, at.offset, &value, bytes);
  if (released) {
    std::erase_if(word.releases,
                  [&](const Release& r) { return r.actor == thread.actor && r.scope == scope; });
    word.releases.push_back({released, thread.actor, scope});
    word.raised_by = place_of(thread, where);
  }
  return old;
}

void Engine::signal(Thread& thread, const Address& own, uint64_t value, bool adds, int rank,
                    std::span<const Event> after, Where where, bool releases) {
  step(thread, where);
  Address to = own;
  if (own.allocation != nullptr && own.rank != thread.rank) {
    fail(FindingKind::kWrongRank,
         fmt::format("signal {} is already an address of rank {}; a signal is named by the own "
                     "rank's address",
                     own.allocation->name, own.rank),
         thread, where);
  }
  peer(thread, own, rank, where);
  to.rank = rank;
  resolve(thread, to, 8, 8, true, "signals", where);
  const Event event{thread.actor, thread.clock[thread.actor]};
  const Access access{event, &thread.clock, &thread, true, Scope::kSystem, "signals"};
  if (adds) check(*to.allocation, rank, to.offset, 8, false, access, where);
  check(*to.allocation, rank, to.offset, 8, true, access, where);
  SharedClock released = releases ? publish(thread) : thread.fenced;
  if (!after.empty()) {
    Clock clock = *released;
    for (const Event& each : after) learn(clock, each);
    released = std::make_shared<const Clock>(std::move(clock));
  }
  Flight flight;
  flight.event = event;
  flight.issuer = thread.actor;
  flight.allocation = to.allocation;
  flight.rank = rank;
  flight.offset = to.offset;
  flight.bytes.resize(8);
  std::memcpy(flight.bytes.data(), &value, 8);
  flight.strong = true;
  flight.adds = adds;
  flight.is_signal = true;
  flight.release = {released, thread.actor, Scope::kSystem};
  flight.place = place_of(thread, where);
  send(std::move(flight));
}

}  // namespace stretto::fibre
