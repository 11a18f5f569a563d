// Verifies a plan on GPUs as the emulator does: real data against the reference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/plan_runner.h"
#include "stretto/emulate.h"

namespace stretto::runtime {

struct GpuCheckOptions {
  std::vector<Fill> fills = {Fill::integers, Fill::random};
  uint64_t seed = 1;       // of the delays
  uint64_t data_seed = 1;  // of the inputs; run r takes data_seed + r
  Routing routing = {};    // of operators whose rows choose experts
  int runs = 3;            // of each fill, with fresh inputs, poisoned buffers and delayed ranks
  int replays = 20;        // of a captured graph, on the last inputs
  // Multiply-adds that the reference may cost for random data; beyond them blocks of rows are
  // compared that lie at the ends and at random places. Integers are compared whole.
  double max_reference = 2e9;
  std::shared_ptr<SharedReference> reference = {};
  std::function<void(double)> progress = {};  // share of the work done, 0..1
};

struct GpuCheckResult {
  std::string fault;                 // a wait that did not end; then nothing else is meaningful
  std::optional<InstrRef> fault_at;  // that wait, where it is known
  int64_t wrong_elements = 0;
  double worst_error = 0;
  std::string first_wrong;
  bool is_judged = true;  // false: no element could be, and first_wrong says why
  bool whole = true;      // every row of every run was compared
  // Every run and replay on the same inputs gave the same bits, and all ranks of a gemm-ar did.
  bool reproducible = true;
  uint64_t output_hash = 0;
  uint64_t bad_ids = 0;  // the most of a run: no expert's and not -1

  bool verified() const { return fault.empty() && wrong_elements == 0 && is_judged; }
};

// Collective: each process checks its own ranks, and all agree on what was found.
GpuCheckResult check_on_gpus(PlanRunner& runner, fabric::Fabric& fabric,
                             const GpuCheckOptions& options);

}  // namespace stretto::runtime
