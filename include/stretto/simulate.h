// Simulation: predicts when every instruction of a plan runs on a machine, by discrete events.
// docs/simulation.md says what the model holds and what it leaves out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/error.h"
#include "stretto/machine.h"
#include "stretto/plan.h"
#include "stretto/timeline.h"

namespace stretto {

struct LaneUse {
  uint32_t lane = 0;
  double busy_us = 0;     // in tasks
  double waiting_us = 0;  // in waits, boundaries, collectives not yet started everywhere
};

struct CriticalStep {  // one link of the critical path, last first
  InstrRef where;
  double start_us = 0, end_us = 0;
  std::string why;  // what let it start: "lane order", "signal slots.5", "link of rank 3", ...
};

// All times count from the start of the run on every rank, one run by itself.
struct Simulation : Timeline {
  double compute_us = 0;         // the GEMM of the slowest rank alone, on all SMs, no communication
  double communication_us = 0;   // the same plan with GEMM tiles and kernels that take no time
  double exposed_us = 0;         // total - compute: communication that nothing hides
  double floor_us = 0;           // max(GEMM alone, least link bytes / best rate)
  double efficiency = 0;         // floor / total
  double compute_occupancy = 0;  // share of compute lanes' time spent in GEMM tiles
  std::vector<LaneUse> lanes;
  std::vector<CriticalStep> critical_path;
};

// A plan whose lanes wait for what never comes: `stretto check` explains why.
class EndlessPlan : public UsageError {
 public:
  EndlessPlan(const std::string& what, const InstrRef& first) : UsageError(what), where(first) {}
  InstrRef where;  // of the first lane that is stuck
};

// Throws UsageError when the machine has too few ranks or SMs, EndlessPlan.
Simulation simulate(const Plan& plan, const Machine& machine);

// Simulates a plan that lower() has made, which needs no validation.
Simulation simulate_lowered(const Plan& plan, const Machine& machine);
// Its total_us alone, in less than half of the time.
double simulated_us(const Plan& plan, const Machine& machine);

// A terminal chart (timeline.h), with the share of the run that is exposed, and the numbers above.
std::string draw_timeline(const Plan& plan, const Simulation& simulation, int width = 100,
                          int max_ranks = 2, bool ascii = false);

// Charts of several plans under each other on one time axis, which ends with the slowest.
class Charts {
 public:
  Charts();
  ~Charts();
  // The plan need not live until the chart is drawn.
  void add(const std::string& name, const Plan& plan, const Simulation& simulation);
  bool empty() const;
  std::string draw(int width = 100, int max_ranks = 1, bool ascii = false) const;

 private:
  struct One;
  std::vector<One> charts_;
};

}  // namespace stretto
