// Stores on their way, non-blocking puts and gets, fence and quiet, acquire and release.
#include <fmt/format.h>

#include <cstring>

#include "fibre/engine.h"

namespace stretto::fibre {
namespace {

// More stores than this are not kept back.
constexpr size_t kMaxFlights = 512;
// A transfer arrives in up to this many pieces.
constexpr uint64_t kPieces = 4;

bool overlap(int64_t a, size_t a_bytes, int64_t b, size_t b_bytes) {
  return a < b + static_cast<int64_t>(b_bytes) && b < a + static_cast<int64_t>(a_bytes);
}

}  // namespace

SharedClock Engine::publish(Thread& thread) {
  auto clock = std::make_shared<const Clock>(thread.clock);
  ++thread.clock[thread.actor];
  return clock;
}

bool Engine::collect(Thread& thread, Allocation::Copy& copy, int64_t offset, size_t bytes,
                     Scope scope, Clock& clock) {
  if (copy.words.empty()) return false;
  bool any = false;
  for (int64_t at = offset; at < offset + static_cast<int64_t>(bytes); at += 4) {
    const auto found = copy.words.find(at);
    if (found == copy.words.end()) continue;
    found->second.unseen = false;
    for (const Release& release : found->second.releases) {
      if (release.actor == thread.actor || !in_scope(release.scope, release.actor, thread.actor) ||
          !in_scope(scope, thread.actor, release.actor)) {
        continue;
      }
      join(clock, *release.clock);
      any = true;
    }
  }
  return any;
}

void Engine::acquire_at(Thread& thread, const Address& words, size_t bytes, Scope scope) {
  collect(thread, words.allocation->copy(words.rank), words.offset, bytes, scope, thread.clock);
}

void Engine::acquire_seen(Thread& thread) {
  if (!thread.seen_any) return;
  join(thread.clock, thread.seen);
  thread.seen.clear();
  thread.seen_any = false;
}

void Engine::write_now(Allocation& allocation, int rank, int64_t offset, const void* bytes,
                       size_t num_bytes) {
  std::memcpy(allocation.copy(rank).bytes.data() + offset, bytes, num_bytes);
  wake(allocation, rank, offset, num_bytes);
}

void Engine::apply(const Flight& flight) {
  if (flight.release.clock) deliver_known(*flight.release.clock);
  Allocation::Copy& copy = flight.allocation->copy(flight.rank);
  const size_t num_bytes = flight.bytes.size();
  if (flight.copies) {
    const uint8_t* from = flight.from.allocation->copy(flight.from.rank).bytes.data();
    const std::vector<uint8_t> bytes(from + flight.from.offset,
                                     from + flight.from.offset + num_bytes);
    write_now(*flight.allocation, flight.rank, flight.offset, bytes.data(), num_bytes);
  } else if (flight.is_signal) {
    uint64_t old = 0;
    uint64_t value = 0;
    std::memcpy(&old, copy.bytes.data() + flight.offset, 8);
    std::memcpy(&value, flight.bytes.data(), 8);
    const uint64_t raised = flight.adds ? old + value : value;
    SyncWord& word = copy.words[flight.offset];
    if (!flight.adds && word.unseen && raised <= old) {
      set_finding(
          FindingKind::kLostSignal,
          fmt::format("{} is set to {} over {}, which nobody has seen",
                      flight.allocation->element_name(flight.rank, flight.offset), raised, old),
          flight.place, word.raised_by);
    }
    word.unseen = true;
    write_now(*flight.allocation, flight.rank, flight.offset, &raised, 8);
  } else {
    write_now(*flight.allocation, flight.rank, flight.offset, flight.bytes.data(), num_bytes);
  }
  if (flight.strong) {
    SyncWord& word = copy.words[flight.offset];
    if (flight.adds) {
      std::erase_if(word.releases, [&](const Release& r) {
        return r.actor == flight.release.actor && r.scope == flight.release.scope;
      });
    } else {
      word.releases.clear();
    }
    if (flight.release.clock) word.releases.push_back(flight.release);
    word.raised_by = flight.place;
  }
}

void Engine::send(Flight flight) {
  ++flight.allocation->copy(flight.rank).flights;
  flight.id = next_flight_++;
  flight_ids_.push_back(flight.id);
  flights_.push_back(std::move(flight));
  if (flights_.size() > kMaxFlights) deliver(0);
}

void Engine::deliver(size_t index) {
  // Stores of one thread to one place arrive in order.
  for (size_t earlier = 0; earlier < index; ++earlier) {
    const Flight& a = flights_[earlier];
    const Flight& b = flights_[index];
    if (a.issuer == b.issuer && a.allocation == b.allocation && a.rank == b.rank &&
        overlap(a.offset, a.bytes.size(), b.offset, b.bytes.size())) {
      const uint32_t id = b.id;
      deliver(earlier);
      for (index = 0; index < flights_.size() && flights_[index].id != id;) ++index;
      if (index == flights_.size()) return;
      earlier = static_cast<size_t>(-1);
    }
  }
  const Flight flight = std::move(flights_[index]);
  flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(index));
  flight_ids_.erase(flight_ids_.begin() + static_cast<std::ptrdiff_t>(index));
  --flight.allocation->copy(flight.rank).flights;
  apply(flight);
}

void Engine::deliver_known(const Clock& clock) {
  for (size_t i = 0; i < flights_.size();) {
    if (knows(clock, flights_[i].event)) {
      deliver(i);
      i = 0;
    } else {
      ++i;
    }
  }
}

bool Engine::on_its_way(const Allocation& allocation, int rank, int64_t offset,
                        size_t bytes) const {
  return std::any_of(flights_.begin(), flights_.end(), [&](const Flight& flight) {
    return flight.allocation == &allocation && flight.rank == rank &&
           overlap(flight.offset, flight.bytes.size(), offset, bytes);
  });
}

void Engine::deliver_known_at(const Clock& clock, const Allocation& allocation, int rank,
                              int64_t offset, size_t bytes) {
  for (size_t i = 0; i < flights_.size();) {
    const Flight& flight = flights_[i];
    if (flight.allocation == &allocation && flight.rank == rank &&
        overlap(flight.offset, flight.bytes.size(), offset, bytes) && knows(clock, flight.event)) {
      deliver(i);
      i = 0;
    } else {
      ++i;
    }
  }
}

Transfer& Engine::begin_transfer(Thread& thread, bool is_get) {
  Transfer transfer;
  transfer.rank = thread.rank;
  transfer.issuer = thread.index;
  transfer.is_get = is_get;
  transfer.issue = {thread.actor, thread.clock[thread.actor]};
  // The two sides act as actors of their own. A pair may be used again once its last events are
  // known to the thread, so that knowing the later implies knowing the earlier.
  auto reusable = std::find_if(
      thread.free_sides.begin(), thread.free_sides.end(), [&](const std::array<Event, 2>& sides) {
        return knows(thread.clock, sides[0]) && knows(thread.clock, sides[1]);
      });
  if (reusable != thread.free_sides.end()) {
    transfer.source = {(*reusable)[0].actor, (*reusable)[0].seq + 1};
    transfer.dest = {(*reusable)[1].actor, (*reusable)[1].seq + 1};
    thread.free_sides.erase(reusable);
  } else {
    transfer.source = {new_actor(thread.index), 1};
    transfer.dest = {new_actor(thread.index), 1};
  }
  transfers_.push_back(transfer);
  return transfers_.back();
}

void Engine::complete(Thread& thread, Transfer& transfer) {
  learn(thread.clock, transfer.source);
  learn(thread.clock, transfer.dest);
  if (transfer.completed) return;
  threads_[transfer.issuer]->free_sides.push_back({transfer.source, transfer.dest});
  transfer.completed = true;
}

void Engine::fence(Thread& thread, bool completes, Where where) {
  step(thread, where);
  for (Transfer& transfer : transfers_) {
    if (transfer.rank != thread.rank || !knows(thread.clock, transfer.issue)) continue;
    if (completes) {
      complete(thread, transfer);
    } else if (!transfer.is_get) {
      learn(thread.clock, transfer.dest);
    }
  }
  acquire_seen(thread);
  thread.fenced = publish(thread);
  if (completes) deliver_known(thread.clock);
}

Event Engine::put(Thread& thread, const Address& dest, const Address& source, uint64_t bytes,
                  int rank, bool blocking, Where where) {
  step(thread, where);
  peer(thread, dest, rank, where);
  Address to = dest;
  to.rank = rank;
  resolve(thread, to, bytes, 1, true, "puts", where);
  Allocation::Copy& from = resolve(thread, source, bytes, 1, false, "reads", where);
  if (source.rank != thread.rank) {
    fail(FindingKind::kWrongRank, "the source of a put must be the own rank's memory", thread,
         where);
  }
  const Event own{thread.actor, thread.clock[thread.actor]};
  // Across nodes a put is on its own even when its source has been read.
  const bool detached = !blocking || !same_node(thread.rank, rank);
  Event read = own;
  Event written = own;
  if (detached) {
    const Transfer& transfer = begin_transfer(thread, false);
    if (!blocking) read = transfer.source;
    written = transfer.dest;
  }
  deliver_known_at(thread.clock, *source.allocation, source.rank, source.offset, bytes);
  check(*source.allocation, source.rank, source.offset, bytes, false,
        {read, &thread.clock, &thread, false, Scope::kSystem, "reads"}, where);
  check(*to.allocation, to.rank, to.offset, bytes, true,
        {written, &thread.clock, &thread, false, Scope::kSystem, "puts into"}, where);
  const uint64_t piece_bytes = std::max<uint64_t>(16, (bytes / kPieces + 15) / 16 * 16);
  for (uint64_t at = 0; at < bytes; at += piece_bytes) {
    const uint64_t count = std::min(piece_bytes, bytes - at);
    Flight flight;
    flight.event = written;
    flight.issuer = written.actor;
    flight.allocation = to.allocation;
    flight.rank = to.rank;
    flight.offset = to.offset + static_cast<int64_t>(at);
    const uint8_t* data = from.bytes.data() + source.offset + at;
    flight.bytes.assign(data, data + count);
    flight.copies = !blocking;
    flight.from = {source.allocation, source.rank, source.offset + static_cast<int64_t>(at)};
    send(std::move(flight));
  }
  return written;
}

void Engine::get(Thread& thread, const Address& dest, const Address& source, uint64_t bytes,
                 int rank, bool blocking, Where where) {
  step(thread, where);
  peer(thread, source, rank, where);
  Address from = source;
  from.rank = rank;
  Allocation::Copy& theirs = resolve(thread, from, bytes, 1, true, "gets", where);
  resolve(thread, dest, bytes, 1, false, "writes", where);
  const Event own{thread.actor, thread.clock[thread.actor]};
  Event read = own;
  Event written = own;
  if (!blocking) {
    const Transfer& transfer = begin_transfer(thread, true);
    read = transfer.source;
    written = transfer.dest;
  }
  deliver_known_at(thread.clock, *from.allocation, from.rank, from.offset, bytes);
  check(*from.allocation, from.rank, from.offset, bytes, false,
        {read, &thread.clock, &thread, false, Scope::kSystem, "gets"}, where);
  check(*dest.allocation, dest.rank, dest.offset, bytes, true,
        {written, &thread.clock, &thread, false, Scope::kSystem, "writes"}, where);
  if (bytes == 0) return;
  if (blocking) {
    const uint8_t* data = theirs.bytes.data() + from.offset;
    const std::vector<uint8_t> copy(data, data + bytes);
    write_now(*dest.allocation, dest.rank, dest.offset, copy.data(), bytes);
    return;
  }
  Flight flight;
  flight.event = written;
  flight.issuer = written.actor;
  flight.allocation = dest.allocation;
  flight.rank = dest.rank;
  flight.offset = dest.offset;
  flight.bytes.resize(bytes);
  flight.copies = true;
  flight.from = from;
  send(std::move(flight));
}

}  // namespace stretto::fibre
