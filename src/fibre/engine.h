// Executes kernels as fibres and checks every access against happens-before.
//
//   engine.cpp    the run: who goes on
//   launches.cpp  launches begin and end, with their blocks and threads
//   group.cpp     barriers and collective calls of a block
//   wait.cpp      threads that wait at an address, deadlock
//   addresses.cpp what an address leads to, findings with their places
//   access.cpp    plain and strong accesses, the race check
//   transfer.cpp  puts and gets, fence and quiet, acquire and release
//   flights.cpp   stores on their way, and their arrival
//   older.cpp     strong loads that are carried out early, and what they acquire
#pragma once

#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>

#include "fibre/allocation.h"
#include "fibre/chooser.h"
#include "fibre/clock.h"
#include "fibre/flight.h"
#include "fibre/launch.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

// Unwinds a kernel's stack after a finding.
struct Abandon {};

class Engine {
 public:
  Engine(const Shape& shape, Schedule schedule);
  ~Engine();

  Allocation& allocate(const std::string& name, MemoryKind kind, size_t size, size_t element);
  void queue(int rank, int stream, int blocks, int threads, const World::Kernel& kernel,
             bool may_be_early);
  bool run();
  void set_finding(FindingKind kind, std::string message, const Place& place, const Place& other);

  // Called by running threads. All can end in a finding, which unwinds the thread.
  void read(Thread& thread, const Address& from, void* value, size_t bytes, Where where);
  // Of a strong load, without what comes before an operation. It may have been carried out early.
  void look(Thread& thread, const Address& from, void* value, size_t bytes, Order order,
            Scope scope, bool may_be_early, Where where);
  void write(Thread& thread, const Address& to, const void* value, size_t bytes, Where where);
  void load(Thread& thread, const Address& from, void* value, size_t bytes, Order order,
            Scope scope, Where where);
  void store(Thread& thread, const Address& to, const void* value, size_t bytes, Order order,
             Scope scope, Where where);
  uint64_t modify(Thread& thread, const Address& at, size_t bytes, Order order, Scope scope,
                  Where where, const std::function<uint64_t(uint64_t)>& update);
  void signal(Thread& thread, const Address& own, uint64_t value, bool adds, int rank,
              std::span<const Event> after, Where where, bool releases = true);
  // Waits until ready() says so, which is told whether it asks for the first time; it is asked
  // again when something arrives at the address.
  bool wait(Thread& thread, const Address& address, size_t bytes, Where where,
            const std::function<bool(bool first)>& ready, const std::function<std::string()>& text);
  // What released the words' values, or what all relaxed loads of the thread have seen.
  void acquire_at(Thread& thread, const Address& words, size_t bytes, Scope scope);
  void acquire_seen(Thread& thread);
  void fence(Thread& thread, bool completes, Where where);
  // The event of the writes at the destination.
  Event put(Thread& thread, const Address& dest, const Address& source, uint64_t bytes, int rank,
            bool blocking, Where where);
  void get(Thread& thread, const Address& dest, const Address& source, uint64_t bytes, int rank,
           bool blocking, Where where);
  bool barrier(Thread& thread, bool whole_block, bool value, Where where,
               std::optional<Event> brings = {});
  void agree(Thread& thread, CollectiveCall call);
  // A barrier that gives every thread the values of all, in thread order.
  std::vector<float> gather_values(Thread& thread, bool whole_block, float value, Where where);
  [[noreturn]] void disagree(Thread& thread, int rank, const char* argument, const std::string& own,
                             const std::string& theirs, Where where);
  // A call of a team that names a rank which is not of it.
  [[noreturn]] void refuse_call(Thread& thread, const std::string& why, Where where);
  Address peer(Thread& thread, const Address& own, int rank, Where where);
  void step(Thread& thread, Where where);
  // As griddepcontrol.launch_dependents and griddepcontrol.wait.
  void let_next_start(Thread& thread, Where where);
  void wait_for_kernel_before(Thread& thread, Where where);

  bool same_node(int a, int b) const;
  // No launch is left to run, but of ranks that are absent.
  bool all_done() const;
  // A thread runs that may have gone on without an operation for too long; it is then left.
  void tick();

  Shape shape;
  std::optional<Finding> finding;
  std::vector<bool> absent;
  Allocation* sync_signals = nullptr;
  Allocation* sync_epochs = nullptr;
  uint64_t num_expired = 0;
  uint64_t num_steps = 0;
  uint64_t num_runs = 0;
  uint64_t more_steps = 0;  // than the usual ones, before it is a livelock
  double most_silence_s = World::kMostSilenceSeconds;
  Chooser chooser;

 private:
  struct Access {
    Event event;
    const Clock* clock;
    const Thread* thread;
    bool strong;
    Scope scope;
    const char* verb;
    bool observes = false;
  };

  [[noreturn]] void fail(FindingKind kind, std::string message, const Thread& thread, Where where,
                         const Place& other = {});
  Place place_of(const Thread& thread, Where where) const;
  Place place_of(const Record& record) const;

  Allocation::Copy& resolve(const Thread& thread, const Address& address, size_t bytes,
                            size_t alignment, bool through_put, const char* verb, Where where);
  // Whether it writes where nobody wrote before.
  bool check(Allocation& allocation, int rank, int64_t offset, size_t bytes, bool writes,
             const Access& access, Where where);
  bool includes(const Record& record, const Access& access) const;
  bool in_scope(Scope scope, uint32_t actor, uint32_t other) const;
  const Thread& owner_of(uint32_t actor) const { return *threads_[actor_thread_[actor]]; }

  SharedClock publish(Thread& thread);
  // For each word of a load the older value that it sees, if it does; keeps what it has seen.
  using Older = std::array<const OlderValue*, 4>;
  bool choose_older(Thread& thread, Allocation::Copy& copy, int64_t offset, size_t bytes,
                    bool may_be_early, Older& chosen);
  // Adds the releases at these words to `clock`; true when there are any.
  bool collect(Thread& thread, Allocation::Copy& copy, int64_t offset, size_t bytes, Scope scope,
               const Older& older, Clock& clock);
  void keep_older(SyncWord& word, const void* bytes, size_t num_bytes, Event overwritten_by);
  void forget_older();
  void apply(const Flight& flight);
  void raise(SyncWord& word, const Allocation::Copy& copy, const Flight& flight);
  void send(Flight flight);
  void deliver(size_t index);
  void deliver_known(const Clock& clock);
  void deliver_known_at(const Clock& clock, const Allocation& allocation, int rank, int64_t offset,
                        size_t bytes);
  void write_now(Allocation& allocation, int rank, int64_t offset, const void* bytes,
                 size_t num_bytes);
  bool on_its_way(const Allocation& allocation, int rank, int64_t offset, size_t bytes) const;
  void wake(const Allocation& allocation, int rank, int64_t offset, size_t bytes);
  Transfer& begin_transfer(Thread& thread, bool is_get);
  void complete(Thread& thread, Transfer& transfer);
  uint32_t new_actor(uint32_t thread_index);
  void complete_barrier(Barrier& barrier);

  void start_launches();
  void begin_launch(const Stream& stream, Launch& launch);
  void start_blocks(Launch& launch);
  void start_block(Launch& launch, int block);
  Thread& thread_for(const Launch& launch, int block, int thread);
  void body(Thread& thread);
  void end_thread(Thread& thread);
  void end_launch(Launch& launch);
  void end_silent(Thread& thread);
  bool expire_waits();
  std::string describe_stuck() const;
  void park(Thread& thread, ThreadState state);
  void unpark(Thread& thread);
  void abandon_all();

  std::vector<std::unique_ptr<Allocation>> allocations_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::map<std::tuple<int, int, int, int, int>, uint32_t> thread_index_;
  std::vector<uint32_t> actor_thread_;          // by actor: the thread that acts, or that issued it
  std::vector<std::array<Stream, 4>> streams_;  // by rank
  std::vector<int> resident_;                   // blocks, by rank
  std::vector<Flight> flights_;                 // ascending id
  std::vector<uint32_t> flight_ids_;
  uint32_t next_flight_ = 0;
  std::vector<std::list<Transfer>> transfers_;  // by rank
  Runnable runnable_;
  std::vector<uint32_t> waiting_;  // threads that wait at an address
  bool launches_changed_ = true;
  uint32_t current_ = 0;
  std::optional<uint32_t> next_;
  uint64_t steps_at_tick_ = 0;
  int silent_ticks_ = 0;
  bool abandoning_ = false;
  bool expired_ = false;
  std::exception_ptr refusal_;  // that a thread met: it ends the run, and is no finding
};

Thread& running_thread();
Engine& running_engine();

}  // namespace stretto::fibre
