#include "stretto/fibre/world.h"

#include <fmt/format.h>

#include <cstring>

#include "fibre/engine.h"
#include "stretto/error.h"

namespace stretto::fibre {
namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw UsageError(message);
}

void check_shape(const Shape& shape) {
  require(shape.ranks >= 1 && shape.ranks <= 64,
          fmt::format("{} ranks: the emulator takes 1 to 64", shape.ranks));
  require(shape.blocks >= 1 && shape.blocks <= 1024,
          fmt::format("{} blocks a rank: the emulator takes 1 to 1024", shape.blocks));
  require(shape.threads >= 1 && shape.threads <= 1024,
          fmt::format("{} threads a block: the emulator takes 1 to 1024", shape.threads));
  require(int64_t{shape.ranks} * shape.blocks * shape.threads <= 32768,
          fmt::format("{} ranks x {} blocks x {} threads: the emulator takes 32768 threads in all",
                      shape.ranks, shape.blocks, shape.threads));
  require(shape.warp_size >= 1 && shape.warp_size <= 32,
          fmt::format("warps of {} threads: the emulator takes 1 to 32", shape.warp_size));
  require(shape.threads <= shape.warp_size || shape.threads % shape.warp_size == 0,
          fmt::format("{} threads are not whole warps of {}", shape.threads, shape.warp_size));
  require(shape.ranks_per_node >= 0 && shape.resident_blocks >= 0, "a count is negative");
  require(
      shape.shared_bytes >= 0 && shape.shared_bytes <= (1 << 20),
      fmt::format("{} bytes of shared memory: the emulator takes up to 1 MiB", shape.shared_bytes));
}

}  // namespace

namespace detail {

void write_host(Allocation& allocation, int rank, size_t offset, const void* value, size_t bytes) {
  require(offset + bytes <= allocation.num_bytes,
          fmt::format("{} has {} bytes, not {}", allocation.name, allocation.num_bytes,
                      offset + bytes));
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
  require(offset + bytes <= allocation.num_bytes,
          fmt::format("{} has {} bytes, not {}", allocation.name, allocation.num_bytes,
                      offset + bytes));
  std::memcpy(value, allocation.copy(rank).bytes.data() + offset, bytes);
}

}  // namespace detail

World::World(const Shape& shape, Schedule schedule) {
  check_shape(shape);
  engine_ = std::make_unique<Engine>(shape, std::move(schedule));
  const auto ranks = static_cast<size_t>(shape.ranks);
  const auto blocks = static_cast<size_t>(shape.blocks);
  engine_->sync_signals =
      symmetric<uint64>("sync_signals", blocks * ranks, 0).at(0).address().allocation;
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
  return engine_->allocate(name, symmetric ? MemoryKind::kSymmetric : MemoryKind::kLocal, size,
                           element_bytes);
}

void World::launch(Kernel kernel) { launch(shape().blocks, shape().threads, std::move(kernel)); }

void World::launch(int blocks, int threads, Kernel kernel) {
  for (int rank = 0; rank < shape().ranks; ++rank) launch_on(rank, 0, blocks, threads, kernel);
}

void World::launch_on(int rank, int stream, int blocks, int threads, Kernel kernel) {
  require(rank >= 0 && rank < shape().ranks, fmt::format("there is no rank {}", rank));
  require(stream >= 0 && stream < 4, fmt::format("stream {}: a rank has streams 0 to 3", stream));
  require(blocks >= 1 && threads >= 1, "a launch needs a block and a thread");
  engine_->queue(rank, stream, blocks, threads, kernel);
}

void World::make_absent(int rank) { engine_->absent.at(static_cast<size_t>(rank)) = true; }

bool World::run() { return engine_->run(); }

void World::expect(bool condition, const std::string& what) {
  if (!condition) engine_->set_finding(FindingKind::kMismatch, what, {}, {});
}

const std::optional<Finding>& World::finding() const { return engine_->finding; }
uint64_t World::num_expired() const { return engine_->num_expired; }
uint64_t World::num_steps() const { return engine_->num_steps; }
const std::vector<Decision>& World::decisions() const { return engine_->chooser.decisions(); }

}  // namespace stretto::fibre
