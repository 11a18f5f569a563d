// Runs of operations that take turns, in captured graphs, with ranks that start and go apart at
// random: every result has the bits of the first such run. Inputs change from run to run, so that
// what is read too early or too late is seen.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fabric/fabric.h"
#include "gpu/device.h"
#include "gpu/graph.h"
#include "gpu/sync_kernels.h"
#include "gpu/test_data.h"
#include "serve/operation_on_memory.h"
#include "stretto/error.h"
#include "stretto/reference.h"

namespace stretto::bench {

// Three sets of inputs, since buffers alternate between two copies: data of either copy's run
// before are others. A graph runs each plan, of all rows and of fewer, with each set on both
// copies.
inline constexpr int kSets = 3, kRounds = 4 * kSets;
// Graphs of a rank do the same with other delays.
inline constexpr int kGraphs = 8;
inline constexpr int kMostDelayNs = 20'000, kMostStartUs = 30;
inline constexpr size_t kElementBytes = 2;

// One operation of one rank.
struct Part {
  GpuAddress a = 0, out = 0;
  std::vector<cuda::DeviceMemory> sets;  // of A
  size_t out_bytes = 0;
};

struct Rank {
  std::vector<Part> parts;  // by operation
  cuda::DeviceMemory results;
  std::unique_ptr<cuda::SyncKernels> kernels;
  std::vector<std::unique_ptr<cuda::Graph>> graphs;
  std::vector<char> expected, seen;
  int64_t wrong_launches = 0;
};

class Soak {
 public:
  Soak(int ranks, int64_t rows, int64_t n, int64_t k, const std::vector<std::string>& schedules,
       uint64_t seed, int timeout_s)
      : context_(ranks, timeout_s), fabric_(fabric::in_process(ranks)), rows_(rows), seed_(seed) {
    for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
      for (const std::string& schedule : schedules) add(kind, n, k, schedule + ",rows=bucket");
    }
    if (operations_.empty()) throw UsageError("no schedule serves these sizes; take larger ones");
    ranks_.resize(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) set_up(rank);
    say("runs one by one");
    each_rank([&](int rank) { run_eagerly(rank); });
    finish();
    say("captures graphs");
    for (int rank = 0; rank < ranks; ++rank) capture(rank);
    // The first shows what the last leaves behind; from the second on all are alike.
    for (int launch = 0; launch < 2; ++launch) {
      each_rank([&](int rank) { launch_one(rank, 0); });
      finish();
    }
    for (Rank& rank : ranks_) rank.expected = rank.seen;
    require_sets_to_differ();
  }

  int64_t runs_a_launch() const { return kRounds * static_cast<int64_t>(operations_.size()); }

  void run(int64_t launches) {
    const int64_t tenth = (launches + 9) / 10;
    each_rank([&](int rank) {
      std::mt19937_64 random(seed_ * 1000 + static_cast<uint64_t>(rank));
      Rank& of = ranks_[static_cast<size_t>(rank)];
      for (int64_t i = 0; i < launches; ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % kMostStartUs));
        if (rank == 0 && i % tenth == 0) say(fmt::format("launch {} of {}", i, launches));
        launch_one(rank, random() % kGraphs);
        if (of.seen != of.expected) note_wrong(rank, i);
      }
    });
    finish();
  }

  int64_t wrong_launches() const {
    int64_t all = 0;
    for (const Rank& rank : ranks_) all += rank.wrong_launches;
    return all;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  static void say(const std::string& what) { std::cerr << "soak: " << what << "\n"; }

  void add(ProductKind kind, int64_t n, int64_t k, const std::string& schedule) {
    try {
      auto operation = std::make_unique<OperationOnMemory>(
          context_, ProductShape{kind, n, k, DType::bf16}, rows_,
          OperationOptions{.schedule = schedule, .rows = RowCount::bucket});
      for (const int64_t rows : {rows_, fewer_rows()}) operation->prepare(rows);
      operations_.push_back(std::move(operation));
      names_.push_back(fmt::format("{} {}", to_string(kind), schedule));
    } catch (const UsageError& refused) {
      std::cerr << fmt::format("left out: {} {}: {}\n", to_string(kind), schedule, refused.what());
    }
  }

  int64_t fewer_rows() const { return rows_ - rows_ / 3; }

  void set_up(int rank) {
    Rank& of = ranks_[static_cast<size_t>(rank)];
    context_.make_current(rank);
    const cuda::TestData data(fabric_->device(rank), compiler_);
    of.kernels = std::make_unique<cuda::SyncKernels>(fabric_->device(rank), compiler_);
    const cuda::Stream stream;
    of.kernels->delay(stream, 1);  // what is loaded at its first launch cannot be captured
    size_t bytes = 0;
    for (size_t i = 0; i < operations_.size(); ++i) {
      OperationOnMemory& operation = *operations_[i];
      Segment op = operation.product(rows_);
      op.m = operation.room();  // tensors have a bucket's rows
      const Slice a = input_slice(op, Input::a, rank), b = input_slice(op, Input::b, rank);
      const Slice out = output_slice(op, rank);
      Part part{operation.a(rank),
                operation.out(rank),
                {},
                static_cast<size_t>(out.rows() * out.cols()) * kElementBytes};
      const auto fill = [&](cuda::DevicePtr to, const Slice& slice, uint64_t seed) {
        data.fill(stream, to, slice.rows() * slice.cols(), op.dtype, device::Fill::normal, seed);
      };
      for (int set = 0; set < kSets; ++set) {
        part.sets.emplace_back(static_cast<size_t>(a.rows() * a.cols()) * kElementBytes);
        fill(part.sets.back().address(), a, seed_ + 17 * i + 5 * static_cast<uint64_t>(set + rank));
      }
      fill(operation.b(rank), b, seed_ + 3 * i);
      bytes += part.out_bytes;
      of.parts.push_back(std::move(part));
    }
    stream.synchronize();
    of.results = cuda::DeviceMemory(bytes * kRounds);
    of.seen.resize(bytes * kRounds);
  }

  // The runs of a graph; `delay` is called before each.
  template <typename Delay>
  void enqueue(int rank, const cuda::Stream& stream, Delay delay) {
    Rank& of = ranks_[static_cast<size_t>(rank)];
    cuda::DevicePtr to = of.results.address();
    const auto copy = [&](cuda::DevicePtr at, cuda::DevicePtr from, size_t bytes) {
      cuda::check(cuda::driver().copy_async(at, from, bytes, stream.handle()), "copy");
    };
    for (int round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < operations_.size(); ++i) {
        const Part& part = of.parts[i];
        const cuda::DeviceMemory& set = part.sets[static_cast<size_t>(round % kSets)];
        delay();
        copy(part.a, set.address(), set.num_bytes());
        // Fewer rows now and then: results have what the run before left in the others.
        const int64_t rows = round % 2 == 0 ? rows_ : fewer_rows();
        operations_[i]->run(rank, stream.handle(), rows);
        copy(to, part.out, part.out_bytes);
        to += part.out_bytes;
      }
    }
  }

  cuda::Stream stream_of(int rank) const {
    return cuda::Stream(static_cast<cuda::StreamHandle>(context_.stream(rank)));
  }

  void run_eagerly(int rank) {
    enqueue(rank, stream_of(rank), [] {});
    stream_of(rank).synchronize();
  }

  void capture(int rank) {
    context_.make_current(rank);
    Rank& of = ranks_[static_cast<size_t>(rank)];
    std::mt19937_64 random(seed_ * 77 + static_cast<uint64_t>(rank));
    for (int graph = 0; graph < kGraphs; ++graph) {
      const cuda::Stream stream = stream_of(rank);
      of.graphs.push_back(std::make_unique<cuda::Graph>(stream, [&] {
        enqueue(rank, stream, [&] {
          const bool is_late = graph > 0 && random() % 8 == 0;
          if (is_late) of.kernels->delay(stream, random() % kMostDelayNs);
        });
      }));
    }
  }

  void launch_one(int rank, uint64_t graph) {
    Rank& of = ranks_[static_cast<size_t>(rank)];
    of.graphs[graph]->launch(stream_of(rank));
    stream_of(rank).synchronize();
    context_.copy_from_gpu(rank, of.seen.data(), of.results.address(), of.seen.size());
  }

  void require_sets_to_differ() const {
    for (const Rank& rank : ranks_) {
      const size_t round = rank.expected.size() / kRounds;
      for (int set = 1; set < kSets; ++set) {
        const char* other = rank.expected.data() + static_cast<size_t>(set) * round;
        if (std::memcmp(rank.expected.data(), other, round) == 0) {
          throw SystemError("two sets of inputs have the same results, so nothing would be seen");
        }
      }
    }
  }

  void note_wrong(int rank, int64_t launch) {
    Rank& of = ranks_[static_cast<size_t>(rank)];
    if (of.wrong_launches++ > 0) return;
    const auto at = static_cast<size_t>(
        std::mismatch(of.seen.begin(), of.seen.end(), of.expected.begin()).first - of.seen.begin());
    size_t begin = 0, index = 0;
    while (at >= begin + of.parts[index % of.parts.size()].out_bytes) {
      begin += of.parts[index++ % of.parts.size()].out_bytes;
    }
    std::cerr << fmt::format("rank {}, launch {}, round {}: byte {} of {} differs\n", rank, launch,
                             index / of.parts.size(), at - begin, names_[index % names_.size()]);
  }

  void each_rank(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> failures(ranks_.size());
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          context_.make_current(static_cast<int>(rank));
          work(static_cast<int>(rank));
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  // Says which wait did not end, if one did not.
  void finish() {
    std::string problems;
    for (size_t i = 0; i < operations_.size(); ++i) {
      try {
        operations_[i]->finish();
      } catch (const SystemError& problem) {
        problems += fmt::format("\n  {}: {}", names_[i], problem.what());
      }
    }
    if (!problems.empty()) throw SystemError("waits that did not end:" + problems);
  }

  Context context_;
  std::unique_ptr<fabric::Fabric> fabric_;
  cuda::Compiler compiler_;
  const int64_t rows_;
  const uint64_t seed_;
  std::vector<std::unique_ptr<OperationOnMemory>> operations_;
  std::vector<std::string> names_;
  std::vector<Rank> ranks_;
};

}  // namespace stretto::bench
