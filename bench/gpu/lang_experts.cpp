// Dispatch and combine of tokens to experts: hidden 7168, top 8 of 256 experts.
#include <cmath>

#include "expert_routing.h"
#include "lang_bench.h"
#include "stretto/device/lang/kernels/combine.h"
#include "stretto/device/lang/kernels/dispatch.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using device::CombineArgs;
using device::DispatchArgs;
using device::ExpertShape;

constexpr int kThreads = 512;
constexpr uint32 kHidden = 7168, kExperts = 256, kTopK = 8, kAlign = 64;

class ExpertsBench {
 public:
  ExpertsBench(LangBench& bench, uint32 tokens, bool fp8)
      : bench_(bench),
        ranks_(static_cast<uint32>(bench.team.ranks())),
        shape_{kHidden, kExperts, kTopK, tokens, 0, kAlign, fp8},
        routing_(shape_, bench.team.ranks()),
        input_(bench.team, size_t{tokens} * kHidden * 2),
        ids_(bench.team, size_t{tokens} * kTopK * 4),
        weights_(bench.team, size_t{tokens} * kTopK * 4),
        lists_(bench.team, kListBytes + entries() * 8 + size_t{tokens} * ranks_ * 4),
        output_(bench.team, size_t{tokens} * kHidden * 2),
        rows_(bench.team, max_rows() * token_vectors(shape_) * 16),
        row_scales_(bench.team, max_rows() * kHidden / 128 * 4),
        results_(bench.team, max_rows() * kHidden * 2) {
    shape_.max_rows = static_cast<uint32>(max_rows());
    bench.group.release_all();
    const size_t slots = 2 * size_t{ranks_} * tokens;
    auto take = [&](const char* name, size_t bytes) {
      return bench.group.allocate(name, bytes, 0);
    };
    slots_ = take("slots", slots * token_vectors(shape_) * 16);
    scale_slots_ = take("scale_slots", slots * kHidden / 128 * 4);
    entry_slots_ = take("entry_slots", slots * kTopK * 16);
    counts_ = take("counts", count_words(shape_, ranks_) * 4);
    combine_slots_ = take("combine_slots", slots * kHidden * 2);
    parts_ = take("parts", 2 * device::part_records(ranks_, kMaxBlocks) * 8);
    signals_ = take("signals", 2 * signal_bytes());
    upload_whole_numbers(input_, size_t{tokens} * kHidden);
    upload_whole_numbers(results_, max_rows() * kHidden);
    for (size_t r = 0; r < ranks_; ++r) {
      ids_.memory[r].upload(routing_.ids[r].data(), routing_.ids[r].size() * 4);
      weights_.memory[r].upload(routing_.weights[r].data(), routing_.weights[r].size() * 4);
    }
    dispatch_ = std::make_unique<TeamKernel>(
        bench,
        cuda::LangKernelName{"kernels/dispatch.h", "dispatch<GpuBlock>", "DispatchArgs<GpuBlock>"},
        kThreads, static_cast<int>(dispatch_shared_bytes(shape_, ranks_, kThreads)));
    combine_ = std::make_unique<TeamKernel>(
        bench,
        cuda::LangKernelName{"kernels/combine.h", "combine<GpuBlock>", "CombineArgs<GpuBlock>"},
        kThreads, static_cast<int>(device::combine_shared_bytes(ranks_)));
  }

  Json time(int blocks) {
    lists_.clear();
    bench_.group.refill(signals_);
    auto send = [&](int rank) { dispatch_->launch(rank, blocks, kThreads, dispatch_args(rank)); };
    auto back = [&](int rank) { combine_->launch(rank, blocks, kThreads, combine_args(rank)); };
    auto both = [&](int rank) {
      send(rank);
      back(rank);
    };
    for (int call = 0; call < 3; ++call) {
      bench_.team.run(both);
      bench_.group.check();  // after each: ranks that have failed are no longer in step
    }
    verify();
    Json row = {{"blocks", blocks}};
    row["dispatch"] = to_json(bench_.team.time(send));
    row["combine"] = to_json(bench_.team.time(back));
    row["both"] = to_json(bench_.team.time(both));
    bench_.group.check();
    verify();
    row["dispatch_bytes"] =
        routing_.most_remote_copies * (token_vectors(shape_) * 16 + token_scales(shape_) * 4);
    row["combine_bytes"] = routing_.most_remote_copies * kHidden * 2;
    return row;
  }

 private:
  static constexpr uint32 kMaxBlocks = 132;
  static constexpr size_t kListBytes = 1 << 17;  // what is small

  size_t signal_bytes() const { return device::expert_signals(ranks_, kMaxBlocks) * 8; }
  size_t entries() const { return size_t{ranks_} * shape_.max_tokens * kTopK; }
  // Half as many again as uniform routing fills.
  size_t max_rows() const {
    return size_t{shape_.max_tokens} * kTopK * 3 / 2 + kExperts / ranks_ * kAlign;
  }

  DispatchArgs<GpuBlock> dispatch_args(int rank) const {
    DispatchArgs<GpuBlock> args{};
    args.shape = shape_;
    args.tokens = shape_.max_tokens;
    args.input = input_.at<Vec16>(rank);
    args.ids = ids_.at<device::int32>(rank);
    args.weights = weights_.at<float>(rank);
    args.slots = bench_.group.at<Vec16>(rank, slots_);
    args.scale_slots = bench_.group.at<float>(rank, scale_slots_);
    args.entry_slots = bench_.group.at<Vec16>(rank, entry_slots_);
    args.counts = bench_.group.at<uint32>(rank, counts_);
    args.parts = bench_.group.at<uint64>(rank, parts_);
    args.signals = bench_.group.at<uint64>(rank, signals_);
    args.calls = lists_.at<uint64>(rank);
    args.part_list = args.calls + 2 * kMaxBlocks;
    uint32* list =
        reinterpret_cast<uint32*>(args.part_list + device::part_records(ranks_, kMaxBlocks));
    args.received = list;
    args.expert_offsets = list + 64;
    args.expert_counts = list + 64 + kExperts + 1;
    args.problems = list + 64 + 2 * kExperts + 2;
    args.agreed = args.problems + device::kProblems;
    args.entry_rows = lists_.at<uint32>(rank) + kListBytes / 4;
    args.entry_weights = reinterpret_cast<float*>(args.entry_rows + entries());
    args.token_slots = args.entry_rows + 2 * entries();
    args.rows = rows_.at<Vec16>(rank);
    args.row_scales = row_scales_.at<float>(rank);
    return args;
  }
  CombineArgs<GpuBlock> combine_args(int rank) const {
    const DispatchArgs<GpuBlock> sent = dispatch_args(rank);
    CombineArgs<GpuBlock> args{};
    args.shape = shape_;
    args.tokens = shape_.max_tokens;
    args.rows = results_.at<Vec16>(rank);
    args.token_slots = sent.token_slots;
    args.part_list = sent.part_list;
    args.agreed = sent.agreed;
    args.entry_rows = sent.entry_rows;
    args.entry_weights = sent.entry_weights;
    args.slots = bench_.group.at<Vec16>(rank, combine_slots_);
    args.signals = bench_.group.at<uint64>(rank, signals_ + signal_bytes());
    args.output = output_.at<Vec16>(rank);
    args.calls = sent.calls + kMaxBlocks;
    return args;
  }

  // Some tokens of each rank: their rows at the owners, and their sums.
  void verify() {
    for (uint32 r = 0; r < ranks_; ++r) {
      for (uint32 i = 0; i < 8; ++i) {
        const uint32 t = shape_.max_tokens <= 8 ? i : (shape_.max_tokens - 1) * i / 7;
        if (t >= shape_.max_tokens) break;
        verify_rows(r, t);
        verify_sum(r, t);
      }
    }
  }
  void verify_rows(uint32 r, uint32 t) {
    for (size_t entry = size_t{t} * kTopK; entry < size_t{t + 1} * kTopK; ++entry) {
      const int owner = routing_.owner_of(r, entry);
      const size_t row = routing_.rows[r][entry];
      std::vector<float> got(kHidden);
      if (shape_.fp8 != 0) {
        const auto bytes = rows_.download<uint8_t>(owner, row * kHidden, kHidden);
        const auto scales = row_scales_.download<float>(owner, row * kHidden / 128, kHidden / 128);
        for (size_t c = 0; c < kHidden; ++c)
          got[c] = device::e4m3_to_float(bytes[c]) * scales[c / 128];
      } else {
        const auto bits = rows_.download<uint16_t>(owner, row * kHidden, kHidden);
        for (size_t c = 0; c < kHidden; ++c) got[c] = bf16_value(bits[c]);
      }
      for (size_t c = 0; c < kHidden; ++c) {
        const float want = whole_number_at(r + 1, size_t{t} * kHidden + c);
        if (!(std::abs(got[c] - want) <= (shape_.fp8 != 0 ? std::abs(want) / 16 : 0.0f))) {
          throw SystemError(
              fmt::format("row {} on rank {}, of token {} of rank {}: column {} is "
                          "{}, not {}",
                          row, owner, t, r, c, got[c], want));
        }
      }
    }
  }
  void verify_sum(uint32 r, uint32 t) {
    const auto got = output_.download<uint16_t>(static_cast<int>(r), size_t{t} * kHidden, kHidden);
    for (size_t c = 0; c < kHidden; ++c) {
      double want = 0, size = 0;
      for (size_t entry = size_t{t} * kTopK; entry < size_t{t + 1} * kTopK; ++entry) {
        const double value = static_cast<double>(routing_.weights[r][entry]) *
                             static_cast<double>(whole_number_at(
                                 static_cast<uint64_t>(routing_.owner_of(r, entry)) + 1,
                                 size_t{routing_.rows[r][entry]} * kHidden + c));
        want += value;
        size += std::abs(value);
      }
      const double is = static_cast<double>(bf16_value(got[c]));
      if (!(std::abs(is - want) <= size / 100)) {
        throw SystemError(fmt::format("token {} of rank {}: column {} combines to {}, not {}", t, r,
                                      c, is, want));
      }
    }
  }

  LangBench& bench_;
  uint32 ranks_;
  ExpertShape shape_;
  const ExpertRouting routing_;
  PerRank input_, ids_, weights_, lists_, output_, rows_, row_scales_, results_;
  size_t slots_, scale_slots_, entry_slots_, counts_, combine_slots_, parts_, signals_;
  std::unique_ptr<TeamKernel> dispatch_, combine_;
};

}  // namespace

Json bench_experts(LangBench& bench, const std::vector<int>& tokens) {
  fmt::print("{:>6} {:>5} {:>7} {:>9} {:>9} {:>6} {:>9} {:>9} {:>6} {:>9}\n", "tokens", "type",
             "blocks", "dispatch", "isolated", "GB/s", "combine", "isolated", "GB/s", "both");
  Json rows = Json::array();
  for (int count : tokens) {
    for (bool fp8 : {true, false}) {
      ExpertsBench work(bench, static_cast<uint32>(count), fp8);
      for (int blocks : bench.team.blocks({64, 128})) {
        Json row = {{"tokens", count}, {"fp8", fp8}};
        row.update(work.time(blocks));
        const auto us = [&](const char* part, const char* what) {
          return row[part][what].get<double>();
        };
        fmt::print(
            "{:>6} {:>5} {:>7} {:>9.1f} {:>9.1f} {:>6.0f} {:>9.1f} {:>9.1f} {:>6.0f} {:>9.1f}\n",
            count, fp8 ? "fp8" : "bf16", blocks, us("dispatch", "median_us"),
            us("dispatch", "isolated_us"),
            row["dispatch_bytes"].get<double>() / us("dispatch", "median_us") / 1000,
            us("combine", "median_us"), us("combine", "isolated_us"),
            row["combine_bytes"].get<double>() / us("combine", "median_us") / 1000,
            us("both", "median_us"));
        std::fflush(stdout);
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

}  // namespace stretto::bench
