// The operator that a line's words and options ask for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/options.h"
#include "stretto/operator.h"

namespace stretto::cli {

// "4096", "4K" and "2M" (times 1024 and 1024 * 1024); nothing when it is anything else.
std::optional<int64_t> size_from(std::string_view text);
// The same within bounds. Throws UsageError naming the option.
int64_t size_number(std::string_view option, std::string_view text, int64_t absent, int64_t most);

// Sizes are words behind the operator: m=4K n=8K k=28K in any order, or 4Kx8Kx28K in the order in
// which the operator has them, with @8 behind it for the ranks. --m, --n and --k name those that
// are called so, and --layer says N and K. Throws UsageError.
Operator resolve_operator(std::shared_ptr<const GraphText> graph, const Options& options);

// The line's operator: its first word or, where that is left out, the usual one for --layer.
std::string operator_named(const Options& options);

// Of lists that have sizes of their own. Throw UsageError.
int ranks_option(const Options& options);
DType dtype_option(const Options& options);

}  // namespace stretto::cli
