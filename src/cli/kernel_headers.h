// Headers of the kernels that a graph names: where they are, and what they say.
#pragma once

#include <string>

#include "cli/options.h"
#include "stretto/operator.h"

namespace stretto::cli {

// The operator with the texts of those headers that are there: in the folder of --kernels or, of a
// graph file, in its own. A plan file brings none by itself. Nothing of them is executed here.
// Throws UsageError where --kernels is no folder; SystemError, UsageError for a header that cannot
// be read.
Operator with_headers(const Operator& op, const Options& options);

// What a compiler says is wrong with a kernel, and what to do where it misses a header.
std::string with_advice(std::string compile_error);
// What to do where a header that is needed was not found.
std::string why_no_header(const EdgeKernel& kernel);

}  // namespace stretto::cli
