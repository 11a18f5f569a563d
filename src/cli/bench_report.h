// What a benchmark measured, as tables for people and as JSON.
#pragma once

#include <string>
#include <string_view>

#include "cli/benched_operator.h"
#include "cli/json.h"
#include "cli/options.h"

namespace stretto::cli {

// Speed-ups are over the library path: cuBLAS, then NCCL.
inline constexpr std::string_view kLibrary = "library";

// `against`: what speed-ups are over, kLibrary or the name of a strategy that was measured.
std::string print(const BenchedOperator& benched, const std::string& against);
// What the columns of all tables mean.
std::string legend(const std::string& gpu, const Options& options, const Machine& machine,
                   const runtime::BenchOptions& timing, const std::string& against);

Json to_json(const BenchedOperator& benched);

}  // namespace stretto::cli
