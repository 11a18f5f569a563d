// Collectives that kernels of the graph's make: the kernel itself, executed as the emulator of the
// device language does it, with every access and signal of it checked (fibre/world.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/kernel_calls.h"

namespace stretto::emu {

class EdgeCalls {
 public:
  using Bytes = std::vector<std::byte>;

  // Throws UsageError where a kernel of the plan is not registered (fibre/edge_kernels.h).
  EdgeCalls(const Plan& plan, uint64_t seed);

  // The next call of the collective, of which `instr` is rank 0's part: what each rank reads, and
  // what each wrote, in the order of its regions. Empty: something was found, and `finding` says
  // what, in one line.
  std::vector<Bytes> make(const Instr& instr, std::vector<Bytes> inputs, std::string& finding);

 private:
  // Calls share memory, and a rank may begin one while others are in the one before. So all so far
  // are executed again, ranks apart, up to this number; then as if the plan were made anew.
  static constexpr size_t kMostAtOnce = 4;
  static constexpr int kThreads = 4, kWarp = 2, kMostBlocks = 2;

  const Plan& plan_;
  uint64_t seed_;
  struct Calls {
    std::vector<std::vector<Bytes>> inputs;  // of the last calls, by rank
    uint64_t before = 0;                     // calls that are forgotten
  };
  std::map<int32_t, Calls> by_id_;
};

}  // namespace stretto::emu
