// Timelines as Perfetto / Chrome trace-event JSON, which ui.perfetto.dev draws.
//
// A process a rank, a thread a lane: slices for tasks, blocked waits and busy ports, arrows from
// notifies to the waits that they ended. Waits that were satisfied already have none. Above the
// lanes stand counters: a rank's share of compute lanes in tiles and of time that its ports send,
// of all ranks what is exposed. A predicted timeline has its critical path, as a process of its
// own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "stretto/plan.h"
#include "stretto/simulate.h"
#include "stretto/timeline.h"

namespace stretto {

struct PerfettoOptions {
  std::string machine = {};  // what was simulated, or what ran; empty: not said
  // Where more would be too much for viewers the last ranks are left out, and "otherData" says so.
  // Slices of all timelines count together.
  size_t max_slices = 400'000;
};

// Timelines of one operator beside each other, each under its name; a single one needs none.
class PerfettoTrace {
 public:
  explicit PerfettoTrace(PerfettoOptions options = {});
  ~PerfettoTrace();

  // `lines`: where instructions stand in the plan's file; null where it is of none.
  void add(const Plan& plan, const Timeline& measured, const PlanLines* lines = nullptr,
           const std::string& name = {});
  void add(const Plan& plan, const Simulation& predicted, const PlanLines* lines = nullptr,
           const std::string& name = {});
  // The file's content; nothing can be added after it.
  std::string finish();

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

// One timeline alone.
std::string to_perfetto(const Plan& plan, const Timeline& measured,
                        const PlanLines* lines = nullptr, PerfettoOptions options = {});
std::string to_perfetto(const Plan& plan, const Simulation& predicted,
                        const PlanLines* lines = nullptr, PerfettoOptions options = {});

}  // namespace stretto
