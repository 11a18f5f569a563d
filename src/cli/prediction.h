// Simulated times as the columns, legend and JSON that `run` and `simulate` share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/json.h"
#include "cli/request.h"
#include "stretto/simulate.h"

namespace stretto::cli {

// Throws as simulate() does; what never ends is said with its place in the plan's file.
Simulation predict(const NamedPlan& named, const Machine& machine);

// Share of the communication that runs behind computation, 0..1; nothing when there is none.
std::optional<double> hidden_share(const Simulation& simulation);

// Predicted total of `sequential` for the request's operator; nothing when it cannot serve it.
std::optional<double> sequential_us(const Request& request);

std::vector<std::string> prediction_header();
std::vector<std::string> prediction_units();
std::vector<std::string> prediction_cells(const Simulation& simulation,
                                          std::optional<double> sequential_us);
std::string prediction_legend(const Machine& machine, size_t label_width);
Json prediction_json(const Simulation& simulation, std::optional<double> sequential_us);

}  // namespace stretto::cli
