#include "measure/gpu_check.h"

#include <algorithm>
#include <cstring>

#include "emu/output_check.h"
#include "emu/random.h"
#include "emu/shared_reference.h"
#include "measure/buffer_pieces.h"
#include "measure/run_graphs.h"
#include "run/rank_threads.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::driver;

constexpr uint64_t kMaxDelayNs = 200'000;
constexpr int64_t kRowsAtATime = 256;
constexpr int64_t kSampledRows = 16;  // of one block

class GpuCheck {
 public:
  GpuCheck(PlanRunner& runner, fabric::Fabric& fabric, const GpuCheckOptions& options)
      : runner_(runner),
        fabric_(fabric),
        options_(options),
        plan_(runner.plan()),
        reference_(options.reference ? options.reference : make_shared_reference(0)),
        roundings_(emu::roundings_of(plan_)),
        check_(plan_),
        random_(options.seed) {
    for (int i = 0; i < fabric.num_local(); ++i) ranks_.push_back(fabric.first_rank() + i);
  }

  GpuCheckResult run() {
    try {
      // Like any other part of the plan, the graphs end before the runner does.
      const RunGraphs graphs(runner_, fabric_, runner_.runs_per_graph());
      size_t done = 0;
      for (const Fill fill : options_.fills) {
        run_eagerly(fill, done, options_.fills.size());
        replay(graphs);
        ++done;
      }
    } catch (const RunFault& fault) {
      result_.fault = fault.what();
      result_.fault_at = fault.where();
    } catch (const SystemError& error) {
      result_.fault = error.what();
    }
    check_.conclude();
    result_.wrong_elements = check_.wrong_elements;
    result_.worst_error = check_.worst_error;
    result_.first_wrong = check_.first_wrong;
    result_.is_judged = check_.is_judged;
    result_.output_hash = emu::hash_all(hashes_);
    if (fabric_.group().size() > 1) agree();
    return std::move(result_);
  }

 private:
  using Outputs = std::vector<std::vector<std::vector<std::byte>>>;  // by output and rank

  void run_eagerly(Fill fill, size_t done, size_t of) {
    // The graphs were captured to follow a multiple of so many runs.
    const int period = runner_.runs_per_graph();
    const int runs = (options_.runs + period - 1) / period * period;
    for (int run = 0; run < runs; ++run) {
      const InputData data{fill, options_.data_seed + static_cast<uint64_t>(run), options_.routing};
      write_inputs(data);
      for (const int rank : ranks_) {
        fabric_.device(rank).make_current();
        runner_.delay(rank, random_.below(kMaxDelayNs));
        runner_.enqueue(rank);
      }
      const uint64_t bad_before = bad_ids_;
      runner_.finish();
      bad_ids_ = runner_.bad_ids();
      result_.bad_ids = std::max(result_.bad_ids, bad_ids_ - bad_before);
      last_ = read_outputs();
      for (size_t i = 0; i < last_.size(); ++i) {
        const OperatorOutput& output = plan_.op.outputs[i];
        const Tensor& tensor = plan_.op.tensor(output.tensor);
        for (const int rank : ranks_) {
          const auto& own = of_rank(last_[i], rank);
          hashes_.push_back(emu::hash_bytes(own));
          // Of whole teams, or of one rank alone, as processes have them.
          const int like = std::max(plan_.op.first_of_team(tensor, rank), fabric_.first_rank());
          if (output.held != Held::whole) continue;
          result_.reproducible = result_.reproducible && own == of_rank(last_[i], like);
        }
      }
      compare(data, run);
      if (options_.progress) {
        options_.progress((static_cast<double>(done) + (run + 1.0) / runs) /
                          static_cast<double>(of));
      }
    }
  }

  // What the other processes found of their ranks.
  void agree() {
    const int64_t mine = result_.wrong_elements;
    const std::vector<double> worst =
        largest(fabric_, "what a check found",
                {static_cast<double>(mine), result_.worst_error, result_.reproducible ? 0.0 : 1.0,
                 result_.is_judged ? 0.0 : 1.0});
    result_.wrong_elements = static_cast<int64_t>(worst[0]);
    result_.worst_error = worst[1];
    result_.reproducible = worst[2] == 0;
    const bool is_mine = mine > 0 || !result_.is_judged;
    result_.is_judged = worst[3] == 0;
    if (!is_mine && (result_.wrong_elements > 0 || !result_.is_judged)) {
      result_.first_wrong = "on a rank of another process, which says more";
    }
    std::vector<uint64_t> hashes;
    const std::string_view hash(reinterpret_cast<const char*>(&result_.output_hash),
                                sizeof(uint64_t));
    for (const std::string& bytes : fabric_.group().all_gather("the outputs", hash)) {
      uint64_t theirs = 0;
      std::memcpy(&theirs, bytes.data(), std::min(bytes.size(), sizeof(theirs)));
      hashes.push_back(theirs);
    }
    // Processes have one rank each.
    const auto& of = plan_.op.outputs;
    if (std::all_of(of.begin(), of.end(),
                    [](const OperatorOutput& one) { return one.held == Held::whole; })) {
      for (size_t rank = 0; rank < hashes.size(); ++rank) {
        int like = 0;  // the first rank that has all outputs in teams with this one
        for (const OperatorOutput& one : of) {
          const Tensor& tensor = plan_.op.tensor(one.tensor);
          like = std::max(like, plan_.op.first_of_team(tensor, static_cast<int>(rank)));
        }
        result_.reproducible =
            result_.reproducible && hashes[rank] == hashes[static_cast<size_t>(like)];
      }
    }
    result_.output_hash = emu::hash_all(hashes);
  }

  // Peers write into a rank's buffers as soon as they run.
  void before_runs() {
    if (fabric_.group().size() > 1) fabric_.barrier();
  }

  // The last inputs once more: first one at a time from poisoned outputs, then back to back, with a
  // look at the outputs now and then.
  void replay(const RunGraphs& graphs) {
    constexpr int kApart = 3, kBetweenLooks = 50;
    bool is_looked_at = true;
    for (int i = 0; i < options_.replays; ++i) {
      if (is_looked_at) poison_output();
      is_looked_at = i < kApart || i % kBetweenLooks == 0 || i + 1 == options_.replays;
      for (const int rank : ranks_) {
        fabric_.device(rank).make_current();
        runner_.delay(rank, random_.below(kMaxDelayNs));
        graphs.launch(rank);
      }
      if (!is_looked_at) continue;
      runner_.finish();
      bad_ids_ = runner_.bad_ids();
      result_.reproducible = result_.reproducible && read_outputs() == last_;
    }
  }

  void write_inputs(const InputData& data) {
    for (const int rank : ranks_) {
      fabric_.device(rank).make_current();
      runner_.memory().poison(rank, runner_.stream(rank));
      runner_.stream(rank).synchronize();
      for (size_t i = 0; i < plan_.op.tensors.size(); ++i) {
        const Tensor& tensor = plan_.op.tensors[i];
        if (tensor.stage >= 0) continue;
        const auto values = reference_->input(plan_.op, data, static_cast<int>(i), rank);
        for_each_piece(buffer_of(tensor.name), rank, values->size(),
                       [&](size_t to, size_t from, size_t bytes) {
                         cuda::copy_to_gpu(runner_.buffer(tensor.name, rank) + to,
                                           values->data() + from, bytes);
                       });
      }
    }
    before_runs();
  }

  const std::vector<std::byte>& of_rank(const std::vector<std::vector<std::byte>>& outputs,
                                        int rank) const {
    return outputs[static_cast<size_t>(rank - fabric_.first_rank())];
  }
  const std::string& output_name(size_t i) const {
    return plan_.op.tensor(plan_.op.outputs[i].tensor).name;
  }
  const Buffer& buffer_of(const std::string& tensor) const {
    return plan_.buffers[*plan_.find_buffer(tensor)];
  }
  size_t output_bytes(size_t i, int rank) const {
    const OperatorOutput& output = plan_.op.outputs[i];
    const Slice slice = slice_of(plan_.op, output.tensor, output.held, rank);
    const DType dtype = plan_.op.tensor(output.tensor).dtype;
    return static_cast<size_t>(slice.rows() * slice.cols() * num_bytes(dtype));
  }

  void poison_output() {
    for (const int rank : ranks_) {
      fabric_.device(rank).make_current();
      for (size_t i = 0; i < plan_.op.outputs.size(); ++i) {
        for_each_piece(buffer_of(output_name(i)), rank, output_bytes(i, rank),
                       [&](size_t to, size_t, size_t bytes) {
                         check(driver().fill_bytes(runner_.buffer(output_name(i), rank) + to, 0xff,
                                                   bytes, runner_.stream(rank).handle()),
                               "poison the output");
                       });
      }
      runner_.stream(rank).synchronize();
    }
    before_runs();
  }

  Outputs read_outputs() {
    Outputs outputs(plan_.op.outputs.size());
    for (const int rank : ranks_) {
      fabric_.device(rank).make_current();
      for (size_t i = 0; i < outputs.size(); ++i) {
        auto& output = outputs[i].emplace_back(output_bytes(i, rank));
        for_each_piece(buffer_of(output_name(i)), rank, output.size(),
                       [&](size_t from, size_t to, size_t bytes) {
                         cuda::copy_from_gpu(output.data() + to,
                                             runner_.buffer(output_name(i), rank) + from, bytes);
                       });
      }
    }
    return outputs;
  }

  void compare(const InputData& data, int run) {
    const Operator& op = plan_.op;
    const int64_t num_rows = rows_to_expect(op);
    // Of one row: multiply-adds of all ranks.
    const double row_cost = flops_per_rank(op) / 2 * op.ranks / static_cast<double>(num_rows);
    const double all = row_cost * static_cast<double>(num_rows);
    const bool is_cheap = data.fill == Fill::integers && op.only_product() != nullptr;
    if (is_cheap || all <= options_.max_reference) {
      for (int64_t row = 0; row < num_rows; row += kRowsAtATime) {
        compare_rows(data, run, row, std::min(num_rows, row + kRowsAtATime));
      }
      return;
    }
    result_.whole = false;
    const auto affordable = static_cast<int64_t>(options_.max_reference / row_cost / kSampledRows);
    const int64_t blocks = std::min<int64_t>(num_rows, std::max<int64_t>(affordable, 4));
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t last = std::max<int64_t>(0, num_rows - kSampledRows);
      const int64_t row =
          i == 0   ? 0
          : i == 1 ? last
                   : static_cast<int64_t>(random_.below(static_cast<uint64_t>(last + 1)));
      compare_rows(data, run, row, std::min(num_rows, row + kSampledRows));
    }
  }

  void compare_rows(const InputData& data, int run, int64_t row0, int64_t row1) {
    const auto expected = reference_->expected(plan_.op, data, roundings_, row0, row1);
    for (const int rank : ranks_) {
      for (size_t i = 0; i < expected->size(); ++i) {
        check_.compare(run, rank, i, of_rank(last_[i], rank).data(), (*expected)[i]);
      }
    }
  }

  PlanRunner& runner_;
  fabric::Fabric& fabric_;
  const GpuCheckOptions& options_;
  const Plan& plan_;
  std::shared_ptr<SharedReference> reference_;
  const Roundings roundings_;
  emu::OutputCheck check_;
  emu::Random random_;
  std::vector<int> ranks_;  // of this process
  Outputs last_;            // by rank of this process
  std::vector<uint64_t> hashes_;
  uint64_t bad_ids_ = 0;  // of all runs so far
  GpuCheckResult result_;
};

}  // namespace

GpuCheckResult check_on_gpus(PlanRunner& runner, fabric::Fabric& fabric,
                             const GpuCheckOptions& options) {
  return GpuCheck(runner, fabric, options).run();
}

}  // namespace stretto::runtime
