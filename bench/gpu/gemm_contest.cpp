#include "gemm_contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "measure/spread.h"

namespace stretto::bench {
namespace {

using cuda::DeviceMemory;
using cuda::Matrix;

std::string short_name(const Candidate& candidate) {
  static const char* const kShared[] = {"-", "a", "b"};
  const GemmConfig& config = candidate.config;
  return fmt::format("{}x{}{}{} /{}{}", config.tile_m, config.tile_n,
                     kShared[static_cast<int>(config.shared)], config.overlap_store ? "" : "!",
                     candidate.band,
                     candidate.ranges > 1 ? fmt::format(" K/{}", candidate.ranges) : "");
}

}  // namespace

struct GemmContest::Buffers {
  explicit Buffers(const Shape& shape)
      : a(static_cast<size_t>(shape.m * shape.k * 2)),
        b(static_cast<size_t>(shape.n * shape.k * 2)),
        c(static_cast<size_t>(shape.m * shape.n * 4)),
        reference(static_cast<size_t>(shape.m * shape.n * 4)) {}
  DeviceMemory a, b, c, reference;
};

GemmContest::GemmContest(bool quick)
    : device_(0),
      data_(device_, compiler_),
      cublas_(stream_),
      kernels_(device_, compiler_),
      quick_(quick) {}

std::vector<GemmContest::Timed> GemmContest::look(const Shape& shape, const GemmTensors& tensors,
                                                  const Matrix& reference) {
  const int64_t elements = shape.m * shape.n;
  std::vector<Candidate> all = candidates(quick_);
  add_split(shape, device_.num_sms(), all);
  std::vector<Timed> timed;
  for (const Candidate& candidate : all) {
    const GemmLaunches run(kernels_, stream_, tensors, candidate, kLaunchesPerGraph);
    cuda::check(cuda::driver().fill_bytes(tensors.c.address, 0xff,
                                          static_cast<size_t>(elements * 2), stream_.handle()),
                "poison the output");
    run.launch();
    const double error = cuda::relative_error(
        data_.compare(stream_, tensors.c.address, DType::bf16, reference.address, elements));
    std::vector<double> times;
    for (int i = 0; i < 3; ++i) times.push_back(time_us([&] { run.launch(); }));
    timed.push_back({candidate, runtime::median_of(times), error});
  }
  std::sort(timed.begin(), timed.end(),
            [](const Timed& x, const Timed& y) { return x.time_us < y.time_us; });
  return timed;
}

std::vector<std::vector<double>> GemmContest::in_turns(const std::vector<Timed>& timed,
                                                       size_t count, int rounds,
                                                       const GemmTensors& tensors) {
  const cuda::Graph baseline(stream_, [&] {
    for (int i = 0; i < kLaunchesPerGraph; ++i) cublas_.multiply(tensors.a, tensors.b, tensors.c);
  });
  std::vector<std::unique_ptr<GemmLaunches>> runs;
  for (size_t i = 0; i < count; ++i) {
    runs.push_back(std::make_unique<GemmLaunches>(kernels_, stream_, tensors, timed[i].candidate,
                                                  kLaunchesPerGraph));
  }
  std::vector<std::vector<double>> times(count + 1);
  for (int round = 0; round < rounds; ++round) {
    times[count].push_back(time_us([&] { baseline.launch(stream_); }));
    for (size_t i = 0; i < count; ++i) {
      times[i].push_back(time_us([&] { runs[i]->launch(); }));
    }
  }
  return times;
}

nlohmann::json GemmContest::run(const Shape& shape) {
  const auto& [m, n, k] = shape;
  const Buffers buffers(shape);
  const GemmTensors tensors{{buffers.a.address(), m, k, k, DType::bf16},
                            {buffers.b.address(), n, k, k, DType::bf16},
                            {buffers.c.address(), m, n, n, DType::bf16}};
  const Matrix reference{buffers.reference.address(), m, n, n, DType::fp32};
  data_.fill(stream_, tensors.a.address, m * k, DType::bf16, device::Fill::normal, 1);
  data_.fill(stream_, tensors.b.address, n * k, DType::bf16, device::Fill::normal, 2);
  cublas_.multiply(tensors.a, tensors.b, reference);

  std::vector<Timed> timed = look(shape, tensors, reference);
  double worst_error = 0;
  nlohmann::json looks;  // what each took at first, by itself
  for (const Timed& one : timed) {
    worst_error = std::max(worst_error, one.error);
    looks[short_name(one.candidate)] = one.time_us;
  }
  const size_t finalists = std::min<size_t>(6, timed.size());
  const auto trial = in_turns(timed, finalists, 7, tensors);
  for (size_t i = 0; i < finalists; ++i) timed[i].time_us = runtime::median_of(trial[i]);
  std::sort(timed.begin(), timed.begin() + static_cast<long>(finalists),
            [](const Timed& x, const Timed& y) { return x.time_us < y.time_us; });
  const auto times = in_turns(timed, 1, quick_ ? 7 : 15, tensors);

  const Candidate& best = timed.front().candidate;
  const runtime::Spread ours = runtime::spread_of(times[0]);
  const double our_us = ours.median, baseline_us = runtime::median_of(times[1]);
  std::string others;
  for (size_t i = 1; i < std::min<size_t>(4, timed.size()); ++i) {
    others += fmt::format("  [{} {:.1f}]", short_name(timed[i].candidate), timed[i].time_us);
  }
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  fmt::print("{:5} {:5} {:5}  cublas {:7.1f}  ours {:7.1f}  {:.3f}  {:4.0f} TF  err {:.1e}  {}{}\n",
             m, n, k, baseline_us, our_us, baseline_us / our_us, 1e-6 * flops / our_us, worst_error,
             short_name(best), others);
  std::fflush(stdout);
  return {{"m", m},
          {"n", n},
          {"k", k},
          {"dtype", "bf16"},
          {"config", cuda::describe(best.config)},
          {"band", best.band},
          {"looks_us", looks},
          {"ranges", best.ranges},
          {"time_us", our_us},
          {"low_us", ours.low},
          {"high_us", ours.high},
          {"cublas_us", baseline_us},
          {"ratio", baseline_us / our_us},
          {"worst_error", worst_error}};
}

}  // namespace stretto::bench
