// Strong loads: what a load may see that is carried out early, and what it acquires.
//
// A load is carried out behind the thread's last acquire or fence, and not before one of the same
// place that happens before it; what the thread knows to be overwritten it does not see.
#include <algorithm>
#include <cstring>

#include "fibre/engine.h"

namespace stretto::fibre {
namespace {

// Of a word; and no value is seen so many operations after it was overwritten, or a thread that
// polls might never see another.
constexpr size_t kMostOlder = 4;
constexpr uint64_t kMostStepsEarly = 500;

}  // namespace

void Engine::keep_older(SyncWord& word, const void* bytes, size_t num_bytes, Event by) {
  if (word.older.size() == kMostOlder) {
    word.older.erase(word.older.begin());
    ++word.num_forgotten;
  }
  OlderValue older{0, num_bytes, word.releases, by, num_steps};
  std::memcpy(&older.value, bytes, num_bytes);
  word.older.push_back(std::move(older));
}

void Engine::forget_older() {
  for (const auto& allocation : allocations_) {
    for (int rank = 0; rank < allocation->num_copies(); ++rank) {
      for (auto& [offset, word] : allocation->copy(rank).words) {
        word.num_forgotten = word.num_stores();
        word.older.clear();
        word.sights.clear();
      }
    }
  }
}

bool Engine::choose_older(Thread& thread, Allocation::Copy& copy, int64_t offset, size_t bytes,
                          bool may_be_early, Older& chosen) {
  bool any = false;
  for (size_t at = 0; at < bytes && !copy.words.empty(); at += 4) {
    const auto found = copy.words.find(offset + static_cast<int64_t>(at));
    if (found == copy.words.end() || found->second.older.empty()) continue;
    SyncWord& word = found->second;
    if (word.older.back().step + kMostStepsEarly < num_steps) {
      word.num_forgotten = word.num_stores();
      word.older.clear();
      word.sights.clear();
      continue;
    }
    uint64_t least = word.num_forgotten;
    for (const Sight& sight : word.sights) {
      if (knows(thread.clock, sight.load)) least = std::max(least, sight.num_stores);
    }
    const auto may_miss = [&](const OlderValue& older) {
      return older.step > thread.in_order_since && older.step + kMostStepsEarly >= num_steps &&
             at + older.num_bytes <= bytes && !knows(thread.clock, older.overwritten_by);
    };
    size_t most = 0;
    while (may_be_early && word.num_stores() - most > least &&
           may_miss(word.older[word.older.size() - 1 - most])) {
      ++most;
    }
    const size_t missed = most == 0 ? 0 : chooser.older(num_steps, most);
    if (missed != 0) chosen[at / 4] = &word.older[word.older.size() - missed];
    any |= missed != 0;
    const Event load{thread.actor, thread.clock[thread.actor]};
    std::erase_if(word.sights, [&](const Sight& sight) { return sight.load.actor == load.actor; });
    word.sights.push_back({load, std::max(least, word.num_stores() - missed)});
  }
  return any;
}

bool Engine::collect(Thread& thread, Allocation::Copy& copy, int64_t offset, size_t bytes,
                     Scope scope, const Older& older, Clock& clock) {
  if (copy.words.empty()) return false;
  bool any = false;
  for (size_t at = 0; at < bytes; at += 4) {
    const auto found = copy.words.find(offset + static_cast<int64_t>(at));
    if (found == copy.words.end()) continue;
    const OlderValue* const missed = at / 4 < older.size() ? older[at / 4] : nullptr;
    if (missed == nullptr) found->second.unseen = false;
    for (const Release& release : missed != nullptr ? missed->releases : found->second.releases) {
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
  collect(thread, words.allocation->copy(words.rank), words.offset, bytes, scope, {}, thread.clock);
  thread.in_order_since = num_steps;
}

void Engine::look(Thread& thread, const Address& from, void* value, size_t bytes, Order order,
                  Scope scope, bool may_be_early, Where where) {
  Allocation::Copy& copy = resolve(thread, from, bytes, bytes, false, "loads", where);
  if (copy.flights > 0) {
    deliver_known_at(thread.clock, *from.allocation, from.rank, from.offset, bytes);
  }
  Older older{};
  const bool early = choose_older(thread, copy, from.offset, bytes, may_be_early, older);
  const bool last =
      !early && (copy.flights == 0 || !on_its_way(*from.allocation, from.rank, from.offset, bytes));
  check(*from.allocation, from.rank, from.offset, bytes, false,
        {{thread.actor, thread.clock[thread.actor]},
         &thread.clock,
         &thread,
         true,
         scope,
         "loads",
         last},
        where);
  std::memcpy(value, copy.bytes.data() + from.offset, bytes);
  for (size_t i = 0; i < older.size(); ++i) {
    if (older[i] == nullptr) continue;
    std::memcpy(static_cast<uint8_t*>(value) + 4 * i, &older[i]->value, older[i]->num_bytes);
  }
  const bool relaxed = order == Order::kRelaxed;
  const bool any =
      collect(thread, copy, from.offset, bytes, scope, older, relaxed ? thread.seen : thread.clock);
  thread.seen_any |= relaxed && any;
  if (!relaxed) thread.in_order_since = num_steps;
}

}  // namespace stretto::fibre
