// What a model gains, as tables for people and as the object of --json, which its page shows too.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/json.h"
#include "cli/model_estimate.h"

namespace stretto::cli {

struct ModelReport {
  const Model& model;
  const Machine& machine;
  const Tuning& tuning;
  ModelShape shape;  // its rows mean nothing
  std::vector<LayerEstimate> layers;

  std::string print() const;
  Json json() const;
};

}  // namespace stretto::cli
