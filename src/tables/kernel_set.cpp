#include "tables/kernel_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "gpu/few_rows_kernel.h"
#include "gpu/gemm_kernel.h"
#include "gpu/grouped_kernel.h"
#include "gpu/sync_kernels.h"
#include "gpu/test_data.h"
#include "launch/cublas_gemms.h"
#include "launch/expert_products.h"
#include "launch/gemm_choice.h"
#include "launch/joined_partitions.h"
#include "launch/library_products.h"
#include "launch/passes.h"
#include "launch/rank_program.h"
#include "plan/kernel_calls.h"
#include "stretto/device/mover_task.h"
#include "tables/edge_calls.h"
#include "tables/low_latency_shape.h"

namespace stretto::cuda {
namespace {

// Kernels of one architecture, each once, in the order in which they are added.
class KernelList {
 public:
  explicit KernelList(const std::string& arch) : hopper_(arch == "sm_90a") {}

  void add_gemm(const device::GemmConfig& config) {
    add(
        "gemm " + describe(config), [&] { return gemm_source(config); }, true);
  }
  void add_experts(const device::GroupedConfig& config) {
    add(
        "experts " + describe(config), [&] { return grouped_source(config); }, true);
  }
  void add_few_rows(const device::FewRowsConfig& config) {
    add(
        "few rows " + describe(config), [&] { return few_rows_source(config); }, true);
  }
  void add_low_latency(const LowLatencyShape& shape) {
    add(
        fmt::format("collective {} of {} threads", shape.kernel.kernel, shape.threads),
        [&] { return lang_source(shape.kernel, shape.threads); }, false);
  }
  void add_edge_kernel(const LowLatencyShape& shape, const std::string& missing) {
    if (!missing.empty()) {
      entries_.push_back({"collective " + shape.kernel.kernel, "", missing});
    } else {
      const size_t before = entries_.size();
      add_low_latency(shape);
      if (entries_.size() > before) entries_.back().is_graphs = true;
    }
  }
  void add_copy_of_rows() {
    add(
        "copy of rows", [] { return lang_source(copy_rows_kernel(), kLowLatencyThreads); }, false);
  }
  void add_pass(bool routes) {
    add(
        routes ? "pass of routed rows" : "pass", [&] { return pass_source(routes); }, true);
  }
  void add_partition() { add("partition", partition_source, true); }
  void add_others(bool norms, bool routes) {
    if (routes) {
      add(
          "mover of routed rows", [&] { return mover_source(norms, true); }, true);
    } else {
      add(
          "mover", [] { return mover_source(); }, true);
    }
    if (norms && !routes) {
      add(
          "mover that norms", [] { return mover_source(true); }, true);
    }
    add("stream waits and notifies", sync_source, false);
    add(std::string(kTestDataKernel), test_data_source, false);
  }
  std::vector<KernelEntry> take() { return std::move(entries_); }

 private:
  template <typename Source>
  void add(std::string name, const Source& source, bool needs_hopper) {
    const bool known = std::any_of(entries_.begin(), entries_.end(),
                                   [&](const KernelEntry& entry) { return entry.name == name; });
    if (known) return;
    if (needs_hopper && !hopper_) {
      entries_.push_back({std::move(name), "", "it needs Hopper's TMA and wgmma (sm_90a)"});
    } else {
      entries_.push_back({std::move(name), source(), ""});
    }
  }

  const bool hopper_;
  std::vector<KernelEntry> entries_;
};

// Norms, and restores and activations that are tasks of their own.
bool any_norms(const Plan& plan) {
  const auto is_one = [](const Instr& instr) {
    if (instr.kind() == nullptr) return false;
    const TaskKernels& kernels = instr.kind()->kernels;
    const bool maps = kernels.map != device::MoverMap::none;
    return kernels.by == KernelKind::norm || kernels.by == KernelKind::tiles ||
           (maps && !instr.fused);
  };
  return std::any_of(plan.lanes.begin(), plan.lanes.end(), [&](const Lane& lane) {
    return std::any_of(lane.instrs.begin(), lane.instrs.end(), is_one);
  });
}

}  // namespace

const std::vector<std::string>& known_archs() {
  static const std::vector<std::string> archs = {"sm_90a", "sm_89", "sm_80"};
  return archs;
}

std::vector<KernelEntry> kernels_of(const Plan& plan, const std::string& arch, bool serves) {
  KernelList set(arch);
  const std::vector<RankProgram> programs = programs_of(plan);
  for (const RankProgram& program : programs) {
    for (size_t k = 0; k < program.gemms.size(); ++k) {
      const GemmNeeds& needs = program.needs[k];
      if (!needs.library) set.add_gemm(config_for(plan, needs, serves));
      if (needs.few_rows)
        set.add_few_rows(few_rows_config(plan, products_of(plan, program.gemms[k]).front()));
      if (!is_by_experts(needs)) continue;
      for (const ExpertProduct& one : expert_products_of(plan, *program.sums, program.gemms[k])) {
        set.add_experts(config_for(plan, needs, one));
      }
    }
  }
  bool passes = false, partitions = false;
  for (const RankProgram& program : programs) {
    for (size_t i = 0; i < program.moves.size(); ++i) {
      if (program.is_in_gemm(i)) continue;
      passes = passes || is_pass(plan, program, program.moves[i]);
      partitions = partitions || partition_blocks(plan, program.moves[i]) != 0;
    }
  }
  if (partitions) set.add_partition();
  if (passes) set.add_pass(plan.has_tables());
  if (serves && multiplies_into_result(plan)) set.add_copy_of_rows();
  if (any_by_language(plan)) {
    const std::set<int32_t> receiving = receiving_collectives(plan);
    const int sms = sms_of_collectives(plan, 0, plan.sms);
    const std::map<int32_t, InstrRef> made_beside = joined_partitions(plan, programs[0]);
    for (const Lane& lane : plan.lanes) {
      if (lane.kind != LaneKind::nccl || lane.rank != 0) continue;
      for (const Instr& instr : lane.instrs) {
        if (instr.op != Opcode::collective || !is_by_language(plan, instr)) continue;
        if (instr.kernel() > 0) {
          set.add_edge_kernel(edge_shape(plan, instr, sms),
                              why_no_source(plan.op.kernels[instr.kernel() - 1]));
          continue;
        }
        LowLatencyCall call = low_latency_sizes(plan, instr);
        if (call.count == 0) continue;
        if (const auto found = made_beside.find(instr.id); found != made_beside.end()) {
          call.routed =
              routed_sizes(plan, plan.lanes[found->second.lane].instrs[found->second.pos]);
        }
        set.add_low_latency(receiving.count(instr.id) != 0
                                ? receiving_shape(call, plan.ranks(), sms)
                                : low_latency_shape(call, plan.ranks(), sms));
      }
    }
  }
  set.add_others(any_norms(plan), plan.has_tables());
  return set.take();
}

}  // namespace stretto::cuda
