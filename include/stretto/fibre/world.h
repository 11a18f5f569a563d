// An emulated machine: ranks with symmetric and local memory, and kernels queued on their streams.
//
//   World world({.ranks = 4, .blocks = 2, .threads = 4}, Schedule::from_seed(7));
//   auto x = world.symmetric<float>("x", 64, 1.0f);
//   world.launch([&](Block& block) { my_kernel(block, MyArgs<Block>{x.at(block.rank())}); });
//   if (!world.run()) report(world.finding()->message);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/fibre/block.h"
#include "stretto/fibre/finding.h"

namespace stretto::fibre {

// What differs from "go on with the same thread, deliver nothing, load what is in memory".
struct Decision {
  enum class What : uint8_t { kGoOn, kDeliver, kLoadOlder };
  uint64_t step = 0;  // number of the operation, counted over all threads
  What what = What::kGoOn;
  uint32_t target = 0;  // the thread; the transfer; how many stores before the last
};

// How a run is scheduled: adversarially by a seed, or by exactly these decisions.
struct Schedule {
  static Schedule from_seed(uint64_t seed) { return {seed, false, {}}; }
  static Schedule replay(std::vector<Decision> decisions) {
    return {0, true, std::move(decisions)};
  }
  uint64_t seed = 0;
  bool replays = false;
  std::vector<Decision> decisions;
};

struct Shape {
  int ranks = 2;
  int blocks = 1;
  int threads = 4;          // of a block
  int warp_size = 4;        // threads must be a multiple, or fewer than one warp
  int ranks_per_node = 0;   // 0: all on one node
  int resident_blocks = 0;  // of a rank at one time; 0: as many as there are
  int shared_bytes = 0;     // of a block
  friend bool operator==(const Shape&, const Shape&) = default;
};

namespace detail {
void write_host(Allocation& allocation, int rank, size_t offset, const void* value, size_t bytes);
void read_host(const Allocation& allocation, int rank, size_t offset, void* value, size_t bytes);
}  // namespace detail

// Memory of the same size on every rank, with the host's access to it outside of runs.
template <class T>
class Buffer {
 public:
  Buffer(Allocation& allocation, size_t size) : allocation_(&allocation), size_(size) {}

  size_t size() const { return size_; }
  Pointer<T> at(int rank) const { return Pointer<T>(Address{allocation_, rank, 0}); }
  void set(int rank, size_t index, const T& value) {
    detail::write_host(*allocation_, rank, index * sizeof(T), &value, sizeof(T));
  }
  // Of memory that nobody wrote it is a finding.
  T get(int rank, size_t index) const {
    T value;
    detail::read_host(*allocation_, rank, index * sizeof(T), &value, sizeof(T));
    return value;
  }

 private:
  Allocation* allocation_;
  size_t size_;
};

class World {
 public:
  // Throws UsageError when the shape cannot be.
  World(const Shape& shape, Schedule schedule);
  ~World();
  World(const World&) = delete;

  const Shape& shape() const;

  // Symmetric memory can be reached from every rank, local memory by its own rank only. Without an
  // initial value it is unwritten, and reading it is a finding.
  template <class T>
  Buffer<T> symmetric(const std::string& name, size_t size) {
    return Buffer<T>(allocate(name, true, size, sizeof(T)), size);
  }
  template <class T>
  Buffer<T> local(const std::string& name, size_t size) {
    return Buffer<T>(allocate(name, false, size, sizeof(T)), size);
  }
  template <class T>
  Buffer<T> symmetric(const std::string& name, size_t size, std::type_identity_t<T> value) {
    return filled(symmetric<T>(name, size), value);
  }
  template <class T>
  Buffer<T> local(const std::string& name, size_t size, std::type_identity_t<T> value) {
    return filled(local<T>(name, size), value);
  }

  using Kernel = std::function<void(Block&)>;

  // Queues a kernel on stream 0 of every rank; kernels of one stream of one rank run in order, and
  // ranks are not in step. The function must outlive the run only as the std::function it becomes.
  void launch(Kernel kernel);
  void launch(int blocks, int threads, Kernel kernel);
  // The same for a kernel that need not wait for the end of the one before it on its stream: it may
  // start once every block of that has let it (Block::let_next_start) or ended. It knows then what
  // those knew that let it start, and of what else they do only what it waits for by itself
  // (Block::wait_for_kernel_before, or data that says itself that it has come).
  void launch_early(Kernel kernel);
  void launch_early(int blocks, int threads, Kernel kernel);
  // Queues it on one rank and stream (from 0 up to 3).
  void launch_on(int rank, int stream, int blocks, int threads, Kernel kernel);

  // The rank never starts its kernels. Waits that then cannot be satisfied expire instead of being
  // a finding: they return false, and whoever does not leave the kernel after that is found.
  void make_absent(int rank);

  // Runs all that is queued. False when something was found; the world is then spent.
  bool run();

  // Throws UsageError when something was launched and not run, or nothing was run at all.
  void require_run() const;

  // A thread that computes for longer, in processor time, without an operation of the language is
  // a finding; it is not resumed, and what its variables hold is lost.
  static constexpr double kMostSilenceSeconds = 5;
  void end_silence_after(double seconds);

  // Kernels that have not come to their end after two million operations, and some for each thread,
  // are a livelock; those of much data may take so many more.
  void allow_steps(uint64_t more);

  // A result that is wrong, found by the scenario itself; the first finding stays.
  void expect(bool condition, const std::string& what);

  const std::optional<Finding>& finding() const;
  uint64_t num_expired() const;  // waits that returned false
  uint64_t num_steps() const;
  const std::vector<Decision>& decisions() const;

 private:
  Allocation& allocate(const std::string& name, bool symmetric, size_t size, size_t element_bytes);
  void queue(int rank, int stream, int blocks, int threads, const Kernel& kernel,
             bool may_be_early);
  template <class T>
  Buffer<T> filled(Buffer<T> buffer, const T& value) {
    for (int rank = 0; rank < shape().ranks; ++rank) {
      for (size_t i = 0; i < buffer.size(); ++i) buffer.set(rank, i, value);
    }
    return buffer;
  }

  std::unique_ptr<Engine> engine_;
};

}  // namespace stretto::fibre
