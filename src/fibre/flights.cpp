// Stores on their way to memory: when they arrive, and what they do there.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "fibre/engine.h"

namespace stretto::fibre {
namespace {

// More stores than this are not kept back.
constexpr size_t kMaxFlights = 512;

bool overlap(int64_t a, size_t a_bytes, int64_t b, size_t b_bytes) {
  return a < b + static_cast<int64_t>(b_bytes) && b < a + static_cast<int64_t>(a_bytes);
}

}  // namespace

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
    return;
  }
  if (!flight.strong) {
    write_now(*flight.allocation, flight.rank, flight.offset, flight.bytes.data(), num_bytes);
    return;
  }
  SyncWord& word = copy.words[flight.offset];
  if (!flight.is_first) {
    keep_older(word, copy.bytes.data() + flight.offset, num_bytes, flight.event);
  }
  if (flight.adds) {
    std::erase_if(word.releases, [&](const Release& r) {
      return r.actor == flight.release.actor && r.scope == flight.release.scope;
    });
  } else {
    word.releases.clear();
  }
  if (flight.release.clock) word.releases.push_back(flight.release);
  if (flight.is_signal) {
    raise(word, copy, flight);
  } else {
    write_now(*flight.allocation, flight.rank, flight.offset, flight.bytes.data(), num_bytes);
  }
  word.raised_by = flight.place;
}

void Engine::raise(SyncWord& word, const Allocation::Copy& copy, const Flight& flight) {
  uint64_t old = 0;
  uint64_t value = 0;
  std::memcpy(&old, copy.bytes.data() + flight.offset, 8);
  std::memcpy(&value, flight.bytes.data(), 8);
  const uint64_t raised = flight.adds ? old + value : value;
  if (!flight.adds && word.unseen && raised <= old) {
    set_finding(
        FindingKind::kLostSignal,
        fmt::format("{} is set to {} over {}, which nobody has seen",
                    flight.allocation->element_name(flight.rank, flight.offset), raised, old),
        flight.place, word.raised_by);
  }
  word.unseen = true;
  write_now(*flight.allocation, flight.rank, flight.offset, &raised, 8);
}

void Engine::send(Flight flight) {
  ++flight.allocation->copy(flight.rank).flights;
  ++threads_[actor_thread_[flight.issuer]]->flights;
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
  Thread& issuer = *threads_[actor_thread_[flight.issuer]];
  if (--issuer.flights == 0 && issuer.state == ThreadState::kEnding) unpark(issuer);
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

}  // namespace stretto::fibre
