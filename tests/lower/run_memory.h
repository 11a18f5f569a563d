// The buffers of all ranks in a sequential run: integer inputs, poison everywhere else, and at the
// end what is wrong with the outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/lower.h"

namespace stretto {

// The first few.
class RunFaults {
 public:
  void add(const std::string& what) {
    if (!are_enough()) list_.push_back(what);
  }
  bool empty() const { return list_.empty(); }
  bool are_enough() const { return list_.size() >= 5; }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::vector<std::string> list_;
};

class RunMemory {
 public:
  RunMemory(const Draft& draft, RunFaults& faults);

  // Row-major contents; appended to `values`.
  void load(const Region& region, std::vector<float>& values);
  void store(const Region& region, std::span<const float> values);
  // That every element of the output is right and was written once.
  void verify();

 private:
  struct Instance {
    int64_t rows = 0, cols = 0;
    std::vector<float> values;
    std::vector<uint8_t> writes;
  };

  Instance& instance(const Region& region);
  bool is_inside(const Region& region);
  void fill_input(Instance& m, const std::string& name, int rank) const;

  const Plan& plan_;
  const Segment& op_;
  RunFaults& faults_;
  std::vector<Instance> memory_;  // by buffer and rank
};

}  // namespace stretto
