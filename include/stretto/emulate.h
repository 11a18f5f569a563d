// Emulator: executes a plan on real data with all ranks in one process. It is the living definition
// of every instruction, and adversarial: a seed decides which lane moves next, which ranks lag,
// which lanes starve, and in what order and pieces the writes of a lane become visible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/call.h"
#include "stretto/error.h"
#include "stretto/plan.h"
#include "stretto/reference.h"
#include "stretto/segment.h"

namespace stretto {

// Inputs and expected outputs, kept so that executions on the same data (strategies of one
// operator, seeds of one plan) make them once. One thread at a time may use it.
class SharedReference;
std::shared_ptr<SharedReference> make_shared_reference(int64_t max_bytes = int64_t{1} << 30);

inline constexpr int kMaxRuns = 1000;

struct EmulateOptions {
  uint64_t seed = 1;       // interleaving, delays and skew
  uint64_t data_seed = 1;  // input values
  Fill fill = Fill::random;
  Routing routing = {};   // of operators whose rows choose experts
  int runs = 2;           // consecutive epochs, with fresh inputs each
  int64_t max_bytes = 0;  // of memory; 0: three quarters of the machine's. Larger plans are refused
  std::shared_ptr<SharedReference> reference = {};  // may be empty
  // Called now and then with the share of work done, 0..1; may be empty.
  std::function<void(double)> progress = {};
};

// A lane that waits for ever. `expected` and `seen` count what belongs to the run that is waited
// for, as the plan's text does: a wait for 3 of which 2 have come is 3 and 2.
struct StuckLane {
  std::string lane;         // "rank 2 compute 17"
  std::string signal = {};  // "slots.5@2", "boundary 1" or "collective 4"
  int64_t expected = 0, seen = 0;
  int run = 0;
  InstrRef where = {};
};

// Something that no right plan does: a read of poison, a region out of bounds and the like.
struct EmulateFault {
  std::string text;
  std::optional<InstrRef> where = {};  // none when it is no instruction's
  bool operator==(const EmulateFault&) const = default;
};

struct EmulateResult {
  bool finished = false;  // false: stuck, see below
  std::vector<StuckLane> stuck;
  std::vector<EmulateFault> faults;
  bool verified = false;  // every output element of every run within its bound
  int64_t wrong_elements = 0;
  double worst_error = 0;    // largest |got - expected| / bound (random), or |difference|
  std::string first_wrong;   // "rank 2 out[3,17]: got 1.5, expected 1.25, bound 0.01"
  bool is_judged = true;     // false: no element could be, and first_wrong says why
  bool ranks_agree = true;   // gemm-ar: all ranks had the same bits in every run
  uint64_t output_hash = 0;  // of all output bits of all ranks and runs
  // The most of a run: ids that were no expert's, indices that were no row of their table, and not
  // -1. Nothing is chosen there, or added.
  int64_t bad_ids = 0;
  double gemm_flops = 0;
  double seconds = 0;  // wall time of the execution without verification
};

// The plan's buffer is not what its operator has there.
class WrongBuffer : public UsageError {
 public:
  WrongBuffer(const std::string& what, uint16_t of) : UsageError(what), buffer(of) {}
  const uint16_t buffer;
};

// Throws UsageError for what cannot be executed, WrongBuffer.
EmulateResult emulate(const Plan& plan, const EmulateOptions& options = {});

// One run on the caller's tensors, which lie in ordinary memory: `tensors` has a list for each rank
// (call.h), sharded as the operator says. Of the options `seed`, `max_bytes` and `progress` count;
// nothing is compared, so `verified` stays false. Throws as emulate().
EmulateResult execute(const Plan& plan, std::span<const std::vector<CallTensor>> tensors,
                      const EmulateOptions& options = {});

}  // namespace stretto
