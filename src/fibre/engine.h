// Executes kernels as fibres and checks every access against happens-before.
//
//   engine.cpp   the run: launches, threads, who goes on
//   wait.cpp     threads that wait at an address, deadlock
//   access.cpp   addresses, plain and strong accesses, the race check
//   transfer.cpp stores on their way, non-blocking puts and gets, fence and quiet
//   group.cpp    barriers and collective calls of a block
#pragma once

#include <deque>
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
#include "fibre/fibre.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

// Unwinds a kernel's stack after a finding.
struct Abandon {};

enum class ThreadState : uint8_t { kIdle, kRunning, kWaiting, kAtBarrier, kDone };

struct Launch;
struct BlockState;

// A call that all threads of a block must make alike.
struct CollectiveCall {
  const char* name = "";
  std::vector<uint64_t> arguments;
  Where where;
};

struct Thread {
  uint32_t index = 0;  // of the scheduler
  uint32_t actor = 0;  // of its events
  int rank = 0;
  int stream = 0;
  int block = 0;
  int thread = 0;

  Launch* launch = nullptr;
  BlockState* group = nullptr;
  std::unique_ptr<Block> context;
  std::unique_ptr<Fibre> fibre;
  ThreadState state = ThreadState::kIdle;
  Where where;

  Clock clock;         // what it knows; clock[actor] numbers its own events
  SharedClock fenced;  // at its last fence: what its relaxed stores release
  Clock seen;          // what relaxed loads read: acquired by the next fence
  bool seen_any = false;

  // While waiting.
  Address wait_address;
  size_t wait_bytes = 0;
  std::string wait_text;
  std::string in_team;  // its ranks, in a collective

  bool barrier_result = false;
  struct Offer {  // to gather_values, by turns
    std::array<float, 2> value{};
    uint64_t count = 0;
  };
  Offer block_offer, warp_offer;
  std::vector<Event> brought;  // to its last barrier by all, given to the first of the threads
  uint64_t collective_calls = 0;
  std::vector<std::array<Event, 2>> free_sides;  // of finished transfers: source and destination
};

struct Barrier {
  int arrived = 0;
  bool any = false;
  std::vector<Event> brought;
  std::vector<Thread*> waiting;
};

struct BlockState {
  Launch* launch = nullptr;
  int rank = 0;
  int block = 0;
  int done = 0;
  std::vector<Thread*> threads;
  Barrier barrier;
  std::vector<Barrier> warp_barriers;
  std::deque<CollectiveCall> calls;  // from call number first_call
  std::vector<uint64_t> call_counts;
  uint64_t first_call = 0;
  std::unique_ptr<Allocation> shared;
};

struct Launch {
  int number = 0;  // in its stream
  int rank = 0;
  int stream = 0;
  int blocks = 1;
  int threads = 1;
  World::Kernel kernel;
  int next_block = 0;
  int done_blocks = 0;
  SharedClock start;
  Clock end;
  std::vector<std::unique_ptr<BlockState>> states;
};

struct Stream {
  std::deque<std::unique_ptr<Launch>> queue;
  Clock clock;  // what all its finished launches knew
  int launched = 0;
  bool running = false;
};

// A store or an addition on its way to another rank.
struct Flight {
  uint32_t id = 0;
  Event event;  // of the store
  uint32_t issuer = 0;
  Allocation* allocation = nullptr;
  int rank = 0;
  int64_t offset = 0;
  std::vector<uint8_t> bytes;
  bool copies = false;  // takes its bytes from `from` when it arrives
  Address from;
  bool strong = false;
  bool adds = false;
  bool is_signal = false;
  Release release;
  Place place;
};

// A non-blocking put or get.
struct Transfer {
  uint32_t issuer = 0;
  Event issue;
  Event source;
  Event dest;
  bool is_get = false;
  bool completed = false;  // by a quiet; kept for others' until the kernel ends
};

class Engine {
 public:
  Engine(const Shape& shape, Schedule schedule);
  ~Engine();

  Allocation& allocate(const std::string& name, MemoryKind kind, size_t size, size_t element);
  void queue(int rank, int stream, int blocks, int threads, const World::Kernel& kernel);
  bool run();
  void set_finding(FindingKind kind, std::string message, const Place& place, const Place& other);

  // Called by running threads. All can end in a finding, which unwinds the thread.
  void read(Thread& thread, const Address& from, void* value, size_t bytes, bool strong,
            Scope scope, Where where);
  void write(Thread& thread, const Address& to, const void* value, size_t bytes, Where where);
  void load(Thread& thread, const Address& from, void* value, size_t bytes, Order order,
            Scope scope, Where where);
  void store(Thread& thread, const Address& to, const void* value, size_t bytes, Order order,
             Scope scope, Where where);
  uint64_t modify(Thread& thread, const Address& at, size_t bytes, Order order, Scope scope,
                  Where where, const std::function<uint64_t(uint64_t)>& update);
  void signal(Thread& thread, const Address& own, uint64_t value, bool adds, int rank,
              std::span<const Event> after, Where where, bool releases = true);
  // Waits until ready() says so; it is asked again when something arrives at the address.
  bool wait(Thread& thread, const Address& address, size_t bytes, Where where,
            const std::function<bool()>& ready, const std::function<std::string()>& text);
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

  bool same_node(int a, int b) const;

  Shape shape;
  std::optional<Finding> finding;
  std::vector<bool> absent;
  Allocation* sync_signals = nullptr;
  Allocation* sync_epochs = nullptr;
  uint64_t num_expired = 0;
  uint64_t num_steps = 0;
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
  void check(Allocation& allocation, int rank, int64_t offset, size_t bytes, bool writes,
             const Access& access, Where where);
  bool includes(const Record& record, const Access& access) const;
  bool in_scope(Scope scope, uint32_t actor, uint32_t other) const;
  const Thread& owner_of(uint32_t actor) const { return *threads_[actor_thread_[actor]]; }

  SharedClock publish(Thread& thread);
  // Adds the releases at these words to `clock`; true when there are any.
  bool collect(Thread& thread, Allocation::Copy& copy, int64_t offset, size_t bytes, Scope scope,
               Clock& clock);
  void apply(const Flight& flight);
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
  void start_blocks(Launch& launch);
  void start_block(Launch& launch, int block);
  Thread& thread_for(int rank, int stream, int block, int thread);
  void body(Thread& thread);
  void end_thread(Thread& thread);
  void end_launch(Launch& launch);
  bool all_done() const;
  bool expire_waits();
  std::string describe_stuck() const;
  void park(Thread& thread, ThreadState state);
  void unpark(Thread& thread);
  void abandon_all();

  std::vector<std::unique_ptr<Allocation>> allocations_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::map<std::tuple<int, int, int, int>, uint32_t> thread_index_;
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
  bool abandoning_ = false;
  bool expired_ = false;
  std::exception_ptr refusal_;  // that a thread met: it ends the run, and is no finding
};

Thread& running_thread();
Engine& running_engine();

}  // namespace stretto::fibre
