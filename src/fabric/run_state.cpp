#include "fabric/run_state.h"

#include <cstddef>
#include <cstring>

#include "stretto/error.h"

namespace stretto::fabric {
namespace {

using cuda::check;
using cuda::driver;
using device::RunControl;

// The control has the lines before the counters to itself; the second is the host's.
constexpr size_t kControlBytes = 256, kEndAt = 128;
static_assert(sizeof(RunControl) <= kEndAt);

size_t counter_bytes(uint32_t num_signals) {
  return size_t{num_signals} * device::kSignalStride * sizeof(device::uint64);
}

}  // namespace

RunState::RunState(Fabric& fabric, uint32_t num_signals, uint64_t timeout_ns,
                   const std::string& name)
    : fabric_(fabric),
      num_signals_(num_signals),
      timeout_ns_(timeout_ns),
      name_(name),
      region_(fabric.allocate(kControlBytes + counter_bytes(num_signals), name)) {
  fabric.device(fabric.first_rank()).make_current();
  told_ = cuda::HostWords(static_cast<size_t>(fabric.num_local()));
  for (int i = 0; i < fabric.num_local(); ++i) {
    const int viewer = fabric.first_rank() + i;
    fabric.device(viewer).make_current();
    std::vector<uint64_t> all_counters, all_controls;
    for (int rank = 0; rank < fabric.ranks(); ++rank) {
      all_counters.push_back(counters(rank, viewer));
      all_controls.push_back(region_.address(rank, viewer));
    }
    tables_.push_back({cuda::upload(all_counters), cuda::upload(all_controls)});
  }
  reset();
}

cuda::DevicePtr RunState::counters(int rank, int viewer) const {
  return region_.address(rank, viewer) + kControlBytes;
}

device::SignalSpace RunState::space(int rank) const {
  const Tables& tables = tables_[static_cast<size_t>(rank - fabric_.first_rank())];
  return {reinterpret_cast<RunControl*>(control(rank)),
          reinterpret_cast<device::uint64*>(counters(rank, rank)),
          tables.counters.as<device::uint64*>(),
          tables.controls.as<RunControl*>(),
          nullptr,
          static_cast<uint32_t>(fabric_.ranks()),
          0};
}

// Where `rank`'s copy of the state lies for this process, with a GPU current that reaches it.
cuda::DevicePtr RunState::reach(int rank) const {
  const int viewer = fabric_.is_local(rank) ? rank : fabric_.first_rank();
  fabric_.device(viewer).make_current();
  return region_.address(rank, viewer);
}

void RunState::abort() const {
  const uint32_t abort = 1;
  for (int rank = 0; rank < fabric_.ranks(); ++rank) {
    cuda::copy_to_gpu(reach(rank) + offsetof(RunControl, abort), &abort, sizeof(abort));
  }
}

bool RunState::is_aborted() const {
  for (int i = 0; i < fabric_.num_local(); ++i) {
    uint32_t abort = 0;
    cuda::copy_from_gpu(&abort, reach(fabric_.first_rank() + i) + offsetof(RunControl, abort),
                        sizeof(abort));
    if (abort != 0) return true;
  }
  return false;
}

void RunState::tell_end(int rank, uint64_t n) const {
  cuda::copy_to_gpu(reach(rank) + kEndAt, &n, sizeof(n));
}

std::vector<uint64_t> RunState::ends() const {
  std::vector<uint64_t> all;
  for (int rank = 0; rank < fabric_.ranks(); ++rank) {
    cuda::copy_from_gpu(&all.emplace_back(), reach(rank) + kEndAt, sizeof(uint64_t));
  }
  return all;
}

std::vector<ExpiredWait> RunState::own_expired() const {
  std::vector<ExpiredWait> expired;
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int rank = fabric_.first_rank() + i;
    RunControl now{};
    cuda::copy_from_gpu(&now, reach(rank), sizeof(now));
    if (now.expired_here != 0) expired.push_back({rank, now.error});
  }
  return expired;
}

RunOutcome RunState::collect() {
  std::string mine;
  fabric_.group().together("reading how " + name_ + " ended", [&] {
    for (int i = 0; i < fabric_.num_local(); ++i) {
      const int rank = fabric_.first_rank() + i;
      fabric_.device(rank).make_current();
      RunControl control_now{};
      cuda::copy_from_gpu(&control_now, control(rank), sizeof(control_now));
      mine.append(reinterpret_cast<const char*>(&control_now), sizeof(control_now));
    }
  });
  RunOutcome outcome;
  int rank = 0;
  for (const std::string& of_process : fabric_.group().all_gather("how a run ended", mine)) {
    for (size_t at = 0; at + sizeof(RunControl) <= of_process.size(); at += sizeof(RunControl)) {
      RunControl ended{};
      std::memcpy(&ended, of_process.data() + at, sizeof(ended));
      outcome.aborted = outcome.aborted || ended.abort != 0;
      if (ended.expired_here != 0) outcome.expired.push_back({rank, ended.error});
      ++rank;
    }
  }
  STRETTO_ASSERT(rank == fabric_.ranks(), "every process reports its ranks");
  return outcome;
}

void RunState::reset() {
  fabric_.group().together("resetting " + name_, [&] { clear(); });
}

void RunState::clear() {
  told_.clear();
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int rank = fabric_.first_rank() + i;
    fabric_.device(rank).make_current();
    cuda::Stream stream;
    check(driver().fill_bytes(region_.local(rank), 0, region_.num_bytes(), stream.handle()),
          "reset signals");
    stream.synchronize();
    const RunControl fresh{timeout_ns_, 0, 0, {}, told_.at(static_cast<size_t>(i))};
    cuda::copy_to_gpu(control(rank), &fresh, sizeof(fresh));
  }
}

}  // namespace stretto::fabric
