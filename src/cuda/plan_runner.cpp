#include "cuda/plan_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::RunControl;

constexpr int kMoverThreads = device::kMoverThreads;
constexpr const char* kMoverSource = R"(#include "stretto/device/mover.h"
using namespace stretto::device;
extern "C" __global__ void __launch_bounds__(kMoverThreads, 1)
stretto_mover(const __grid_constant__ MoverParams params) {
  run_mover(params);
}
extern "C" __global__ void stretto_advance(RunControl* control) { advance_epoch(control); }
)";

template <typename T>
std::vector<uint32_t> flatten(const std::vector<std::vector<T>>& lists, std::vector<T>& flat) {
  std::vector<uint32_t> first;
  for (const std::vector<T>& list : lists) {
    first.push_back(static_cast<uint32_t>(flat.size()));
    flat.insert(flat.end(), list.begin(), list.end());
  }
  first.push_back(static_cast<uint32_t>(flat.size()));
  return first;
}

// A mover table in GPU memory.
struct DeviceMoverTable {
  DeviceMemory first_task, tasks, waits, notifies, regions;
  device::MoverParams params{};
  int num_blocks = 0;

  DeviceMoverTable(const MoverTable& table, const device::SignalSpace& signals)
      : num_blocks(static_cast<int>(table.blocks.size())) {
    std::vector<device::MoverTask> all_tasks;
    std::vector<device::MoverRegion> all_regions;
    first_task = upload(flatten(table.blocks, all_tasks));
    flatten(table.regions, all_regions);
    tasks = upload(all_tasks);
    waits = upload(table.waits);
    notifies = upload(table.notifies);
    regions = upload(all_regions);
    params = {first_task.as<uint32_t>(),
              tasks.as<device::MoverTask>(),
              waits.as<device::WaitEntry>(),
              notifies.as<device::NotifyEntry>(),
              regions.as<device::MoverRegion>(),
              signals,
              static_cast<uint32_t>(table.regions[0].size()),
              static_cast<uint32_t>(table.regions.size())};
  }
};

}  // namespace

PeerGroup::PeerGroup(int ranks) {
  driver();
  if (num_devices() < ranks) {
    throw SystemError(
        fmt::format("{} ranks need {} GPUs: this machine has {}", ranks, ranks, num_devices()));
  }
  for (int rank = 0; rank < ranks; ++rank) devices_.push_back(std::make_unique<Device>(rank));
  for (int rank = 0; rank < ranks; ++rank) {
    device(rank).make_current();
    if (device(rank).name() != device(0).name()) {
      throw SystemError(
          fmt::format("mixed GPUs: {} and {}", device(0).name(), device(rank).name()));
    }
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      int can = 0;
      check(driver().can_access_peer(&can, rank, peer), "ask for peer access");
      if (can == 0) throw SystemError(fmt::format("GPU {} cannot reach GPU {}", rank, peer));
      constexpr Result kAlreadyEnabled = 704;
      const Result result = driver().enable_peer(device(peer).context(), 0);
      if (result != kAlreadyEnabled) check(result, "enable peer access");
    }
  }
}

struct PlanRunner::Rank {
  std::vector<std::vector<DeviceMemory>> buffers;  // [buffer][copy]
  DeviceMemory counters, control, all_counters, all_controls;
  std::unique_ptr<DeviceGemmTable> gemm_table;
  std::unique_ptr<DeviceMoverTable> mover_table, tail_table;
  std::unique_ptr<GemmKernel> gemm;
  std::unique_ptr<Kernel> mover, advance;
  Stream main, side;
  Event fork, join;
};

PlanRunner::PlanRunner(const Plan& plan, const PeerGroup& group, const Compiler& compiler,
                       uint64_t timeout_ns)
    : plan_(plan), group_(group), signals_(plan), timeout_ns_(timeout_ns) {
  if (const auto reasons = why_not_on_cuda(plan); !reasons.empty()) {
    throw UsageError(fmt::format("this plan cannot run on GPUs: {}", fmt::join(reasons, "; ")));
  }
  STRETTO_ASSERT(group.ranks() >= plan.ranks(), "a GPU for every rank");
  BufferPlaces places;
  std::vector<uint64_t> counters, controls;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    group.device(rank).make_current();
    Rank& mine = *ranks_.emplace_back(std::make_unique<Rank>());
    places.emplace_back();
    for (const Buffer& buffer : plan.buffers) {
      const size_t bytes = static_cast<size_t>(buffer.rows) * static_cast<size_t>(buffer.cols) *
                           static_cast<size_t>(num_bytes(buffer.dtype));
      mine.buffers.emplace_back();
      places.back().emplace_back();
      for (int copy = 0; copy < buffer.copies; ++copy) {
        const DeviceMemory& memory = mine.buffers.back().emplace_back(bytes);
        check(driver().fill_bytes(memory.address(), 0xff, bytes, mine.main.handle()), "poison");
        places.back().back().push_back(memory.address());
      }
    }
    mine.counters = DeviceMemory((signals_.num_signals + 1) * device::kSignalStride * 8);
    mine.control = DeviceMemory(sizeof(RunControl));
    counters.push_back(mine.counters.address());
    controls.push_back(mine.control.address());
  }
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const Device& device = group.device(rank);
    device.make_current();
    Rank& mine = *ranks_[static_cast<size_t>(rank)];
    mine.all_counters = upload(counters);
    mine.all_controls = upload(controls);
    const device::SignalSpace space{
        mine.control.as<RunControl>(),           mine.counters.as<device::uint64>(),
        mine.all_counters.as<device::uint64*>(), mine.all_controls.as<RunControl*>(),
        static_cast<uint32_t>(plan.ranks()),     0};
    const RankTables tables = tables_for(plan, rank, places, signals_);
    if (!tables.gemm.blocks.empty()) {
      mine.gemm_table = std::make_unique<DeviceGemmTable>(tables.gemm, space);
      mine.gemm = std::make_unique<GemmKernel>(device, compiler, tables.config);
    }
    if (!tables.mover.blocks.empty()) {
      mine.mover_table = std::make_unique<DeviceMoverTable>(tables.mover, space);
    }
    if (!tables.tail.blocks.empty()) {
      mine.tail_table = std::make_unique<DeviceMoverTable>(tables.tail, space);
    }
    const std::string cubin = compiler.compile(kMoverSource, device.arch()).cubin;
    mine.mover = std::make_unique<Kernel>(cubin, "stretto_mover", device::kMoverSharedBytes);
    mine.advance = std::make_unique<Kernel>(cubin, "stretto_advance", 0);
  }
  reset_signals();
}

PlanRunner::~PlanRunner() {
  // Owners free their memory on the GPU it lies on.
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    driver().context_set(group_.device(static_cast<int>(rank)).context());
    ranks_[rank].reset();
  }
}

DevicePtr PlanRunner::buffer(std::string_view name, int rank) const {
  const auto index = plan_.find_buffer(name);
  STRETTO_ASSERT(index.has_value(), "the plan has this buffer");
  return ranks_[static_cast<size_t>(rank)]->buffers[*index][0].address();
}

const Stream& PlanRunner::stream(int rank) const { return ranks_[static_cast<size_t>(rank)]->main; }

void PlanRunner::enqueue(int rank) {
  Rank& mine = *ranks_[static_cast<size_t>(rank)];
  if (mine.mover_table) {
    // First, so that movers have their SMs before the GEMM takes the others.
    mine.fork.record(mine.main);
    mine.side.wait(mine.fork);
    mine.mover->launch(mine.side, mine.mover_table->num_blocks, kMoverThreads, 1,
                       &mine.mover_table->params);
    mine.join.record(mine.side);
  }
  if (mine.gemm) {
    mine.gemm->launch(mine.main, mine.gemm_table->num_blocks(), mine.gemm_table->params());
  }
  if (mine.tail_table) {
    mine.mover->launch(mine.main, mine.tail_table->num_blocks, kMoverThreads, 1,
                       &mine.tail_table->params);
  }
  if (mine.mover_table) mine.main.wait(mine.join);
  const DevicePtr control = mine.control.address();
  mine.advance->launch(mine.main, 1, 1, 1, &control);
}

void PlanRunner::finish() {
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    group_.device(rank).make_current();
    stream(rank).synchronize();
  }
  std::string problem;
  bool aborted = false;
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    RunControl control{};
    ranks_[static_cast<size_t>(rank)]->control.download(&control, sizeof(control));
    aborted = aborted || control.abort != 0;
    if (control.expired_here != 0 && problem.empty()) {
      problem = describe_error(rank, control.error);
    }
  }
  if (!aborted) return;
  reset_signals();
  throw SystemError(problem);
}

void PlanRunner::reset_signals() {
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    group_.device(rank).make_current();
    Rank& mine = *ranks_[static_cast<size_t>(rank)];
    check(driver().fill_bytes(mine.counters.address(), 0, mine.counters.num_bytes(),
                              mine.main.handle()),
          "reset signals");
    const RunControl control{0, timeout_ns_, 0, 0, {}};
    mine.main.synchronize();
    mine.control.upload(&control, sizeof(control));
  }
}

std::string PlanRunner::describe_error(int rank, const device::WaitError& error) const {
  const bool moves = (error.lane & device::kMoverLane) != 0;
  return fmt::format("rank {}: {} lane {} waited {} ms before tile {} for {}: expected {}, seen {}",
                     rank, moves ? "comm" : "compute", error.lane & ~device::kMoverLane,
                     timeout_ns_ / 1'000'000, static_cast<int32_t>(error.tile),
                     signals_.name_of(plan_, error.signal), error.expected, error.seen);
}

}  // namespace stretto::cuda
