// The caller of the operator: writes the inputs before each run, reads the outputs after it, and
// compares them with the reference once every rank's are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emu/faults.h"
#include "emu/memory.h"
#include "emu/output_check.h"
#include "emu/shared_reference.h"
#include "stretto/emulate.h"

namespace stretto::emu {

class Caller {
 public:
  // Throws UsageError when the plan's input and output buffers are not what its operator has.
  Caller(const Plan& plan, const EmulateOptions& options, Memory& memory, Faults& faults);

  void write_inputs(int rank, int run);
  void read_output(int rank, int run);

  // Adds what was found to the result; called when the execution is over.
  void report(EmulateResult& result) const;
  double seconds() const { return seconds_; }  // spent in here

 private:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  struct Run {
    std::vector<std::vector<Bytes>> outputs;  // by output and rank
    int read = 0;
  };
  void verify(int run, const Run& outputs);
  InputData data(int run) const;

  const Plan& plan_;
  const EmulateOptions& options_;
  Memory& memory_;
  Faults& faults_;
  std::shared_ptr<SharedReference> reference_;
  Roundings roundings_;
  OutputCheck check_;
  struct Bound {
    int tensor = 0;
    uint16_t buffer = 0;
  };
  std::vector<Bound> inputs_, outputs_;  // as the operator has them
  std::map<int, Run> runs_;              // outputs that have been read and not yet verified
  std::vector<uint64_t> hashes_;         // by run and rank
  int verified_runs_ = 0;
  bool ranks_agree_ = true;
  double seconds_ = 0;
};

}  // namespace stretto::emu
