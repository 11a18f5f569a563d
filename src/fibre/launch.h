// Launches of kernels, their blocks and threads, as far as they have come.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fibre/allocation.h"
#include "fibre/clock.h"
#include "fibre/fibre.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

enum class ThreadState : uint8_t {
  kIdle,
  kRunning,
  kWaiting,
  kAtBarrier,
  kBehindKernel,  // waits for the end of the kernel before its own
  kEnding,
  kDone
};

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
  int side = 0;  // of the stream: launches that run at once have each its own
  int block = 0;
  int thread = 0;

  Launch* launch = nullptr;
  BlockState* group = nullptr;
  std::unique_ptr<Block> context;
  std::unique_ptr<Fibre> fibre;
  ThreadState state = ThreadState::kIdle;
  Where where;
  uint32_t flights = 0;    // stores of its own on their way
  bool is_silent = false;  // was taken off the processor
  bool is_behind = false;  // has waited for the kernel before its own, or began behind it

  Clock clock;         // what it knows; clock[actor] numbers its own events
  SharedClock fenced;  // at its last fence: what its relaxed stores release
  Clock seen;          // what relaxed loads read: acquired by the next fence
  bool seen_any = false;
  uint64_t in_order_since = 0;  // step: no load behind it is carried out before it

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
  bool lets_next = false;  // start
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
  bool may_be_early = false;
  bool has_begun = false;
  int side = 0;
  int next_block = 0;
  int done_blocks = 0;
  int letting_blocks = 0;  // that let the next launch start, or have ended
  SharedClock start;
  SharedClock before;  // what the launch before knew at its end; null until then
  Clock passed_on;     // what the next launch knows when it starts early
  Clock end;
  std::vector<std::unique_ptr<BlockState>> states;
};

struct Stream {
  std::deque<std::unique_ptr<Launch>> queue;
  Clock clock;  // what all its finished launches knew
  int launched = 0;
};

}  // namespace stretto::fibre
