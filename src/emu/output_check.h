// Outputs of a plan against the reference, whoever executed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "stretto/plan.h"
#include "stretto/reference.h"

namespace stretto::emu {

// How a plan's partial sums are rounded on their way, read off its reduces and collectives.
Roundings roundings_of(const Plan& plan);

// Makes all NaNs among the elements the same one: which of two NaNs a sum has is not defined.
void unify_nans(DType dtype, std::vector<std::byte>& elements);

uint64_t hash_bytes(const std::vector<std::byte>& bytes);
uint64_t hash_all(const std::vector<uint64_t>& hashes);

struct OutputCheck {
  explicit OutputCheck(const Plan& of) : plan(of) {}

  // The rows of a rank's part of output `index` that `expected` has.
  void compare(int run, int rank, size_t index, const std::byte* output,
               const ExpectedRows& expected);

  // After all: says it where nothing could be judged.
  void conclude();

  const Plan& plan;
  int64_t wrong_elements = 0;
  double worst_error = 0;   // as in EmulateResult
  std::string first_wrong;  // the same
  bool is_judged = true;    // the same

 private:
  int64_t judged_ = 0, unjudged_ = 0;  // elements
};

}  // namespace stretto::emu
