// What a model's linears take with the library and with Stretto: measured where the tuning knows
// it, else predicted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"
#include "stretto/machine.h"
#include "stretto/segment.h"
#include "stretto/tune.h"

namespace stretto::cli {

struct LinearEstimate {
  Linear linear;
  Segment op;
  std::string refused = "";  // why ranks cannot share it; then nothing else is known
  bool is_measured = false;
  double library_us = 0, stretto_us = 0;
  std::string schedule = "", reason = "";
  size_t symmetric_bytes = 0;  // on each rank, that others reach; beside inputs and outputs

  double gain() const { return library_us / stretto_us; }
};

struct ModelShape {
  int64_t rows = 0;
  int ranks = 1;
  DType dtype = DType::bf16;
  bool all_reduce = false;  // every rank has all rows between linears
};

// The product that a linear is, with the communication that goes with it.
Segment product_of(const Linear& linear, const ModelShape& shape);

LinearEstimate estimate(const Linear& linear, const ModelShape& shape, const Machine& machine,
                        const Tuning& tuning);

// How far off the simulation was where runs of about as many rows were measured on that machine.
struct SimulationError {
  size_t measurements = 0;
  double median = 0, nine_in_ten = 0;  // as shares: 0.05 is 5 %
};
SimulationError simulation_error(const Tuning& tuning, const Machine& machine, int64_t rows);

}  // namespace stretto::cli
