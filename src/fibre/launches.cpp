// Launches: when they and their blocks begin, what their threads do, and what their end completes.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fibre/engine.h"
#include "stretto/error.h"

namespace stretto::fibre {
namespace {

bool has_ended(const Launch& launch) { return launch.done_blocks == launch.blocks; }

}  // namespace

uint32_t Engine::new_actor(uint32_t thread_index) {
  actor_thread_.push_back(thread_index);
  return static_cast<uint32_t>(actor_thread_.size() - 1);
}

Thread& Engine::thread_for(const Launch& launch, int block, int thread) {
  const auto [found, is_new] =
      thread_index_.try_emplace({launch.rank, launch.stream, launch.side, block, thread},
                                static_cast<uint32_t>(threads_.size()));
  if (is_new) {
    if (std::cmp_greater_equal(threads_.size(), kMostThreads)) {
      throw UsageError(fmt::format("the emulator takes {} threads in all", kMostThreads));
    }
    auto made = std::make_unique<Thread>();
    made->index = found->second;
    made->actor = new_actor(made->index);
    made->rank = launch.rank;
    made->stream = launch.stream;
    made->side = launch.side;
    made->block = block;
    made->thread = thread;
    threads_.push_back(std::move(made));
    chooser.add_thread(launch.rank);
    runnable_.resize(threads_.size());
  }
  return *threads_[found->second];
}

void Engine::queue(int rank, int stream, int blocks, int threads, const World::Kernel& kernel,
                   bool may_be_early) {
  Stream& to = streams_[static_cast<size_t>(rank)][static_cast<size_t>(stream)];
  auto launch = std::make_unique<Launch>();
  launch->number = to.launched++;
  launch->rank = rank;
  launch->stream = stream;
  launch->blocks = blocks;
  launch->threads = threads;
  launch->kernel = kernel;
  launch->may_be_early = may_be_early;
  to.queue.push_back(std::move(launch));
}

void Engine::start_launches() {
  for (size_t rank = 0; rank < streams_.size(); ++rank) {
    if (absent[rank]) continue;
    for (Stream& stream : streams_[rank]) {
      while (!stream.queue.empty() && has_ended(*stream.queue.front())) stream.queue.pop_front();
      const Launch* before = nullptr;
      for (const auto& launch : stream.queue) {
        if (before == nullptr && !launch->before) {
          launch->before = std::make_shared<const Clock>(stream.clock);
        }
        if (!launch->has_begun) {
          const bool is_let =
              launch->may_be_early && before != nullptr && before->letting_blocks == before->blocks;
          if (!launch->before && !is_let) break;
          launch->start =
              launch->before ? launch->before : std::make_shared<const Clock>(before->passed_on);
          begin_launch(stream, *launch);
        }
        start_blocks(*launch);
        before = launch.get();
      }
    }
  }
}

// What runs beside it on the stream has other threads.
void Engine::begin_launch(const Stream& stream, Launch& launch) {
  const auto is_taken = [&](const std::unique_ptr<Launch>& other) {
    return other->has_begun && !has_ended(*other) && other->side == launch.side;
  };
  while (std::any_of(stream.queue.begin(), stream.queue.end(), is_taken)) ++launch.side;
  launch.has_begun = true;
}

// One thread speaks for its block. What its own launch has done the next one has to wait for.
void Engine::let_next_start(Thread& thread, Where where) {
  step(thread, where);
  Launch& launch = *thread.launch;
  join(launch.passed_on, thread.is_behind ? *launch.before : *launch.start);
  if (thread.group->lets_next) return;
  thread.group->lets_next = true;
  ++launch.letting_blocks;
  launches_changed_ = true;
}

void Engine::wait_for_kernel_before(Thread& thread, Where where) {
  step(thread, where);
  while (!thread.launch->before) park(thread, ThreadState::kBehindKernel);
  thread.is_behind = true;
  join(thread.clock, *thread.launch->before);
  Clock fenced = *thread.fenced;
  join(fenced, *thread.launch->before);
  thread.fenced = std::make_shared<const Clock>(std::move(fenced));
  thread.in_order_since = num_steps;
}

void Engine::start_blocks(Launch& launch) {
  int& resident = resident_[static_cast<size_t>(launch.rank)];
  while (launch.next_block < launch.blocks &&
         (shape.resident_blocks == 0 || resident < shape.resident_blocks)) {
    ++resident;
    start_block(launch, launch.next_block++);
  }
}

void Engine::start_block(Launch& launch, int block) {
  auto state = std::make_unique<BlockState>();
  state->launch = &launch;
  state->rank = launch.rank;
  state->block = block;
  const int warps = (launch.threads + shape.warp_size - 1) / shape.warp_size;
  state->warp_barriers.resize(static_cast<size_t>(warps));
  state->shared = std::make_unique<Allocation>("shared", MemoryKind::kShared, 1,
                                               static_cast<size_t>(shape.shared_bytes), 4);
  state->shared->owner_rank = launch.rank;
  state->shared->owner_block = block;
  for (int i = 0; i < launch.threads; ++i) {
    Thread& thread = thread_for(launch, block, i);
    thread.launch = &launch;
    thread.group = state.get();
    thread.collective_calls = 0;
    const uint32_t own = thread.clock[thread.actor];
    thread.clock = *launch.start;
    learn(thread.clock, {thread.actor, own + 1});
    thread.clock.advance(thread.actor);
    thread.fenced = launch.start;
    thread.is_behind = launch.start == launch.before;
    thread.in_order_since = num_steps;
    thread.where = {};
    thread.context = std::make_unique<Block>(*this, thread);
    thread.fibre = std::make_unique<Fibre>([this, &thread] { body(thread); });
    state->threads.push_back(&thread);
    unpark(thread);
  }
  launch.states.push_back(std::move(state));
}

void Engine::body(Thread& thread) {
  const auto threw = [&](const std::string& what) {
    set_finding(FindingKind::kMismatch, "the kernel threw" + what, place_of(thread, thread.where),
                {});
  };
  try {
    thread.launch->kernel(*thread.context);
    // What it did last may come before the rest, and while others go on.
    while (thread.flights > 0) {
      if (const auto index = chooser.at_end(num_steps, flight_ids_)) {
        deliver(*index);
        if (finding) throw Abandon{};
      } else {
        park(thread, ThreadState::kEnding);
      }
    }
    end_thread(thread);
  } catch (const Abandon&) {
  } catch (const TooMuchMemory&) {
    refusal_ = std::current_exception();
  } catch (const boost::context::detail::forced_unwind&) {
    throw;  // of a fibre that nobody resumes any more
  } catch (const std::exception& error) {
    threw(std::string(": ") + error.what());
  } catch (...) {
    threw(" what is no std::exception");
  }
  thread.state = ThreadState::kDone;
  runnable_.clear(thread.index);
}

void Engine::end_thread(Thread& thread) {
  BlockState& group = *thread.group;
  Launch& launch = *thread.launch;
  const auto warp = static_cast<size_t>(thread.thread / shape.warp_size);
  for (const Barrier* barrier : {&group.barrier, &group.warp_barriers[warp]}) {
    if (barrier->waiting.empty()) continue;
    const Thread& other = *barrier->waiting.front();
    fail(FindingKind::kDivergence,
         fmt::format("thread {} of rank {} block {} leaves the kernel while thread {} waits for it "
                     "at a barrier",
                     thread.thread, thread.rank, thread.block, other.thread),
         thread, thread.where, place_of(other, other.where));
  }
  if (thread.collective_calls - group.first_call < group.calls.size()) {
    fail(FindingKind::kDivergence,
         fmt::format(
             "thread {} of rank {} block {} leaves the kernel without the block's call of {}",
             thread.thread, thread.rank, thread.block, group.calls.front().name),
         thread, thread.where,
         Place{thread.rank, thread.block, -1, launch.number, group.calls.front().where});
  }
  // The end of a kernel completes what its threads began.
  for (Transfer& transfer : transfers_[static_cast<size_t>(thread.rank)]) {
    if (transfer.issuer == thread.index) complete(thread, transfer);
  }
  acquire_seen(thread);
  join(launch.end, thread.clock);
  if (++group.done < static_cast<int>(group.threads.size())) return;
  --resident_[static_cast<size_t>(launch.rank)];
  launches_changed_ = true;
  if (!group.lets_next) ++launch.letting_blocks;
  if (++launch.done_blocks == launch.blocks) end_launch(launch);
}

void Engine::end_launch(Launch& launch) {
  Stream& stream = streams_[static_cast<size_t>(launch.rank)][static_cast<size_t>(launch.stream)];
  deliver_known(launch.end);
  join(stream.clock, launch.end);
  for (const auto& next : stream.queue) {
    if (next->number != launch.number + 1) continue;
    next->before = std::make_shared<const Clock>(launch.end);
    for (const auto& block : next->states) {
      for (Thread* thread : block->threads) {
        if (thread->state == ThreadState::kBehindKernel) unpark(*thread);
      }
    }
  }
  transfers_[static_cast<size_t>(launch.rank)].remove_if(
      [&](const Transfer& transfer) { return threads_[transfer.issuer]->launch == &launch; });
}

bool Engine::all_done() const {
  for (size_t rank = 0; rank < streams_.size(); ++rank) {
    for (const Stream& stream : streams_[rank]) {
      if (!stream.queue.empty() && !absent[rank]) return false;
    }
  }
  return true;
}

}  // namespace stretto::fibre
