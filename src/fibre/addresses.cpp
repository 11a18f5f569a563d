// What an address leads to, and findings with their places.
#include <fmt/format.h>

#include "fibre/engine.h"

namespace stretto::fibre {

bool Engine::same_node(int a, int b) const {
  return shape.ranks_per_node == 0 || a / shape.ranks_per_node == b / shape.ranks_per_node;
}

Place Engine::place_of(const Thread& thread, Where where) const {
  return {thread.rank, thread.block, thread.thread,
          thread.launch != nullptr ? thread.launch->number : 0, where};
}

Place Engine::place_of(const Record& record) const {
  if (record.event.seq == 0) return {};
  const Thread& thread = owner_of(record.event.actor);
  return {thread.rank, thread.block, thread.thread, record.launch, record.where};
}

void Engine::set_finding(FindingKind kind, std::string message, const Place& place,
                         const Place& other) {
  if (finding) return;
  if (place.known()) message += "\n  here:  " + to_text(place);
  if (other.known()) message += "\n  other: " + to_text(other);
  finding = Finding{kind, std::string(finding_name(kind)) + ": " + message, place, other};
}

void Engine::fail(FindingKind kind, std::string message, const Thread& thread, Where where,
                  const Place& other) {
  set_finding(kind, std::move(message), place_of(thread, where), other);
  throw Abandon{};
}

Allocation::Copy& Engine::resolve(const Thread& thread, const Address& address, size_t bytes,
                                  size_t alignment, bool through_put, const char* verb,
                                  Where where) {
  if (address.allocation == nullptr) {
    if (address.rank >= 0) {
      fail(FindingKind::kPutOnly,
           fmt::format("rank {} {} through a pointer to rank {}, which is on another node: only "
                       "put, get and signals reach it",
                       thread.rank, verb, address.rank),
           thread, where);
    }
    fail(FindingKind::kOutOfBounds, fmt::format("rank {} {} at a null pointer", thread.rank, verb),
         thread, where);
  }
  Allocation& allocation = *address.allocation;
  const std::string_view kind = allocation.kind == MemoryKind::kShared ? "shared" : "local";
  if (allocation.kind == MemoryKind::kShared &&
      (allocation.owner_rank != thread.rank || allocation.owner_block != thread.block)) {
    fail(FindingKind::kWrongRank,
         fmt::format("{} is shared memory of rank {} block {}", allocation.name,
                     allocation.owner_rank, allocation.owner_block),
         thread, where);
  }
  if (allocation.kind == MemoryKind::kLocal && address.rank != thread.rank) {
    fail(FindingKind::kWrongRank,
         fmt::format("{} is {} memory: rank {} cannot reach rank {}'s", allocation.name, kind,
                     thread.rank, address.rank),
         thread, where);
  }
  if (!through_put && address.rank != thread.rank && !same_node(address.rank, thread.rank)) {
    fail(FindingKind::kPutOnly,
         fmt::format("rank {} {} {}, which is on another node: only put, get and signals reach it",
                     thread.rank, verb, allocation.element_name(address.rank, address.offset)),
         thread, where);
  }
  if (address.offset < 0 || bytes > allocation.num_bytes ||
      static_cast<size_t>(address.offset) > allocation.num_bytes - bytes) {
    fail(FindingKind::kOutOfBounds,
         fmt::format("rank {} {} bytes [{}, {}) of {}@{}, which has {}", thread.rank, verb,
                     address.offset, address.offset + static_cast<int64_t>(bytes), allocation.name,
                     address.rank, allocation.num_bytes),
         thread, where);
  }
  if (address.offset % static_cast<int64_t>(alignment) != 0) {
    fail(FindingKind::kMisaligned,
         fmt::format("rank {} {} {} bytes at byte {} of {}@{}", thread.rank, verb, alignment,
                     address.offset, allocation.name, address.rank),
         thread, where);
  }
  return allocation.copy(address.rank);
}

Address Engine::peer(Thread& thread, const Address& own, int rank, Where where) {
  if (rank < 0 || rank >= shape.ranks) {
    fail(FindingKind::kWrongRank, fmt::format("there is no rank {} among {}", rank, shape.ranks),
         thread, where);
  }
  if (own.allocation == nullptr) return own;
  if (own.allocation->kind != MemoryKind::kSymmetric && rank != thread.rank) {
    fail(FindingKind::kWrongRank,
         fmt::format("{} is not symmetric memory: no other rank has it", own.allocation->name),
         thread, where);
  }
  if (own.rank != thread.rank) {
    fail(FindingKind::kWrongRank,
         fmt::format("{} is already an address of rank {}; name the own rank's",
                     own.allocation->name, own.rank),
         thread, where);
  }
  if (!same_node(thread.rank, rank)) return {nullptr, rank, 0};
  Address address = own;
  address.rank = rank;
  return address;
}

}  // namespace stretto::fibre
