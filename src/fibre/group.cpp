// Barriers and collective calls of a block's threads.
#include <fmt/format.h>

#include "fibre/engine.h"

namespace stretto::fibre {

void Engine::complete_barrier(Barrier& barrier) {
  Clock joined;
  for (const Thread* thread : barrier.waiting) join(joined, thread->clock);
  Thread* first = barrier.waiting.front();
  for (Thread* thread : barrier.waiting) {
    if (thread->thread < first->thread) first = thread;
    thread->clock = joined;
    thread->clock.advance(thread->actor);
    thread->barrier_result = barrier.any;
    unpark(*thread);
  }
  first->brought = std::move(barrier.brought);
  barrier = Barrier{};
}

bool Engine::barrier(Thread& thread, bool whole_block, bool value, Where where,
                     std::optional<Event> brings) {
  step(thread, where);
  BlockState& group = *thread.group;
  const int warp = thread.thread / shape.warp_size;
  Barrier& barrier = whole_block ? group.barrier : group.warp_barriers[static_cast<size_t>(warp)];
  const int first = whole_block ? 0 : warp * shape.warp_size;
  const int last = whole_block
                       ? static_cast<int>(group.threads.size())
                       : std::min(first + shape.warp_size, static_cast<int>(group.threads.size()));
  for (int i = first; i < last; ++i) {
    const Thread& other = *group.threads[static_cast<size_t>(i)];
    if (other.state == ThreadState::kDone) {
      fail(FindingKind::kDivergence,
           fmt::format("thread {} waits at a barrier of rank {} block {} that thread {} left the "
                       "kernel without",
                       thread.thread, thread.rank, thread.block, other.thread),
           thread, where, place_of(other, other.where));
    }
  }
  if (!barrier.waiting.empty()) {
    const Thread& other = *barrier.waiting.front();
    if (!(other.where == where)) {
      fail(FindingKind::kDivergence,
           fmt::format("threads {} and {} of rank {} block {} are at different barriers",
                       thread.thread, other.thread, thread.rank, thread.block),
           thread, where, place_of(other, other.where));
    }
  }
  thread.where = where;
  barrier.any = barrier.any || value;
  if (brings) barrier.brought.push_back(*brings);
  barrier.waiting.push_back(&thread);
  if (static_cast<int>(barrier.waiting.size()) == last - first) {
    // This thread has not left its fibre: parking and unparking it would be idle.
    thread.state = ThreadState::kAtBarrier;
    complete_barrier(barrier);
  } else {
    park(thread, ThreadState::kAtBarrier);
  }
  return thread.barrier_result;
}

// A thread that offers again for the same turn has passed the next barrier, so all have read.
std::vector<float> Engine::gather_values(Thread& thread, bool whole_block, float value,
                                         Where where) {
  auto offer = whole_block ? &Thread::block_offer : &Thread::warp_offer;
  const size_t turn = (thread.*offer).count++ % 2;
  (thread.*offer).value[turn] = value;
  barrier(thread, whole_block, false, where);
  const auto& threads = thread.group->threads;
  const size_t warp_size = static_cast<size_t>(shape.warp_size);
  const size_t first = whole_block ? 0 : static_cast<size_t>(thread.thread) / warp_size * warp_size;
  const size_t end = whole_block ? threads.size() : std::min(first + warp_size, threads.size());
  std::vector<float> values;
  for (size_t i = first; i < end; ++i) values.push_back((threads[i]->*offer).value[turn]);
  return values;
}

void Engine::disagree(Thread& thread, int rank, const char* argument, const std::string& own,
                      const std::string& theirs, Where where) {
  const std::string call = fmt::format("rank {} calls with {} = {}, ", thread.rank, argument, own);
  fail(FindingKind::kDisagreement,
       call + (rank == thread.rank ? "but called before with " + theirs
                                   : fmt::format("rank {} with {}", rank, theirs)),
       thread, where);
}

void Engine::refuse_call(Thread& thread, const std::string& why, Where where) {
  fail(FindingKind::kWrongRank, why, thread, where);
}

void Engine::agree(Thread& thread, CollectiveCall call) {
  BlockState& group = *thread.group;
  const uint64_t number = thread.collective_calls++ - group.first_call;
  if (number == group.calls.size()) {
    group.calls.push_back(std::move(call));
    group.call_counts.push_back(0);
  } else {
    const CollectiveCall& first = group.calls[number];
    if (std::string_view(first.name) != call.name || first.arguments != call.arguments ||
        !(first.where == call.where)) {
      fail(FindingKind::kDivergence,
           fmt::format("threads of rank {} block {} do not make the same call of {} with the same "
                       "arguments",
                       thread.rank, thread.block, call.name),
           thread, call.where,
           Place{thread.rank, thread.block, -1, thread.launch->number, first.where});
    }
  }
  if (++group.call_counts[number] == group.threads.size()) {
    group.calls.pop_front();
    group.call_counts.erase(group.call_counts.begin());
    ++group.first_call;
  }
}

}  // namespace stretto::fibre
