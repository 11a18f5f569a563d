// Emulator: executes a plan on real data with all ranks in one process. It is the living definition
// of every instruction, and adversarial: a seed decides which lane moves next, which ranks lag,
// which lanes starve, and in what order and pieces the writes of a lane become visible.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stretto/operator.h"
#include "stretto/plan.h"
#include "stretto/reference.h"

namespace stretto {

struct EmulateOptions {
  uint64_t seed = 1;       // interleaving, delays and skew
  uint64_t data_seed = 1;  // input values
  Fill fill = Fill::random;
  int runs = 2;  // consecutive epochs, with fresh inputs each
  // Called now and then with the share of work done, 0..1; may be empty.
  std::function<void(double)> progress;
};

struct StuckLane {
  std::string lane, signal;
  int64_t expected = 0, seen = 0;
};

struct EmulateResult {
  bool finished = false;  // false: stuck, see below
  std::vector<StuckLane> stuck;
  std::vector<std::string> faults;  // reads of poison, out-of-bounds and the like
  bool verified = false;            // every output element of every run within its bound
  int64_t wrong_elements = 0;
  double worst_error = 0;    // largest |got - expected| / bound (random), or |difference|
  std::string first_wrong;   // "rank 2 out[3,17]: got 1.5, expected 1.25, bound 0.01"
  uint64_t output_hash = 0;  // of all output bits of all ranks and runs
  double gemm_flops = 0;
  double seconds = 0;  // wall time of the execution without verification
};

EmulateResult emulate(const Plan& plan, const EmulateOptions& options = {});

}  // namespace stretto
