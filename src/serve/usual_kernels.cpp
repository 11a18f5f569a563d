#include "serve/usual_kernels.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "op/few_rows_tiles.h"
#include "stretto/buckets.h"
#include "stretto/device/few_rows_task.h"
#include "stretto/lower.h"
#include "tables/plan_limits.h"

namespace stretto::runtime {
namespace {

// What shortlists hold on sizes that nobody tuned, beside what is taken on those that were: one
// schedule of each kernel (tests/serve/shortlist_kernels_test.cpp). A choice whose kernel nobody
// has compiled is not measured, and what was measured without it is not kept for other processes.
struct Listed {
  const ProductKind& kind;
  int64_t rows;  // up to 64 have kernels of their own, and of a few none moves rows
  int ranks;     // how many others' sums a reduction's tiles add
  const char* schedule;
};
constexpr Listed kListed[] = {
    {kAgGemm, 4, 8, "tiles,tile=64x64,comm-sms=8,split-k=2"},
    {kAgGemm, 3, 4, "tiles,tile=128x128,comm-sms=8,k-phases=4"},
    {kAgGemm, 64, 2, "tiles,tile=64x64,comm-sms=8,split-k=2"},
    {kAgGemm, 64, 2, "tiles,tile=128x128,comm-sms=8,k-phases=4"},
    {kAgGemm, 64, 2, "tiles,tile=128x192,comm-sms=8"},
    {kAgGemm, 1024, 2, "tiles,tile=128x64,comm-sms=8,k-phases=8"},
    {kAgGemm, 1024, 2, "tiles,tile=128x160,comm-sms=8,k-phases=8"},
    {kAgGemm, 1024, 2, "tiles,mover=copy-engine,tile=128x192"},
    {kAgGemm, 1024, 2, "tiles,tile=128x192,comm-sms=8,start=wave,cluster=2"},
    {kGemmRs, 64, 2, "tiles,tile=64x64,split-k=2"},
    {kGemmRs, 64, 2, "tiles,tile=128x128"},
    {kGemmRs, 64, 2, "tiles,tile=128x192"},
    {kGemmRs, 64, 4, "tiles,tile=128x192"},
    {kGemmRs, 64, 8, "tiles,tile=128x192"},
    {kGemmRs, 1024, 4, "tiles,tile=128x160"}};

class UsualKernels {
 public:
  explicit UsualKernels(std::string arch) : arch_(std::move(arch)) {}

  void add(const Segment& op, const Schedule& schedule, const Machine& machine) {
    const std::string text = to_string(op) + " " + to_string(schedule) + " " + machine.name;
    if (!lowered_.insert(text).second || !legal(op, schedule, machine).empty()) return;
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

  // By rows and columns: every kernel of few rows that a machine's SMs may ask for. Those of more
  // rows than stream weights are too many; each is made when it is needed.
  void add_few_rows(DType dtype, const Machine& machine) {
    constexpr int64_t kColumns[] = {1024, 2048, 2560,  3072,  4096, 5120,
                                    6144, 8192, 10240, 12288, 16384};
    constexpr int64_t kLengths[] = {512, 768, 8192};  // of sums: short ones are split less often
    constexpr int kStep = device::kFewRowsUnit;
    for (int64_t rows = kStep; rows <= kRowsThatStream; rows += kStep) {
      for (const int64_t columns : kColumns) {
        for (const int64_t k : kLengths) {
          const Segment op{kGemmAr, rows, columns, 2 * k, 2, dtype};
          add(op, parse_schedule("few-rows", op, machine), machine);
        }
      }
    }
  }

  // Other sizes than the rows say nothing of a kernel.
  void add_listed(DType dtype, const Machine& machine) {
    for (const auto& [kind, rows, ranks, text] : kListed) {
      const Segment op{kind, rows, 8192, 16384, ranks, dtype};
      add(op, parse_schedule(text, op, machine), machine);
    }
  }

  std::vector<cuda::KernelEntry> take() { return std::move(kernels_); }

 private:
  const std::string arch_;
  std::set<std::tuple<ProductKind, DType, int, std::string>> added_;
  std::set<std::string> lowered_;
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
  std::set<std::string> machines;
  for (const TunedOperator& tuned : tuning.operators()) {
    Machine machine = load_machine(tuned.machine);
    machine.gpu = tuned.gpu;
    const bool is_first = machines.insert(tuned.machine).second;
    for (const DType dtype : {DType::bf16, DType::fp16}) {
      if (is_first) {
        usual.add_listed(dtype, machine);
        usual.add_few_rows(dtype, machine);
      }
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
