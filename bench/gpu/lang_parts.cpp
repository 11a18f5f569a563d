// All-gather and reduce-scatter of bf16 in one hop, against NCCL.
#include "lang_bench.h"
#include "stretto/device/lang/kernels/gather_scatter.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using device::PartsArgs;

constexpr int kThreads = 512;
constexpr size_t kMostPartBytes = size_t{4} << 20;

enum class Form { kAllGather, kReduceScatter };
constexpr const char* kNames[] = {"all_gather", "reduce_scatter"};

// A rank's input is its own part, or all parts of its summand.
class PartsBench {
 public:
  PartsBench(LangBench& bench, size_t max_part)
      : bench_(bench),
        ranks_(static_cast<size_t>(bench.team.ranks())),
        max_part_(max_part),
        input_(bench.team, max_part * ranks_),
        output_(bench.team, max_part * ranks_),
        state_(bench.team, 256 * sizeof(uint64)) {
    upload_whole_numbers(input_, max_part * ranks_ / 2);
    slots_ = bench.group.allocate("slots", 2 * ranks_ * max_part, device::Bf16x8::kPoison);
    greetings_ = bench.group.allocate("greetings", 3 * ranks_ * 16, device::kNoGreeting);
  }

  Json time(const TeamKernel& kernel, Form form, int blocks, size_t part) {
    bench_.group.refill(slots_);
    bench_.group.refill(greetings_);
    state_.clear();
    output_.clear();
    auto enqueue = [&](int rank) { kernel.launch(rank, blocks, kThreads, args(rank, part)); };
    for (int call = 0; call < 4; ++call) bench_.team.run(enqueue);
    bench_.group.check();
    verify(form, part);
    const Timing timing = bench_.team.time(enqueue);
    bench_.group.check();
    verify(form, part);
    Json row = {{"blocks", blocks}};
    row.update(to_json(timing));
    return row;
  }

  Json time_nccl(Form form, size_t part) {
    return to_json(bench_.team.time_nccl([&](int rank) {
      const auto& nccl = bench_.team.nccl();
      const auto from = reinterpret_cast<uint64_t>(input_.at<char>(rank));
      const auto to = reinterpret_cast<uint64_t>(output_.at<char>(rank));
      const auto count = static_cast<int64_t>(part / 2);
      if (form == Form::kAllGather) {
        nccl.all_gather(rank, bench_.team.stream(rank), from, to, count, DType::bf16);
      } else {
        nccl.reduce_scatter(rank, bench_.team.stream(rank), from, to, count, DType::bf16);
      }
    }));
  }

 private:
  PartsArgs<GpuBlock> args(int rank, size_t part) const {
    return {input_.at<const Vec16>(rank),
            output_.at<Vec16>(rank),
            part / 16,
            part / 16 * ranks_,
            max_part_ / 16,
            bench_.group.at<Vec16>(rank, slots_),
            bench_.group.at<Vec16>(rank, greetings_),
            state_.at<uint64>(rank)};
  }

  float wanted(Form form, int rank, size_t part, size_t i) const {
    const size_t elements = part / 2;
    if (form == Form::kAllGather) {
      return whole_number_at(i / elements + 1, i % elements) + 0.0f;  // no negative zeros
    }
    float sum = 0;
    for (size_t r = 0; r < ranks_; ++r) {
      sum += whole_number_at(r + 1, static_cast<size_t>(rank) * elements + i);
    }
    return sum;
  }
  void verify(Form form, size_t part) {
    bench_.team.each_rank([&](int rank) {
      const size_t parts = form == Form::kAllGather ? ranks_ : 1;
      const auto got = output_.download<uint16_t>(rank, 0, parts * part / 2);
      for (size_t i = 0; i < got.size(); ++i) {
        const float want = wanted(form, rank, part, i);
        if (got[i] == bf16_bits(want)) continue;
        throw SystemError(
            fmt::format("{} of parts of {} bytes: element {} on rank {} is {}, not {}",
                        kNames[static_cast<int>(form)], part, i, rank, bf16_value(got[i]), want));
      }
    });
  }

  LangBench& bench_;
  size_t ranks_;
  size_t max_part_;
  PerRank input_, output_, state_;
  size_t slots_, greetings_;
};

}  // namespace

Json bench_parts(LangBench& bench, const std::vector<int>& blocks,
                 const std::vector<int>& in_flight, size_t max_bytes) {
  bench.group.release_all();
  struct Candidate {
    Form form;
    int in_flight;
    TeamKernel kernel;
  };
  std::vector<Candidate> candidates;
  for (const Form form : {Form::kAllGather, Form::kReduceScatter}) {
    for (const int vectors : in_flight) {
      candidates.push_back({form, vectors,
                            TeamKernel(bench,
                                       {"kernels/gather_scatter.h",
                                        fmt::format("{}_one_shot<Bf16x8, GpuBlock, {}>",
                                                    kNames[static_cast<int>(form)], vectors),
                                        "PartsArgs<GpuBlock>"},
                                       kThreads)});
      fmt::print("{} with {} in flight: {} registers\n", kNames[static_cast<int>(form)], vectors,
                 candidates.back().kernel.registers());
    }
  }
  fmt::print("{:>9} {:>14} {:>8} {:>8} {:>10} {:>8} {:>8}\n", "part", "", "nccl", "isolated",
             "best", "us", "isolated");
  const size_t max_part = std::min(max_bytes, kMostPartBytes);
  PartsBench work(bench, max_part);
  Json rows = Json::array();
  for (size_t part = size_t{8} << 10; part <= max_part; part *= 2) {
    Json row = {{"part_bytes", part}};
    for (const Form form : {Form::kAllGather, Form::kReduceScatter}) {
      const std::string name = kNames[static_cast<int>(form)];
      const Json nccl = row["nccl_" + name] = work.time_nccl(form, part);
      std::string best, line;
      double best_us = 1e9, best_isolated = 0;
      for (const Candidate& candidate : candidates) {
        if (candidate.form != form) continue;
        for (const int count : bench.team.blocks(blocks)) {
          Json result = work.time(candidate.kernel, form, count, part);
          result["in_flight"] = candidate.in_flight;
          const double us = result["median_us"];
          line += fmt::format(" {}/{}:{:.1f}", count, candidate.in_flight, us);
          if (us < best_us) {
            best_us = us;
            best_isolated = result["isolated_us"];
            best = fmt::format("{}/{}", count, candidate.in_flight);
          }
          row[name].push_back(std::move(result));
        }
      }
      fmt::print("{:>9} {:>14} {:>8.1f} {:>8.1f} {:>10} {:>8.1f} {:>8.1f} {}\n", part, name,
                 nccl["median_us"].get<double>(), nccl["isolated_us"].get<double>(), best, best_us,
                 best_isolated, line);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace stretto::bench
