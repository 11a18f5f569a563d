// What an execution did that no right plan does, in words. Counts all, keeps the first ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "emu/memory.h"
#include "stretto/emulate.h"
#include "stretto/plan.h"

namespace stretto::emu {

struct Where {
  uint32_t lane = 0, pos = 0;
  int run = 0;
};

class Faults {
 public:
  explicit Faults(const Plan& plan) : plan_(plan) {}

  // One fault a region and instruction is kept, however many pieces it was seen in.
  void unfit_read(const Where& where, const Region& region, const Unfit& unfit);
  void overtaken_write(const Where& where, const Region& region, int64_t elements);
  void out_of_bounds(const Where& where, const Region& region);
  void foreign(const Where& where, const Region& region);
  void disagreement(const Where& where, const std::string& about);
  // What a kernel of the graph's did.
  void in_kernel(const Where& where, const std::string& name, const std::string& finding);
  // The caller of `rank` read an output that was not what this run wrote.
  void unfit_output(int rank, int run, const Region& region, const Unfit& unfit);

  bool none() const { return count_ == 0; }
  // The kept ones, and a last one that counts the others.
  std::vector<EmulateFault> all() const;

 private:
  bool is_new(const Where& where, int kind, const Region& region);
  void add(const Where& where, std::string_view what);
  void add(EmulateFault fault);

  const Plan& plan_;
  size_t count_ = 0;
  std::vector<EmulateFault> kept_;
  std::unordered_set<uint64_t> seen_;
};

}  // namespace stretto::emu
