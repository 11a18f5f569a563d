// What the parts of a model's layer take with the library and with Stretto: measured where the
// tuning knows it, else predicted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"
#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/segment.h"
#include "stretto/tune.h"

namespace stretto::cli {

struct ModelShape {
  int64_t rows = 0;
  int ranks = 1;
  DType dtype = DType::bf16;
  bool all_reduce = false;     // every rank has all rows between linears
  bool deals_experts = false;  // to ranks; or each expert is cut over all of them
};

// One of a layer's linears, or all its experts.
struct PartEstimate {
  std::string name;
  Operator op;
  std::string refused = "";  // why ranks cannot share it; then nothing else is known, perhaps `op`
  bool is_measured = false;
  // Whether GPUs have kernels for it; what GPUs cannot run is predicted all the same.
  bool runs_on_gpus = true;
  // Whether cuBLAS has such products; else the library's time is that of our kernels, with all
  // collectives exposed.
  bool has_library = true;
  double library_us = 0, stretto_us = 0;
  std::string schedule = "", reason = "";
  size_t symmetric_bytes = 0;  // on each rank, that others reach; beside inputs and outputs

  double gain() const { return library_us / stretto_us; }
};

// The product that a linear is, with the communication that goes with it.
Segment product_of(const Linear& linear, const ModelShape& shape);

PartEstimate estimate(const Linear& linear, const ModelShape& shape, const Machine& machine,
                      const Tuning& tuning);
// Of a routed model.
PartEstimate estimate_experts(const Model& model, const ModelShape& shape, const Machine& machine,
                              const Tuning& tuning);

// All of a layer at one number of rows.
struct LayerEstimate {
  ModelShape shape;
  std::vector<PartEstimate> parts;

  bool is_whole() const;      // no part is refused
  bool runs_on_gpus() const;  // all parts do
  double library_us() const;
  double stretto_us() const;
  double gain() const { return library_us() / stretto_us(); }
  // Of the part that needs most: they run one after the other.
  size_t most_bytes() const;
};

// How far off the simulation was where runs of about as many rows were measured on that machine.
struct SimulationError {
  size_t measurements = 0;
  double median = 0, nine_in_ten = 0;  // as shares: 0.05 is 5 %
};
inline bool is_few(int64_t rows) { return rows < 512; }
SimulationError simulation_error(const Tuning& tuning, const Machine& machine, int64_t rows);

}  // namespace stretto::cli
