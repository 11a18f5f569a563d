#include "cli/model_estimate.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "schedule/short_text.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"
#include "stretto/simulate.h"
#include "tune/nearness.h"

namespace stretto::cli {
namespace {

size_t symmetric_bytes_of(const Plan& plan) {
  size_t bytes = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.role != BufferRole::symmetric) continue;
    bytes += static_cast<size_t>(buffer.rows) * static_cast<size_t>(buffer.cols) *
             static_cast<size_t>(num_bytes(buffer.dtype)) * buffer.copies;
  }
  return bytes;
}

// The time of that very schedule; null: it was not measured.
const Measured* find_measured(const TunedOperator& tuned, const Schedule& schedule) {
  for (const Measured& measured : tuned.measured) {
    if (measured.schedule == to_string(schedule)) return &measured;
  }
  return nullptr;
}

bool is_few(int64_t rows) { return rows < 512; }

}  // namespace

Segment product_of(const Linear& linear, const ModelShape& shape) {
  Segment op;
  const bool gathers = linear.cut == Cut::by_outputs;
  op.kind =
      gathers ? (shape.all_reduce ? kColGemm : kAgGemm) : (shape.all_reduce ? kGemmAr : kGemmRs);
  op.m = shape.rows;
  op.n = linear.n;
  op.k = linear.k;
  op.ranks = shape.ranks;
  op.dtype = shape.dtype;
  return op;
}

LinearEstimate estimate(const Linear& linear, const ModelShape& shape, const Machine& machine,
                        const Tuning& tuning) {
  LinearEstimate found;
  found.linear = linear;
  found.op = product_of(linear, shape);
  if (const auto reasons = problems(found.op); !reasons.empty()) {
    found.refused = join(reasons, "; ");
    return found;
  }
  const AutoSchedule chosen = auto_schedule(found.op, machine, tuning);
  const Plan plan = lower(found.op, chosen.schedule, machine);
  found.schedule = short_text(chosen.schedule, found.op, machine);
  found.reason = chosen.reason;
  found.symmetric_bytes = symmetric_bytes_of(plan);
  const auto measured_here = measured_on(found.op, machine, tuning);
  if (!measured_here.empty() && measured_here[0]->library_us > 0) {
    const TunedOperator& tuned = *measured_here[0];
    const Measured* measured = find_measured(tuned, chosen.schedule);
    found.is_measured = true;
    found.library_us = tuned.library_us;
    found.stretto_us = measured == nullptr ? tuned.library_us : measured->time_us;
    return found;
  }
  const OperatorSchedule library = schedule_of(find_preset("library"), found.op, machine);
  found.library_us = simulate(lower(found.op, library, machine), machine).total_us;
  found.stretto_us = simulate(plan, machine).total_us;
  return found;
}

SimulationError simulation_error(const Tuning& tuning, const Machine& machine, int64_t rows) {
  std::vector<double> off;
  for (const TunedOperator& tuned : tuning.operators()) {
    if (tuned.machine != machine.name || is_few(tuned.op.m) != is_few(rows)) continue;
    for (const Measured& measured : tuned.measured) {
      if (measured.predicted_us)
        off.push_back(std::abs(*measured.predicted_us / measured.time_us - 1));
    }
  }
  if (off.empty()) return {};
  std::sort(off.begin(), off.end());
  return {off.size(), off[off.size() / 2], off[off.size() * 9 / 10]};
}

}  // namespace stretto::cli
