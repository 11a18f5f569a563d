// The run: who goes on, and what comes before its next operation.
#include "fibre/engine.h"

#include <fmt/format.h>

#include <utility>

#include "fibre/watchdog.h"
#include "stretto/error.h"

namespace stretto::fibre {
namespace {

// More than kernels that end take; a large shape takes many for its size alone.
constexpr uint64_t kMostSteps = 2'000'000;
constexpr uint64_t kMostStepsOfAThread = 500;

thread_local Engine* active_engine = nullptr;
thread_local Thread* active_thread = nullptr;

// Makes an engine the active one, until it ends or throws.
class Active {
 public:
  explicit Active(Engine* engine) : outer_(std::exchange(active_engine, engine)) {}
  ~Active() { active_engine = outer_; }
  Active(const Active&) = delete;

 private:
  Engine* const outer_;
};

}  // namespace

Thread& running_thread() {
  if (active_thread == nullptr) throw UsageError("emulated memory is accessed outside of a kernel");
  return *active_thread;
}

Engine& running_engine() { return *active_engine; }

Engine::Engine(const Shape& its_shape, Schedule schedule)
    : shape(its_shape),
      absent(static_cast<size_t>(its_shape.ranks), false),
      chooser(schedule),
      streams_(static_cast<size_t>(its_shape.ranks)),
      resident_(static_cast<size_t>(its_shape.ranks), 0),
      transfers_(static_cast<size_t>(its_shape.ranks)) {}

Engine::~Engine() { abandon_all(); }

Allocation& Engine::allocate(const std::string& name, MemoryKind kind, size_t size,
                             size_t element) {
  allocations_.push_back(
      std::make_unique<Allocation>(name, kind, shape.ranks, size * element, element));
  allocations_.back()->engine = this;
  return *allocations_.back();
}

bool Engine::run() {
  if (finding) return false;
  launches_changed_ = true;
  forget_older();
  ++num_runs;
  const Active active(this);
  const Ticks ticks([] {
    if (active_engine != nullptr && active_thread != nullptr) active_engine->tick();
  });
  while (!finding) {
    if (launches_changed_) {
      launches_changed_ = false;
      start_launches();
    }
    if (!next_) next_ = chooser.at_block(num_steps, current_, runnable_);
    if (!next_) {
      if (const auto index = chooser.delivery(num_steps, flight_ids_, true)) {
        deliver(*index);
        continue;
      }
      if (all_done()) break;
      if (expire_waits()) continue;
      set_finding(FindingKind::kDeadlock, describe_stuck(), {}, {});
      break;
    }
    current_ = *next_;
    next_.reset();
    active_thread = threads_[current_].get();
    active_thread->fibre->resume();
    active_thread = nullptr;
    if (threads_[current_]->is_silent) end_silent(*threads_[current_]);
    if (refusal_) std::rethrow_exception(refusal_);
  }
  if (finding) abandon_all();
  return !finding;
}

// Called in the middle of a kernel, on its stack: nothing here allocates.
void Engine::tick() {
  if (num_steps != steps_at_tick_) {
    steps_at_tick_ = num_steps;
    silent_ticks_ = 0;
  } else if (++silent_ticks_ * Ticks::kSeconds >= most_silence_s) {
    silent_ticks_ = 0;
    active_thread->is_silent = true;
    active_thread->fibre->yield();
  }
}

void Engine::end_silent(Thread& thread) {
  thread.state = ThreadState::kDone;
  thread.fibre->leave();
  set_finding(FindingKind::kSilence,
              fmt::format("a thread has computed for {} s without an operation of the language",
                          most_silence_s) +
                  (thread.where == Where{} ? ", from its begin on" : "; its last one is here"),
              place_of(thread, thread.where), {});
}

void Engine::abandon_all() {
  const Active active(this);
  abandoning_ = true;
  for (auto& thread : threads_) {
    if (thread->fibre == nullptr || thread->state == ThreadState::kDone) continue;
    if (!thread->fibre->has_begun()) continue;  // it holds nothing, and might compute for ever
    active_thread = thread.get();
    thread->fibre->resume();
    active_thread = nullptr;
    if (thread->is_silent) thread->fibre->leave();
  }
  abandoning_ = false;
}

void Engine::step(Thread& thread, Where where) {
  if (abandoning_) throw Abandon{};
  thread.where = where;
  const uint64_t most = kMostSteps + kMostStepsOfAThread * threads_.size() + more_steps;
  if (++num_steps > most) {
    fail(FindingKind::kLivelock,
         fmt::format("{} operations have not brought the kernels to their end", most), thread,
         where);
  }
  while (const auto index = chooser.delivery(num_steps, flight_ids_, false)) {
    deliver(*index);
    if (finding) throw Abandon{};
    if (flights_.size() % 4 == 0) break;
  }
  const uint32_t chosen = chooser.at_step(num_steps, thread.index, runnable_);
  if (chosen == thread.index) return;
  next_ = chosen;
  thread.fibre->yield();
  if (abandoning_) throw Abandon{};
}

void Engine::park(Thread& thread, ThreadState state) {
  thread.state = state;
  runnable_.clear(thread.index);
  thread.fibre->yield();
  if (abandoning_) throw Abandon{};
}

void Engine::unpark(Thread& thread) {
  thread.state = ThreadState::kRunning;
  runnable_.set(thread.index);
}

}  // namespace stretto::fibre
