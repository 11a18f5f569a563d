#include "stretto/fibre/world.h"

#include <fmt/format.h>

#include <cstring>

#include "fibre/budget.h"
#include "fibre/engine.h"
#include "stretto/error.h"

namespace stretto::fibre {
namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw UsageError(message);
}

// What does not fit is the shape, in the words of whoever chose it.
template <class Work>
decltype(auto) within_budget(const Shape& shape, Work work) {
  try {
    return work();
  } catch (const TooMuchMemory&) {
    throw UsageError(
        fmt::format("emulating {} ranks x {} blocks x {} threads here takes more than {} MiB; take "
                    "fewer ranks, blocks or threads",
                    shape.ranks, shape.blocks, shape.threads, budget().most_bytes >> 20));
  }
}

void require_threads(int ranks, int blocks, int threads) {
  require(blocks <= kMostThreads && threads <= kMostThreads &&
              int64_t{ranks} * blocks * threads <= kMostThreads,
          fmt::format("{} ranks x {} blocks x {} threads: the emulator takes {} threads in all",
                      ranks, blocks, threads, kMostThreads));
}

void require_rank(const Shape& shape, int rank) {
  require(rank >= 0 && rank < shape.ranks,
          fmt::format("there is no rank {} among {}", rank, shape.ranks));
}

void check_shape(const Shape& shape) {
  require(shape.ranks >= 1 && shape.ranks <= 64,
          fmt::format("{} ranks: the emulator takes 1 to 64", shape.ranks));
  require(shape.blocks >= 1 && shape.blocks <= 1024,
          fmt::format("{} blocks a rank: the emulator takes 1 to 1024", shape.blocks));
  require(shape.threads >= 1 && shape.threads <= 1024,
          fmt::format("{} threads a block: the emulator takes 1 to 1024", shape.threads));
  require_threads(shape.ranks, shape.blocks, shape.threads);
  require(shape.warp_size >= 1 && shape.warp_size <= 32,
          fmt::format("warps of {} threads: the emulator takes 1 to 32", shape.warp_size));
  require(shape.threads <= shape.warp_size || shape.threads % shape.warp_size == 0,
          fmt::format("{} threads are not whole warps of {}: take {}", shape.threads,
                      shape.warp_size, shape.threads / shape.warp_size * shape.warp_size));
  require(shape.ranks_per_node >= 0 && shape.resident_blocks >= 0, "a count is negative");
  require(
      shape.shared_bytes >= 0 && shape.shared_bytes <= (1 << 20),
      fmt::format("{} bytes of shared memory: the emulator takes up to 1 MiB", shape.shared_bytes));
}

}  // namespace

namespace detail {
namespace {

void require_there(const Allocation& allocation, int rank, size_t offset, size_t bytes) {
  require(rank >= 0 && rank < allocation.num_copies(),
          fmt::format("{} is on ranks 0 to {}, not on {}", allocation.name,
                      allocation.num_copies() - 1, rank));
  require(offset + bytes <= allocation.num_bytes,
          fmt::format("{} has {} bytes, not {}", allocation.name, allocation.num_bytes,
                      offset + bytes));
}

}  // namespace

void write_host(Allocation& allocation, int rank, size_t offset, const void* value, size_t bytes) {
  require_there(allocation, rank, offset, bytes);
  if ((offset | bytes) % allocation.granule != 0) {
    allocation.refine((offset | bytes) & (~(offset | bytes) + 1));
  }
  Allocation::Copy& copy = allocation.copy(rank);
  std::memcpy(copy.bytes.data() + offset, value, bytes);
  for (size_t at = offset; at < offset + bytes; at += allocation.granule) {
    copy.cells[at / allocation.granule] = Cell{true, {}, {}};
  }
}

void read_host(const Allocation& allocation, int rank, size_t offset, void* value, size_t bytes) {
  require_there(allocation, rank, offset, bytes);
  const Allocation::Copy& copy = allocation.copy(rank);
  std::memcpy(value, copy.bytes.data() + offset, bytes);
  for (size_t at = offset / allocation.granule * allocation.granule; at < offset + bytes;
       at += allocation.granule) {
    if (copy.cells[at / allocation.granule].written) continue;
    allocation.engine->set_finding(
        FindingKind::kUnwritten,
        fmt::format("the host reads {}, which nobody wrote",
                    allocation.element_name(rank, static_cast<int64_t>(at))),
        {}, {});
    return;
  }
}

}  // namespace detail

World::World(const Shape& shape, Schedule schedule) {
  check_shape(shape);
  engine_ = std::make_unique<Engine>(shape, std::move(schedule));
  const auto ranks = static_cast<size_t>(shape.ranks);
  const auto blocks = static_cast<size_t>(shape.blocks);
  engine_->sync_signals = symmetric<uint64>("sync_signals", blocks * ranks * Block::kMeetWords, 0)
                              .at(0)
                              .address()
                              .allocation;
  engine_->sync_epochs = local<uint64>("sync_epochs", blocks * ranks, 0).at(0).address().allocation;
}

World::~World() = default;

const Shape& World::shape() const { return engine_->shape; }

Allocation& World::allocate(const std::string& name, bool symmetric, size_t size,
                            size_t element_bytes) {
  constexpr size_t kMaxBytes = size_t(1) << 28;
  require(size <= kMaxBytes / element_bytes,
          fmt::format("{}: {} elements are over the emulator's {} bytes a rank", name, size,
                      kMaxBytes));
  return within_budget(shape(), [&]() -> Allocation& {
    return engine_->allocate(name, symmetric ? MemoryKind::kSymmetric : MemoryKind::kLocal, size,
                             element_bytes);
  });
}

void World::launch(Kernel kernel) { launch(shape().blocks, shape().threads, std::move(kernel)); }

void World::launch(int blocks, int threads, Kernel kernel) {
  require_threads(shape().ranks, blocks, threads);
  for (int rank = 0; rank < shape().ranks; ++rank) launch_on(rank, 0, blocks, threads, kernel);
}

void World::launch_early(Kernel kernel) {
  launch_early(shape().blocks, shape().threads, std::move(kernel));
}

void World::launch_early(int blocks, int threads, Kernel kernel) {
  require_threads(shape().ranks, blocks, threads);
  for (int rank = 0; rank < shape().ranks; ++rank) queue(rank, 0, blocks, threads, kernel, true);
}

void World::launch_on(int rank, int stream, int blocks, int threads, Kernel kernel) {
  queue(rank, stream, blocks, threads, kernel, false);
}

void World::queue(int rank, int stream, int blocks, int threads, const Kernel& kernel,
                  bool may_be_early) {
  require_rank(shape(), rank);
  require(stream >= 0 && stream < 4, fmt::format("stream {}: a rank has streams 0 to 3", stream));
  require(blocks >= 1 && threads >= 1, "a launch needs a block and a thread");
  require_threads(1, blocks, threads);
  engine_->queue(rank, stream, blocks, threads, kernel, may_be_early);
}

void World::make_absent(int rank) {
  require_rank(shape(), rank);
  engine_->absent[static_cast<size_t>(rank)] = true;
}

bool World::run() {
  return within_budget(shape(), [&] { return engine_->run(); });
}

void World::require_run() const {
  require(engine_->finding || engine_->num_runs > 0,
          "the scenario never calls World::run(), so nothing was tried");
  require(engine_->finding || engine_->all_done(),
          "the scenario launches kernels behind its last World::run(), which are not tried");
}

void World::end_silence_after(double seconds) {
  require(seconds > 0, fmt::format("{} s of silence: more than 0 are needed", seconds));
  engine_->most_silence_s = seconds;
}

void World::allow_steps(uint64_t more) { engine_->more_steps = more; }

void World::expect(bool condition, const std::string& what) {
  if (!condition) engine_->set_finding(FindingKind::kMismatch, what, {}, {});
}

const std::optional<Finding>& World::finding() const { return engine_->finding; }
uint64_t World::num_expired() const { return engine_->num_expired; }
uint64_t World::num_steps() const { return engine_->num_steps; }
const std::vector<Decision>& World::decisions() const { return engine_->chooser.decisions(); }

}  // namespace stretto::fibre
