#include "fabric_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "gpu/compiler.h"
#include "stretto/error.h"

namespace stretto::bench {

using cuda::DevicePtr;
using cuda::driver;
using fabric::Fabric;
using fabric::Region;
using fabric::RunState;

namespace {

void* pointer(DevicePtr address) { return reinterpret_cast<void*>(address); }

}  // namespace

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct FabricTrials::Rank {
  Rank(const cuda::Device& device, const cuda::Compiler& compiler)
      : cubin(compiler.compile(kFabricSource, device.arch()).cubin),
        ping(cubin, "ping", 0),
        push(cubin, "push", 0),
        fill(cubin, "fill", 0),
        differ(cubin, "differ", 0),
        runs(cuda::upload(std::vector<uint64_t>{0})) {}
  std::string cubin;
  cuda::Kernel ping, push, fill, differ;
  cuda::DeviceMemory runs;  // of ping
  cuda::Stream stream;
  cuda::Event start, end;
};

FabricTrials::FabricTrials(Fabric& fabric, int blocks, size_t num_bytes)
    : fabric_(fabric), blocks_(blocks), num_bytes_(num_bytes) {
  const cuda::Compiler compiler;
  fabric.group().together("compiling", [&] {
    for_local(
        [&](int rank) { ranks_.push_back(std::make_unique<Rank>(fabric.device(rank), compiler)); });
  });
}

FabricTrials::~FabricTrials() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    driver().context_set(fabric_.local().devices[i]->context());
    ranks_[i].reset();
  }
}

double FabricTrials::allocation_ms() {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const double before = now_ms();
    const Region region = fabric_.allocate(num_bytes_, "trial");
    times.push_back(now_ms() - before);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

uint64_t FabricTrials::wrong_words() {
  const Region from = fabric_.allocate(num_bytes_, "from"), to = fabric_.allocate(num_bytes_, "to");
  const Region bad = fabric_.allocate(16, "bad");
  for_local([&](int rank) {
    launch(rank, at(rank).fill,
           {pointer(static_cast<DevicePtr>(rank + 1)), pointer(from.local(rank)), num_bytes_});
  });
  finish();
  for_local([&](int rank) { push(rank, from, to); });
  finish();
  uint64_t wrong = 0;
  for_local([&](int rank) {
    const int source = (rank + fabric_.ranks() - 1) % fabric_.ranks();
    uint64_t words[2] = {0, static_cast<uint64_t>(source + 1)};
    cuda::copy_to_gpu(bad.local(rank), words, sizeof(words));
    launch(rank, at(rank).differ, {pointer(to.local(rank)), pointer(bad.local(rank)), num_bytes_});
    at(rank).stream.synchronize();
    cuda::copy_from_gpu(words, bad.local(rank), sizeof(words));
    wrong += words[0];
  });
  return sum(wrong);
}

double FabricTrials::push_rate(bool all_at_once) {
  const Region from = fabric_.allocate(num_bytes_, "from"), to = fabric_.allocate(num_bytes_, "to");
  for_local([&](int rank) {
    launch(rank, at(rank).fill,
           {pointer(static_cast<DevicePtr>(rank + 1)), pointer(from.local(rank)), num_bytes_});
  });
  std::vector<double> rates;
  for (int trial = 0; trial < 7; ++trial) {
    constexpr int kRepeats = 5;
    finish();
    double rate = 1e9;
    for_local([&](int rank) {
      if (!all_at_once && rank != 0) return;
      at(rank).start.record(at(rank).stream);
      for (int i = 0; i < kRepeats; ++i) push(rank, from, to);
      at(rank).end.record(at(rank).stream);
    });
    for_local([&](int rank) {
      if (!all_at_once && rank != 0) return;
      at(rank).stream.synchronize();
      const double us = at(rank).end.elapsed_us_since(at(rank).start) / kRepeats;
      rate = std::min(rate, static_cast<double>(num_bytes_) / us / 1000);
    });
    for (const std::string& other : fabric_.group().all_gather("rates", fmt::format("{}", rate))) {
      rate = std::min(rate, std::stod(other));
    }
    rates.push_back(rate);
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

double FabricTrials::round_trip_us(RunState& state, bool bare) {
  constexpr device::uint32 kRounds = 2000;
  restart(state);
  double us = 0;
  for (int trial = 0; trial < 3; ++trial) us = ping(state, kRounds, {0, 1}, bare) / kRounds;
  if (state.collect().aborted) throw SystemError("a ping did not come back");
  return us;
}

uint64_t FabricTrials::wrong_sums() {
  fabric::Communicators& communicators = fabric_.communicators();
  const Region numbers = fabric_.allocate(sizeof(float), "numbers");
  for_local([&](int rank) {
    const float mine = static_cast<float>(rank + 1);
    cuda::copy_to_gpu(numbers.local(rank), &mine, sizeof(mine));
  });
  // One thread enqueues for all its ranks, which NCCL wants to be told.
  fabric::check_nccl(fabric::nccl().group_start(), "start a group");
  for_local([&](int rank) {
    communicators.all_reduce(rank, at(rank).stream, numbers.local(rank), numbers.local(rank), 1,
                             DType::fp32);
  });
  fabric::check_nccl(fabric::nccl().group_end(), "end a group");
  uint64_t wrong = 0;
  for_local([&](int rank) {
    at(rank).stream.synchronize();
    float total = 0;
    cuda::copy_from_gpu(&total, numbers.local(rank), sizeof(total));
    if (total != static_cast<float>(fabric_.ranks() * (fabric_.ranks() + 1) / 2)) ++wrong;
  });
  return sum(wrong);
}

Json FabricTrials::silent_peer(RunState& state) {
  restart(state);
  const double before = now_ms();
  ping(state, 3, {0});
  const fabric::RunOutcome outcome = state.collect();
  Json report = {{"ms", now_ms() - before}, {"aborted", outcome.aborted}};
  for (const auto& expired : outcome.expired) {
    report["expired"].push_back(fmt::format(
        "rank {} lane {} tile {} signal {}: expected {}, seen {}", expired.rank, expired.error.lane,
        expired.error.tile, expired.error.signal, expired.error.expected, expired.error.seen));
  }
  restart(state);
  report["round_trip_us_after"] = round_trip_us(state);
  return report;
}

void FabricTrials::restart(RunState& state) {
  state.reset();
  for_local([&](int rank) {
    const uint64_t none = 0;
    at(rank).runs.upload(&none, sizeof(none));
  });
}

void FabricTrials::launch(int rank, const cuda::Kernel& kernel, const PushParams& params) {
  kernel.launch(at(rank).stream, 128, kPushThreads, 1, &params);
}

void FabricTrials::push(int rank, const Region& from, const Region& to) {
  const int next = (rank + 1) % fabric_.ranks();
  const PushParams params{pointer(from.local(rank)), pointer(to.address(next, rank)), num_bytes_};
  at(rank).push.launch(at(rank).stream, blocks_, kPushThreads, 1, &params);
}

double FabricTrials::ping(RunState& state, device::uint32 rounds, const std::vector<int>& players,
                          bool bare) {
  finish();
  double us = 0;
  const auto plays = [&](int rank) {
    return std::find(players.begin(), players.end(), rank) != players.end();
  };
  for_local([&](int rank) {
    if (!plays(rank)) return;
    PingParams params{state.space(rank), static_cast<device::uint32>(rank),
                      static_cast<device::uint32>(1 - rank), rounds, bare ? 1u : 0u};
    params.space.runs = at(rank).runs.as<device::uint64>();
    at(rank).start.record(at(rank).stream);
    at(rank).ping.launch(at(rank).stream, 1, 1, 1, &params);
    at(rank).end.record(at(rank).stream);
  });
  for_local([&](int rank) {
    at(rank).stream.synchronize();
    if (plays(rank)) us = at(rank).end.elapsed_us_since(at(rank).start);
  });
  return us;
}

void FabricTrials::finish() {
  for_local([&](int rank) { at(rank).stream.synchronize(); });
  fabric_.barrier();
}

uint64_t FabricTrials::sum(uint64_t mine) {
  uint64_t total = 0;
  for (const std::string& part : fabric_.group().all_gather("a sum", std::to_string(mine))) {
    total += std::stoull(part);
  }
  return total;
}

}  // namespace stretto::bench
