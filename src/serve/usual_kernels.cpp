#include "serve/usual_kernels.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "stretto/buckets.h"
#include "stretto/lower.h"
#include "tables/plan_limits.h"

namespace stretto::runtime {
namespace {

class UsualKernels {
 public:
  explicit UsualKernels(std::string arch) : arch_(std::move(arch)) {}

  void add(const Segment& op, const Schedule& schedule, const Machine& machine) {
    if (!legal(op, schedule, machine).empty()) return;
    const Plan plan = lower(op, schedule, machine);
    const bool serves = schedule.rows == RowCount::bucket;
    if (!cuda::why_not_on_cuda(plan, cuda::TileSums(plan), serves).empty()) return;
    add_kernels(cuda::kernels_of(plan, arch_, serves), kernels_);
  }

  // Operators that a preset has the same coordinates for have the same kernel.
  void add_presets(Segment op, const Machine& machine) {
    for (const int ranks : {op.ranks, machine.ranks_per_node}) {
      op.ranks = ranks;
      for (const RowCount rows : {RowCount::fixed, RowCount::bucket}) {
        for (const Preset& preset : presets()) {
          Schedule schedule = preset.make(op, machine);
          schedule.rows = rows;
          const std::string text = to_string(schedule);
          if (added_.insert({op.kind, op.dtype, ranks, text}).second) add(op, schedule, machine);
        }
      }
    }
  }

  std::vector<cuda::KernelEntry> take() { return std::move(kernels_); }

 private:
  const std::string arch_;
  std::set<std::tuple<ProductKind, DType, int, std::string>> added_;
  std::vector<cuda::KernelEntry> kernels_;
};

}  // namespace

void add_kernels(std::vector<cuda::KernelEntry> more, std::vector<cuda::KernelEntry>& kernels) {
  for (cuda::KernelEntry& entry : more) {
    const auto same = [&](const cuda::KernelEntry& other) { return other.name == entry.name; };
    if (std::none_of(kernels.begin(), kernels.end(), same)) kernels.push_back(std::move(entry));
  }
}

std::vector<cuda::KernelEntry> usual_kernels(const Tuning& tuning, const std::string& arch) {
  UsualKernels usual(arch);
  for (const TunedOperator& tuned : tuning.operators()) {
    Machine machine = load_machine(tuned.machine);
    machine.gpu = tuned.gpu;
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      Segment op = tuned.op;
      op.dtype = dtype;
      usual.add(op, auto_schedule(op, machine, tuning).schedule, machine);
      usual.add_presets(op, machine);
      Segment bucket = op;
      bucket.m = bucket_of(op.kind, op.ranks, op.m);
      for (const RowsFrom from : {RowsFrom::host, RowsFrom::gpu_memory}) {
        const auto exact = measured_schedule(op, machine, tuning, RowCount::bucket, from);
        if (exact) usual.add(op, exact->schedule, machine);
        usual.add(bucket, served_schedule(bucket, machine, tuning, from).schedule, machine);
      }
    }
  }
  return usual.take();
}

}  // namespace stretto::runtime
