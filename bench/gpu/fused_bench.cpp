// Fused operators from their plans against NCCL + cuBLAS, in one run on the same tensors.
//
//   fused_bench --ranks 2 --ops gemm-rs,ag-gemm --strategies "tiles;tiles,comm-sms=16" --out FILE
//   fused_bench --ranks 2 --ops ag-gemm --shapes 1x256x64,1000x2048x40 --check
//
// With --check nothing is timed: whole numbers, whose sums are exact when K is short, must come out
// exactly, in every one of many runs that ranks begin at random times.
//
// Every result is verified against cuBLAS in fp32 before it is timed. Times are of ten runs in a
// captured graph, the maximum over ranks, medians over rounds in which all contestants take turns.

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "arguments.h"
#include "core/text.h"
#include "cuda/cublas.h"
#include "cuda/test_data.h"
#include "runtime/plan_runner.h"
#include "stretto/error.h"
#include "stretto/lower.h"

namespace stretto::bench {
namespace {

using cuda::DeviceMemory;
using cuda::DevicePtr;
using cuda::Matrix;

constexpr int kRunsPerGraph = 10;
constexpr int kCheckedRuns = 8;

// What every rank has beside the plans: inputs, a result of the library path, the reference.
struct RankState {
  std::unique_ptr<cuda::Stream> stream;
  std::unique_ptr<cuda::TestData> data;
  std::unique_ptr<cuda::Cublas> cublas;
  DeviceMemory a, b, wide, out, reference;
  std::unique_ptr<cuda::Event> start, stop;
};

class FusedBench {
 public:
  FusedBench(int ranks, const Machine& machine, uint64_t timeout_ns)
      : ranks_(ranks),
        machine_(machine),
        timeout_ns_(timeout_ns),
        fabric_(fabric::in_process(ranks)),
        nccl_(fabric_->communicators()),
        states_(static_cast<size_t>(ranks)) {
    each_rank([&](int rank) {
      RankState& mine = states_[static_cast<size_t>(rank)];
      mine.stream = std::make_unique<cuda::Stream>();
      mine.data = std::make_unique<cuda::TestData>(fabric_->device(rank), compiler_);
      mine.cublas = std::make_unique<cuda::Cublas>(*mine.stream);
      mine.start = std::make_unique<cuda::Event>();
      mine.stop = std::make_unique<cuda::Event>();
    });
  }

  std::string machine_name() const { return fabric_->device(0).name(); }

  // Whether all strategies give the exact result.
  bool check(const Operator& op, const std::vector<std::string>& strategies) {
    prepare(op, device::Fill::integers);
    bool right = true;
    for (const std::string& text : strategies) {
      std::string verdict;
      try {
        const Plan plan = lower(op, parse_schedule(text, op, machine_), machine_);
        runtime::PlanRunner runner(plan, *fabric_, compiler_, {timeout_ns_});
        copy_inputs(runner);
        for (int run = 0; run < kCheckedRuns && verdict.empty(); ++run) {
          run_skewed(runner);
          for (int rank = 0; rank < ranks_ && verdict.empty(); ++rank) {
            verdict = first_difference(op, runner, rank);
            if (!verdict.empty()) verdict = fmt::format("run {} {}", run, verdict);
          }
        }
      } catch (const std::exception& error) {
        verdict = error.what();
      }
      fmt::print("{}  {}: {}\n", to_string(op), text, verdict.empty() ? "exact" : verdict);
      right = right && verdict.empty();
    }
    std::fflush(stdout);
    return right;
  }

  nlohmann::json run(const Operator& op, const std::vector<std::string>& strategies) {
    prepare(op, device::Fill::normal);
    // The library path and its parts.
    std::vector<std::unique_ptr<cuda::Graph>> gemm(states_.size()), comm(states_.size()),
        sequential(states_.size());
    each_rank([&](int rank) {
      const RankState& mine = states_[static_cast<size_t>(rank)];
      const auto capture = [&](bool with_gemm, bool with_comm) {
        return std::make_unique<cuda::Graph>(*mine.stream, [&] {
          for (int i = 0; i < kRunsPerGraph; ++i) library_run(op, rank, with_gemm, with_comm);
        });
      };
      library_run(op, rank, true, true);  // NCCL sets up on first use
      mine.stream->synchronize();
      gemm[static_cast<size_t>(rank)] = capture(true, false);
      comm[static_cast<size_t>(rank)] = capture(false, true);
      sequential[static_cast<size_t>(rank)] = capture(true, true);
    });

    struct Contestant {
      std::string name;
      std::unique_ptr<Plan> plan;
      std::unique_ptr<runtime::PlanRunner> runner;
      std::vector<std::unique_ptr<cuda::Graph>> graphs;
      std::vector<double> times;
      double error = 0;
    };
    std::vector<Contestant> contestants;
    for (const std::string& text : strategies) {
      Contestant one;
      one.name = text;
      try {
        one.plan = std::make_unique<Plan>(lower(op, parse_schedule(text, op, machine_), machine_));
        one.runner = std::make_unique<runtime::PlanRunner>(*one.plan, *fabric_, compiler_,
                                                           runtime::RunnerOptions{timeout_ns_});
        one.error = verify(op, *one.runner);
      } catch (const std::exception& error) {
        fmt::print("  {}: {}\n", text, error.what());
        continue;
      }
      one.graphs.resize(states_.size());
      for (int rank = 0; rank < ranks_; ++rank) {
        fabric_->device(rank).make_current();
        one.graphs[static_cast<size_t>(rank)] =
            std::make_unique<cuda::Graph>(one.runner->stream(rank), [&] {
              for (int i = 0; i < kRunsPerGraph; ++i) one.runner->enqueue(rank);
            });
      }
      contestants.push_back(std::move(one));
    }

    std::vector<double> gemm_times, comm_times, sequential_times;
    for (int round = 0; round < 11; ++round) {
      gemm_times.push_back(time_us(gemm, nullptr));
      comm_times.push_back(time_us(comm, nullptr));
      sequential_times.push_back(time_us(sequential, nullptr));
      for (Contestant& one : contestants) {
        one.times.push_back(time_us(one.graphs, one.runner.get()));
        one.runner->finish();
      }
    }
    const double gemm_us = median(gemm_times), sequential_us = median(sequential_times);
    const double floor_us = std::max(gemm_us, link_bytes(op) / 320e3);
    fmt::print("{}  gemm {:.1f}  nccl {:.1f}  seq {:.1f}  floor {:.1f}\n", to_string(op), gemm_us,
               median(comm_times), sequential_us, floor_us);
    nlohmann::json rows = nlohmann::json::array();
    for (Contestant& one : contestants) {
      const double us = median(one.times);
      // After the timed runs the result must still be right.
      const double error = std::max(one.error, check_outputs(op, *one.runner));
      fmt::print("    {:40} {:8.1f} us  {:.2f}x seq  {:.3f} of floor  err {:.1e}\n", one.name, us,
                 sequential_us / us, floor_us / us, error);
      rows.push_back({{"strategy", one.name},
                      {"schedule", one.plan->schedule},
                      {"time_us", us},
                      {"low_us", *std::min_element(one.times.begin(), one.times.end())},
                      {"high_us", *std::max_element(one.times.begin(), one.times.end())},
                      {"error", error}});
    }
    std::fflush(stdout);
    return {{"operator", to_string(op)},     {"gemm_us", gemm_us},
            {"nccl_us", median(comm_times)}, {"sequential_us", sequential_us},
            {"floor_us", floor_us},          {"strategies", rows}};
  }

 private:
  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  // Runs on a thread a rank, its GPU current; rethrows the first failure.
  void each_rank(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> failures(states_.size());
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          fabric_->device(rank).make_current();
          work(rank);
        } catch (...) {
          failures[static_cast<size_t>(rank)] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  Matrix a_of(const Operator& op, int rank) const {
    const RankState& mine = states_[static_cast<size_t>(rank)];
    const int64_t rows = op.reduces() ? op.m : op.row_shards().size(rank);
    return {mine.a.address(), rows, op.local_k(), op.local_k(), op.dtype};
  }
  Matrix b_of(const Operator& op, int rank) const {
    return {states_[static_cast<size_t>(rank)].b.address(), op.local_n(), op.local_k(),
            op.local_k(), op.dtype};
  }
  int64_t out_rows(const Operator& op, int rank) const {
    return op.kind == OpKind::gemm_rs ? op.row_shards().size(rank) : op.m;
  }

  void prepare(const Operator& op, device::Fill fill) {
    const auto bytes = [](int64_t rows, int64_t columns, int64_t size) {
      return static_cast<size_t>(rows * columns * size);
    };
    for (int rank = 0; rank < ranks_; ++rank) {
      fabric_->device(rank).make_current();
      RankState& mine = states_[static_cast<size_t>(rank)];
      const int64_t a_rows = op.reduces() ? op.m : op.row_shards().block();
      mine.a = DeviceMemory(bytes(a_rows, op.local_k(), 2));
      mine.b = DeviceMemory(bytes(op.local_n(), op.local_k(), 2));
      // NCCL gathers and scatters shards of equal size.
      mine.wide =
          DeviceMemory(bytes(op.row_shards().block() * ranks_, op.reduces() ? op.n : op.k, 2));
      mine.out = DeviceMemory(bytes(op.m, op.local_n(), 2));
      mine.reference = DeviceMemory(bytes(out_rows(op, rank), op.local_n(), 4));
      const auto seed = static_cast<uint64_t>(rank) * 2;
      mine.data->fill(*mine.stream, mine.a.address(), a_rows * op.local_k(), op.dtype, fill,
                      seed + 1);
      mine.data->fill(*mine.stream, mine.b.address(), op.local_n() * op.local_k(), op.dtype, fill,
                      seed + 2);
      mine.stream->synchronize();
    }
    for (int rank = 0; rank < ranks_; ++rank) make_reference(op, rank);
  }

  // In fp32 on the rank's own GPU, from copies of its peers' inputs.
  void make_reference(const Operator& op, int rank) {
    fabric_->device(rank).make_current();
    RankState& mine = states_[static_cast<size_t>(rank)];
    for (int source = 0; source < ranks_; ++source) {
      Matrix a = a_of(op, source), b = b_of(op, op.reduces() ? source : rank);
      Matrix to{mine.reference.address(), 0, op.local_n(), op.local_n(), DType::fp32};
      if (op.kind == OpKind::gemm_rs) {
        a.rows = op.row_shards().size(rank);
        a.address += static_cast<uint64_t>(op.row_shards().begin(rank) * a.columns * 2);
      } else if (op.kind == OpKind::ag_gemm) {
        to.address += static_cast<uint64_t>(op.row_shards().begin(source) * op.local_n() * 4);
      }
      if (a.rows == 0) continue;
      to.rows = a.rows;
      const DeviceMemory a_copy(static_cast<size_t>(a.rows * a.columns * 2));
      const DeviceMemory b_copy(static_cast<size_t>(b.rows * b.columns * 2));
      const auto copy = [&](const DeviceMemory& memory, Matrix& matrix) {
        cuda::check(cuda::driver().copy_async(memory.address(), matrix.address, memory.num_bytes(),
                                              mine.stream->handle()),
                    "copy an input");
        matrix.address = memory.address();
      };
      copy(a_copy, a);
      copy(b_copy, b);
      mine.cublas->multiply(a, b, to, op.reduces() && source > 0);
      mine.stream->synchronize();
    }
  }

  void library_run(const Operator& op, int rank, bool with_gemm, bool with_comm) {
    const RankState& mine = states_[static_cast<size_t>(rank)];
    const Matrix b = b_of(op, rank);
    if (op.kind == OpKind::ag_gemm) {
      const int64_t block = op.row_shards().block();
      if (with_comm) {
        nccl_.all_gather(rank, *mine.stream, mine.a.address(), mine.wide.address(), block * op.k,
                         op.dtype);
      }
      const Matrix all{mine.wide.address(), op.m, op.k, op.k, op.dtype};
      if (with_gemm) {
        mine.cublas->multiply(all, b, {mine.out.address(), op.m, b.rows, b.rows, op.dtype});
      }
      return;
    }
    const Matrix part{mine.wide.address(), op.m, op.n, op.n, op.dtype};
    if (with_gemm) mine.cublas->multiply(a_of(op, rank), b, part);
    if (!with_comm) return;
    if (op.kind == OpKind::gemm_rs) {
      nccl_.reduce_scatter(rank, *mine.stream, part.address, mine.out.address(),
                           op.row_shards().block() * op.n, op.dtype);
    } else {
      nccl_.all_reduce(rank, *mine.stream, part.address, part.address, op.m * op.n, op.dtype);
    }
  }

  void copy_inputs(const runtime::PlanRunner& runner) {
    for (int rank = 0; rank < ranks_; ++rank) {
      fabric_->device(rank).make_current();
      const RankState& mine = states_[static_cast<size_t>(rank)];
      const auto copy = [&](const char* name, const DeviceMemory& from) {
        cuda::check(cuda::driver().copy_async(runner.buffer(name, rank), from.address(),
                                              from.num_bytes(), runner.stream(rank).handle()),
                    "copy an input");
      };
      copy("a", mine.a);
      copy("b", mine.b);
      runner.stream(rank).synchronize();
    }
  }

  // Two runs in a row, which ranks begin in random order up to a millisecond apart.
  void run_skewed(runtime::PlanRunner& runner) {
    std::vector<int> order(states_.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (const int rank : order) {
      fabric_->device(rank).make_current();
      runner.enqueue(rank);
      runner.enqueue(rank);
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 1000));
    }
    runner.finish();
  }

  double verify(const Operator& op, runtime::PlanRunner& runner) {
    copy_inputs(runner);
    double worst = 0;
    for (int run = 0; run < 3; ++run) {
      run_skewed(runner);
      worst = std::max(worst, check_outputs(op, runner));
    }
    return worst;
  }

  // Where a rank's output is not the reference rounded once; empty when nowhere. Poisons it.
  std::string first_difference(const Operator& op, const runtime::PlanRunner& runner, int rank) {
    const int64_t rows = out_rows(op, rank), columns = op.local_n();
    if (rows == 0) return "";
    fabric_->device(rank).make_current();
    const RankState& mine = states_[static_cast<size_t>(rank)];
    const DevicePtr out = runner.buffer("out", rank);
    const auto count = static_cast<size_t>(rows * columns);
    const device::Comparison found = mine.data->compare(
        *mine.stream, out, op.dtype, mine.reference.address(), static_cast<int64_t>(count));
    std::string where;
    if (found.differing != 0) {
      std::vector<uint16_t> values(count);
      std::vector<float> reference(count);
      cuda::check(cuda::driver().copy_to_host(values.data(), out, count * 2), "copy a result");
      mine.reference.download(reference.data(), count * 4);
      int64_t row0 = rows, row1 = 0, col0 = columns, col1 = 0;
      for (size_t i = 0; i < count; ++i) {
        const float value = std::bit_cast<float>(uint32_t{values[i]} << 16);
        if (std::abs(value - reference[i]) <= std::abs(reference[i]) / 256) continue;
        const auto row = static_cast<int64_t>(i) / columns, col = static_cast<int64_t>(i) % columns;
        row0 = std::min(row0, row), row1 = std::max(row1, row + 1);
        col0 = std::min(col0, col), col1 = std::max(col1, col + 1);
      }
      where = fmt::format("rank {}: {} wrong ({} not finite) in rows {}-{} columns {}-{}", rank,
                          found.differing, found.not_finite, row0, row1, col0, col1);
    }
    cuda::check(cuda::driver().fill_bytes(out, 0xff, count * 2, mine.stream->handle()), "poison");
    mine.stream->synchronize();
    return where;
  }

  double check_outputs(const Operator& op, const runtime::PlanRunner& runner) {
    double worst = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      fabric_->device(rank).make_current();
      const RankState& mine = states_[static_cast<size_t>(rank)];
      const int64_t count = out_rows(op, rank) * op.local_n();
      if (count == 0) continue;
      const DevicePtr out = runner.buffer("out", rank);
      worst = std::max(worst, cuda::relative_error(mine.data->compare(
                                  *mine.stream, out, op.dtype, mine.reference.address(), count)));
      cuda::check(cuda::driver().fill_bytes(out, 0xff, static_cast<size_t>(count * 2),
                                            mine.stream->handle()),
                  "poison");
      mine.stream->synchronize();
    }
    return worst;
  }

  // The longest rank's time a run. Graphs of a runner go to its streams, others to the ranks' own.
  double time_us(const std::vector<std::unique_ptr<cuda::Graph>>& graphs,
                 const runtime::PlanRunner* runner) {
    std::vector<double> times(states_.size());
    std::barrier together(ranks_);
    each_rank([&](int rank) {
      const auto index = static_cast<size_t>(rank);
      const RankState& mine = states_[index];
      const cuda::Stream& stream = runner == nullptr ? *mine.stream : runner->stream(rank);
      together.arrive_and_wait();
      mine.start->record(stream);
      graphs[index]->launch(stream);
      mine.stop->record(stream);
      stream.synchronize();
      times[index] = mine.stop->elapsed_us_since(*mine.start) / kRunsPerGraph;
    });
    return *std::max_element(times.begin(), times.end());
  }

  int ranks_;
  Machine machine_;
  uint64_t timeout_ns_;
  std::unique_ptr<fabric::Fabric> fabric_;
  cuda::Compiler compiler_;
  const fabric::Communicators& nccl_;
  std::vector<RankState> states_;
  std::minstd_rand random_;
};

int main_checked(int argc, char** argv) {
  Arguments arguments("Fused operators against NCCL + cuBLAS");
  std::string out, commit, date, machine_name = "h200x8", strategies = "tiles";
  std::vector<std::string> ops = {"gemm-rs"}, shapes = {"4096x8192x8192"};
  int ranks = 2;
  arguments.add("--ranks", ranks, "GPUs");
  arguments.add("--ops", ops, "operators");
  arguments.add("--shapes", shapes, "MxNxK, global");
  arguments.add("--strategies", strategies, "schedules, separated by ';'");
  bool only_check = false;
  arguments.add("--check", only_check, "verify exactly instead of timing");
  arguments.add("--machine", machine_name, "the machine that plans are made for");
  arguments.add("--out", out, "JSON file for the results");
  arguments.add("--commit", commit, "recorded with the results");
  arguments.add("--date", date, "recorded with the results");
  if (const auto code = arguments.parse(argc, argv)) return *code;

  std::vector<std::string> texts;
  for (const std::string_view part : split(strategies, ';')) texts.emplace_back(part);
  FusedBench bench(ranks, load_machine(machine_name), 2'000'000'000);
  nlohmann::json rows = nlohmann::json::array();
  bool right = true;
  for (const std::string& name : ops) {
    for (const std::string& shape : shapes) {
      const auto sizes = split(shape, 'x');
      if (sizes.size() != 3) throw UsageError("a shape is MxNxK, not '" + shape + "'");
      const Operator op = parse_operator(fmt::format("{} m={} n={} k={} ranks={} dtype=bf16", name,
                                                     sizes[0], sizes[1], sizes[2], ranks));
      if (only_check) {
        right = bench.check(op, texts) && right;
      } else {
        rows.push_back(bench.run(op, texts));
      }
    }
  }
  if (only_check) return right ? 0 : 1;
  if (!out.empty()) {
    std::ofstream(out) << nlohmann::json{{"benchmark", "fused"},
                                         {"machine", bench.machine_name()},
                                         {"ranks", ranks},
                                         {"commit", commit},
                                         {"date", date},
                                         {"runs_per_graph", kRunsPerGraph},
                                         {"data", "standard normal"},
                                         {"rows", rows}}
                              .dump(1)
                       << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  try {
    return stretto::bench::main_checked(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "fused_bench: {}\n", error.what());
    return 3;
  }
}
