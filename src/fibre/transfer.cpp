// Puts and gets, fence and quiet, acquire and release.
#include <cstring>

#include "fibre/engine.h"

namespace stretto::fibre {
namespace {

// A transfer arrives in up to this many pieces.
constexpr uint64_t kPieces = 4;

}  // namespace

SharedClock Engine::publish(Thread& thread) {
  auto clock = std::make_shared<const Clock>(thread.clock);
  thread.clock.advance(thread.actor);
  return clock;
}

void Engine::acquire_seen(Thread& thread) {
  thread.in_order_since = num_steps;
  if (!thread.seen_any) return;
  join(thread.clock, thread.seen);
  thread.seen = {};
  thread.seen_any = false;
}

Transfer& Engine::begin_transfer(Thread& thread, bool is_get) {
  Transfer transfer;
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
  std::list<Transfer>& of_rank = transfers_[static_cast<size_t>(thread.rank)];
  of_rank.push_back(transfer);
  return of_rank.back();
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
  for (Transfer& transfer : transfers_[static_cast<size_t>(thread.rank)]) {
    if (!knows(thread.clock, transfer.issue)) continue;
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
