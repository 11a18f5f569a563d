// Measures a fabric: signals, pushes, an expired wait, a process that dies. One process with all
// GPUs, or one rank of a job under `stretto launch`, torchrun or mpirun.
//
//   fabric_bench --source windows --ranks 2
//   stretto launch -n 2 -- fabric_bench --source windows
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "core/file.h"
#include "cuda/compiler.h"
#include "fabric/job.h"
#include "fabric/run_state.h"
#include "fabric_kernels.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using cuda::check;
using cuda::DevicePtr;
using cuda::driver;
using fabric::Fabric;
using fabric::Region;
using fabric::RunState;
using Json = nlohmann::json;

struct Options {
  std::string source = "windows", json;
  int ranks = 2, blocks = 8, die = -1;
  size_t megabytes = 256;
};

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void* pointer(DevicePtr address) { return reinterpret_cast<void*>(address); }

struct Rank {
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

class Bench {
 public:
  Bench(Fabric& fabric, const Options& options) : fabric_(fabric), options_(options) {
    const cuda::Compiler compiler;
    fabric.group().together("compiling", [&] {
      for_local([&](int rank) {
        ranks_.push_back(std::make_unique<Rank>(fabric.device(rank), compiler));
      });
    });
  }
  ~Bench() {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      driver().context_set(fabric_.local().devices[i]->context());
      ranks_[i].reset();
    }
  }

  // Milliseconds of a collective allocation, the median of several.
  double allocation_ms() {
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      const double before = now_ms();
      const Region region = fabric_.allocate(options_.megabytes << 20, "trial");
      times.push_back(now_ms() - before);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  // Every rank pushes to the next; words that arrive wrong, of all ranks.
  uint64_t wrong_words() {
    const Region from = fabric_.allocate(bytes(), "from"), to = fabric_.allocate(bytes(), "to");
    const Region bad = fabric_.allocate(16, "bad");
    for_local([&](int rank) {
      launch(rank, at(rank).fill,
             {pointer(static_cast<DevicePtr>(rank + 1)), pointer(from.local(rank)), bytes()});
    });
    finish();
    for_local([&](int rank) { push(rank, from, to); });
    finish();
    uint64_t wrong = 0;
    for_local([&](int rank) {
      const int source = (rank + fabric_.ranks() - 1) % fabric_.ranks();
      uint64_t words[2] = {0, static_cast<uint64_t>(source + 1)};
      cuda::copy_to_gpu(bad.local(rank), words, sizeof(words));
      launch(rank, at(rank).differ, {pointer(to.local(rank)), pointer(bad.local(rank)), bytes()});
      at(rank).stream.synchronize();
      cuda::copy_from_gpu(words, bad.local(rank), sizeof(words));
      wrong += words[0];
    });
    return sum(wrong);
  }

  // GB/s out of a GPU: the lowest of the pushing ranks, the median of several.
  double push_rate(bool all_at_once) {
    const Region from = fabric_.allocate(bytes(), "from"), to = fabric_.allocate(bytes(), "to");
    for_local([&](int rank) {
      launch(rank, at(rank).fill,
             {pointer(static_cast<DevicePtr>(rank + 1)), pointer(from.local(rank)), bytes()});
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
        rate = std::min(rate, static_cast<double>(bytes()) / us / 1000);
      });
      for (const std::string& other :
           fabric_.group().all_gather("rates", fmt::format("{}", rate))) {
        rate = std::min(rate, std::stod(other));
      }
      rates.push_back(rate);
    }
    std::sort(rates.begin(), rates.end());
    return rates[rates.size() / 2];
  }

  // Microseconds of a round trip between ranks 0 and 1; bare: of relaxed stores without order.
  double round_trip_us(RunState& state, bool bare = false) {
    constexpr device::uint32 kRounds = 2000;
    restart(state);
    double us = 0;
    for (int trial = 0; trial < 3; ++trial) us = ping(state, kRounds, {0, 1}, bare) / kRounds;
    if (state.collect().aborted) throw SystemError("a ping did not come back");
    return us;
  }

  // NCCL's all-reduce over a rank's own number gives every rank the sum; ranks where it does not.
  uint64_t wrong_sums() {
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

  // Rank 1 stays silent; milliseconds until rank 0 has given up, and what was reported.
  Json silent_peer(RunState& state) {
    restart(state);
    const double before = now_ms();
    ping(state, 3, {0});
    const fabric::RunOutcome outcome = state.collect();
    Json report = {{"ms", now_ms() - before}, {"aborted", outcome.aborted}};
    for (const auto& expired : outcome.expired) {
      report["expired"].push_back(
          fmt::format("rank {} lane {} tile {} signal {}: expected {}, seen {}", expired.rank,
                      expired.error.lane, expired.error.tile, expired.error.signal,
                      expired.error.expected, expired.error.seen));
    }
    restart(state);
    report["round_trip_us_after"] = round_trip_us(state);
    return report;
  }

 private:
  template <typename Visit>
  void for_local(Visit visit) {
    for (int i = 0; i < fabric_.num_local(); ++i) {
      const int rank = fabric_.first_rank() + i;
      fabric_.device(rank).make_current();
      visit(rank);
    }
  }
  Rank& at(int rank) { return *ranks_[static_cast<size_t>(rank - fabric_.first_rank())]; }
  size_t bytes() const { return options_.megabytes << 20; }

  void restart(RunState& state) {
    state.reset();
    for_local([&](int rank) {
      const uint64_t none = 0;
      at(rank).runs.upload(&none, sizeof(none));
    });
  }
  void launch(int rank, const cuda::Kernel& kernel, const PushParams& params) {
    kernel.launch(at(rank).stream, 128, kPushThreads, 1, &params);
  }
  void push(int rank, const Region& from, const Region& to) {
    const int next = (rank + 1) % fabric_.ranks();
    const PushParams params{pointer(from.local(rank)), pointer(to.address(next, rank)), bytes()};
    at(rank).push.launch(at(rank).stream, options_.blocks, kPushThreads, 1, &params);
  }
  // Microseconds on the ranks that play.
  double ping(RunState& state, device::uint32 rounds, const std::vector<int>& players,
              bool bare = false) {
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
  void finish() {
    for_local([&](int rank) { at(rank).stream.synchronize(); });
    fabric_.barrier();
  }
  uint64_t sum(uint64_t mine) {
    uint64_t total = 0;
    for (const std::string& part : fabric_.group().all_gather("a sum", std::to_string(mine))) {
      total += std::stoull(part);
    }
    return total;
  }

  Fabric& fabric_;
  const Options& options_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

int measure(const Options& options) {
  if (!options.json.empty()) check_writable(options.json);  // before the work whose result it is
  const auto source = fabric::source_from(options.source);
  const auto job = fabric::job_from();
  const double before = now_ms();
  const auto fabric = job ? fabric::join(*job, source) : fabric::in_process(options.ranks, source);
  const double join_ms = now_ms() - before;
  if (fabric->ranks() < 2) throw UsageError("a fabric is measured with two ranks or more");
  if (options.die >= 0) {
    if (fabric->is_local(options.die)) kill(getpid(), SIGKILL);
    fabric->barrier();
  }
  Json report = {{"source", options.source},
                 {"ranks", fabric->ranks()},
                 {"started_by", job ? job->started_by : "one process"},
                 {"gpu", fabric->device(fabric->first_rank()).name()},
                 {"nccl", fabric::why_no_nccl().empty() ? fabric::nccl_version() : "none"},
                 {"blocks", options.blocks},
                 {"megabytes", options.megabytes},
                 {"join_ms", join_ms}};
  Bench bench(*fabric, options);
  report["allocation_ms"] = bench.allocation_ms();
  report["wrong_words"] = bench.wrong_words();
  report["push_pair_gbs"] = bench.push_rate(false);
  report["push_all_gbs"] = bench.push_rate(true);
  RunState state(*fabric, 4, 200'000'000, "signals");
  report["round_trip_us"] = bench.round_trip_us(state);
  report["bare_round_trip_us"] = bench.round_trip_us(state, true);
  report["silent_peer"] = bench.silent_peer(state);
  if (fabric::why_no_nccl().empty()) report["wrong_sums"] = bench.wrong_sums();
  if (fabric->first_rank() != 0) return 0;
  fmt::print("{}\n", report.dump());
  if (!options.json.empty()) write_file(options.json, report.dump(2) + "\n");
  return report["wrong_words"] == 0 && report.value("wrong_sums", 0) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  using namespace stretto;
  bench::Options options;
  bench::Arguments arguments("Measures symmetric memory between GPUs");
  arguments.add("--source", options.source, "peer, windows or exported");
  arguments.add("--ranks", options.ranks, "GPUs of one process, without a launcher");
  arguments.add("--blocks", options.blocks, "blocks that push");
  arguments.add("--megabytes", options.megabytes, "pushed at a time");
  arguments.add("--die", options.die, "the rank whose process ends after joining");
  arguments.add("--json", options.json, "file for the report");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  return bench::run_program("fabric_bench", [&] { return bench::measure(options); });
}
