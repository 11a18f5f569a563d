#include "norm_bench.h"

#include <cmath>

#include "stretto/error.h"

namespace stretto::bench {
namespace {

using device::AddNormArgs;
using device::OwnRowsNormArgs;
using device::ScatterNormGatherArgs;

constexpr int kCopyThreads = 512;  // of kernels that are best with whole warps of rows
constexpr float kEpsilon = 1e-5f;
constexpr uint64_t kResidual = 100, kWeight = 101;
constexpr size_t kMaxChunks = 8192;

// As few rounds over a row as `most` threads need, and no more threads than those take.
int threads_for(size_t vectors, size_t most) {
  const size_t rounds = (vectors + most - 1) / most;
  return static_cast<int>((vectors / rounds + 31) / 32 * 32);
}

void fill_same(PerRank& to, size_t count, uint64_t stream) {
  to.team.each_rank([&](int rank) {
    std::vector<uint16_t> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = bf16_bits(whole_number_at(stream, i));
    to.memory[static_cast<size_t>(rank)].upload(values.data(), count * 2);
  });
}

}  // namespace

NormBench::NormBench(LangBench& bench, size_t max_bytes, size_t max_row_bytes)
    : bench_(bench),
      ranks_(static_cast<size_t>(bench.team.ranks())),
      max_bytes_(max_bytes),
      input_(bench.team, max_bytes),
      reduced_(bench.team, max_bytes),
      residual_(bench.team, max_bytes),
      own_residual_(bench.team, max_bytes),
      new_residual_(bench.team, max_bytes),
      output_(bench.team, max_bytes),
      weight_(bench.team, max_row_bytes),
      state_(bench.team, 2 * 256 * sizeof(uint64)) {
  upload_whole_numbers(input_, max_bytes / 2);
  fill_same(residual_, max_bytes / 2, kResidual);
  fill_same(weight_, max_row_bytes / 2, kWeight);
  slots_ = bench.group.allocate(
      "slots",
      std::max(4 * (max_bytes + ranks_ * max_row_bytes),
               2 * ranks_ * static_cast<size_t>(kMostOneShotTokens) * max_row_bytes),
      0x80008000u);
  greetings_ = bench.group.allocate("greetings", 3 * ranks_ * 16, device::kNoGreeting);
  shared_output_ = bench.group.allocate("output", max_bytes, 0);
  signals_ = bench.group.allocate("signals", 2 * ranks_ * kMaxChunks * sizeof(uint64), 0);
  const auto name = [](const char* kernel, const char* header, const char* args) {
    return cuda::LangKernelName{fmt::format("kernels/{}.h", header), kernel,
                                fmt::format("{}<GpuBlock>", args)};
  };
  add_norm_ =
      std::make_unique<TeamKernel>(bench, name("add_norm", "norm", "AddNormArgs"), kCopyThreads);
  chunks_ = std::make_unique<TeamKernel>(
      bench, name("scatter_norm_gather", "scatter_norm_gather", "ScatterNormGatherArgs"),
      kCopyThreads);
}

void NormBench::set_shape(size_t tokens, size_t columns) {
  tokens_ = tokens;
  columns_ = columns;
  const size_t vectors = columns / 8;
  copy_threads_ = threads_for(vectors, kCopyThreads);
  threads_ = threads_for(vectors, 1024);
  auto& kernels = by_threads_[threads_];
  if (kernels.one_shot == nullptr) {
    const int in_flight = device::norm_in_flight(static_cast<int>(ranks_), threads_,
                                                 bench_.team.fabric().device(0).arch() >= "sm_90");
    const auto compile = [&](const char* form, const char* args) {
      return std::make_unique<TeamKernel>(
          bench_,
          cuda::LangKernelName{"kernels/all_reduce_norm.h",
                               fmt::format("all_reduce_norm_{}<GpuBlock, {}>", form, in_flight),
                               fmt::format("{}<GpuBlock>", args)},
          threads_);
    };
    kernels.one_shot = compile("one_shot", "AllReduceNormArgs");
    kernels.two_shot = compile("two_shot", "AllReduceNormArgs");
    kernels.own_rows = compile("own_rows", "OwnRowsNormArgs");
    fmt::print("{} threads: registers (local bytes) {} ({}), {} ({}), {} ({})\n", threads_,
               kernels.one_shot->registers(), kernels.one_shot->local_bytes(),
               kernels.two_shot->registers(), kernels.two_shot->local_bytes(),
               kernels.own_rows->registers(), kernels.own_rows->local_bytes());
  }
  const size_t rows = (tokens + ranks_ - 1) / ranks_;
  bench_.team.each_rank([&](int rank) {
    const size_t first = std::min(tokens, rows * static_cast<size_t>(rank));
    const size_t end = std::min(tokens, first + rows);
    const auto own = residual_.download<uint16_t>(rank, first * columns, (end - first) * columns);
    if (!own.empty())
      own_residual_.memory[static_cast<size_t>(rank)].upload(own.data(), own.size() * 2);
  });
}

Json NormBench::time_nccl() {
  auto enqueue = [&](int rank) {
    bench_.team.nccl().all_reduce(rank, bench_.team.stream(rank),
                                  reinterpret_cast<uint64_t>(input_.at<char>(rank)),
                                  reinterpret_cast<uint64_t>(reduced_.at<char>(rank)),
                                  static_cast<int64_t>(tokens_ * columns_), DType::bf16);
    add_norm_->launch(rank, static_cast<int>(std::min<size_t>(tokens_, 264)), copy_threads_,
                      AddNormArgs<GpuBlock>{reduced_.at<Vec16>(rank), residual_.at<Vec16>(rank),
                                            new_residual_.at<Vec16>(rank), output_.at<Vec16>(rank),
                                            norm(rank), tokens_, columns_ / 8});
  };
  return to_json(bench_.team.time_nccl(enqueue));
}

Json NormBench::time_one_shot(int blocks) {
  return time(blocks, [&](int rank) {
    by_threads_[threads_].one_shot->launch(rank, blocks, threads_, args(rank));
  });
}

Json NormBench::time_two_shot(int blocks) {
  return time(blocks, [&](int rank) {
    by_threads_[threads_].two_shot->launch(rank, blocks, threads_, args(rank));
  });
}

Json NormBench::time_own_rows(int blocks) {
  return time(blocks, [&](int rank) {
    OwnRowsNormArgs<GpuBlock> own{args(rank)};
    own.residual = own_residual_.at<Vec16>(rank);
    by_threads_[threads_].own_rows->launch(rank, blocks, threads_, own);
  });
}

Json NormBench::time_chunks(int blocks, uint64 rows_per_chunk) {
  in_shared_output_ = true;
  Json result = time(blocks, [&](int rank) {
    ScatterNormGatherArgs<GpuBlock> args{};
    args.input = input_.at<Vec16>(rank);
    args.residual = own_residual_.at<Vec16>(rank);
    args.new_residual = new_residual_.at<Vec16>(rank);
    args.output = bench_.group.at<Vec16>(rank, shared_output_);
    args.norm = norm(rank);
    args.tokens = args.max_tokens = tokens_;
    args.row_vectors = columns_ / 8;
    args.rows_per_chunk = rows_per_chunk;
    args.slots = bench_.group.at<Vec16>(rank, slots_);
    args.arrived = bench_.group.at<uint64>(rank, signals_);
    args.done = args.arrived + ranks_ * kMaxChunks;
    args.greetings = bench_.group.at<Vec16>(rank, greetings_);
    args.state = state_.at<uint64>(rank);
    chunks_->launch(rank, blocks, copy_threads_, args);
  });
  in_shared_output_ = false;
  return result;
}

device::NormArgs<GpuBlock> NormBench::norm(int rank) const {
  return {weight_.at<Vec16>(rank), nullptr, kEpsilon};
}

device::AllReduceNormArgs<GpuBlock> NormBench::args(int rank) const {
  device::AllReduceNormArgs<GpuBlock> args{};
  args.input = input_.at<Vec16>(rank);
  args.residual = residual_.at<Vec16>(rank);
  args.new_residual = new_residual_.at<Vec16>(rank);
  args.output = output_.at<Vec16>(rank);
  args.norm = norm(rank);
  args.tokens = args.max_tokens = tokens_;
  args.row_vectors = columns_ / 8;
  args.slots = bench_.group.at<Vec16>(rank, slots_);
  args.greetings = bench_.group.at<Vec16>(rank, greetings_);
  args.state = state_.at<uint64>(rank);
  return args;
}

Json NormBench::time(int blocks, const std::function<void(int)>& enqueue) {
  for (size_t offset : {slots_, greetings_, signals_, shared_output_}) bench_.group.refill(offset);
  state_.clear();
  for (int call = 0; call < 4; ++call) bench_.team.run(enqueue);
  bench_.group.check();
  verify();
  const Timing timing = bench_.team.time(enqueue);
  bench_.group.check();
  verify();
  Json row = {{"blocks", blocks}};
  row.update(to_json(timing));
  return row;
}

void NormBench::verify() {
  for (size_t i = 0; i < 8; ++i) {
    const size_t row = tokens_ <= 8 ? i : (tokens_ - 1) * i / 7;
    if (row >= tokens_) break;
    std::vector<double> h(columns_);
    double squares = 0;
    for (size_t c = 0; c < columns_; ++c) {
      h[c] = static_cast<double>(whole_number_at(kResidual, row * columns_ + c));
      for (uint64_t r = 0; r < ranks_; ++r) {
        h[c] += static_cast<double>(whole_number_at(r + 1, row * columns_ + c));
      }
      squares += h[c] * h[c];
    }
    const double factor = 1 / std::sqrt(squares / static_cast<double>(columns_) + 1e-5);
    std::vector<uint16_t> first;
    for (int rank = 0; rank < bench_.team.ranks(); ++rank) {
      const auto got = row_of(rank, row);
      if (rank == 0) first = got;
      if (got != first) throw SystemError("ranks have different bits in a normed row");
      for (size_t c = 0; c < columns_; ++c) {
        const double want = h[c] * factor * static_cast<double>(whole_number_at(kWeight, c));
        const double is = static_cast<double>(bf16_value(got[c]));
        if (!(std::abs(is - want) <= std::abs(want) / 200 + 1e-6)) {
          throw SystemError(fmt::format("row {} column {} of {} on rank {} is {}, not {}", row, c,
                                        tokens_, rank, is, want));
        }
      }
    }
  }
}

std::vector<uint16_t> NormBench::row_of(int rank, size_t row) {
  if (!in_shared_output_) return output_.download<uint16_t>(rank, row * columns_, columns_);
  std::vector<uint16_t> values(columns_);
  bench_.team.fabric().device(rank).make_current();
  cuda::copy_from_gpu(
      values.data(),
      reinterpret_cast<uint64_t>(bench_.group.at<uint16_t>(rank, shared_output_) + row * columns_),
      columns_ * 2);
  return values;
}

}  // namespace stretto::bench
