// The caller of the operator: writes the inputs before each run, reads the outputs after it.
#pragma once

#include <vector>

#include "emu/memory.h"
#include "stretto/call.h"
#include "stretto/emulate.h"

namespace stretto::emu {

class Caller {
 public:
  // Throws UsageError when the plan's input and output buffers are not what its operator has.
  Caller(const Plan& plan, Memory& memory);
  virtual ~Caller() = default;
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  virtual void write_inputs(int rank, int run) = 0;
  virtual void read_output(int rank, int run) = 0;
  // Adds what was found to the result; called when the execution is over.
  virtual void report(EmulateResult&) const {}
  double seconds() const { return seconds_; }  // spent in here

 protected:
  // What memory has of an output, row after row; of a partition's rows by choice, as the rank's
  // tables say where they are.
  std::vector<std::byte> rows_of(const Region& whole, int run) const;

  struct Bound {
    int tensor = 0;  // of the operator
    uint16_t buffer = 0;
  };

  const Plan& plan_;
  Memory& memory_;
  std::vector<Bound> inputs_, outputs_;  // as the operator has them
  double seconds_ = 0;
};

}  // namespace stretto::emu
