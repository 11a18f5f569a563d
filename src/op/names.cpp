#include "op/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text.h"

namespace stretto {
namespace {

struct OtherName {
  std::string_view name, meant;
};

// As PyTorch, NumPy and C call them.
constexpr OtherName kOtherNames[] = {
    {"bfloat16", "bf16"}, {"bfloat", "bf16"}, {"float16", "fp16"},
    {"f16", "fp16"},      {"half", "fp16"},   {"float32", "fp32"},
    {"f32", "fp32"},      {"float", "fp32"},  {"single", "fp32"},
};

// Near to a type of more bits as a word, and not as a type.
constexpr std::string_view kNotServed[] = {"fp8",  "f8",  "float8",  "e4m3",   "e5m2",
                                           "int8", "i8",  "uint8",   "fp4",    "int4",
                                           "fp64", "f64", "float64", "double", "tf32"};

std::string served() {
  return fmt::format("{}", fmt::join(std::begin(kDTypeNames), std::end(kDTypeNames), ", "));
}

}  // namespace

std::string unknown_dtype(std::string_view name) {
  const auto* const other = std::find_if(std::begin(kOtherNames), std::end(kOtherNames),
                                         [&](const OtherName& one) { return one.name == name; });
  if (other != std::end(kOtherNames)) {
    return fmt::format("unknown dtype {} (did you mean '{}'?); known: {}", quote(name),
                       other->meant, served());
  }
  const bool is_other_type =
      std::any_of(std::begin(kNotServed), std::end(kNotServed),
                  [&](std::string_view one) { return name.starts_with(one); });
  if (is_other_type) {
    return fmt::format("unknown dtype {}: operators are of 16 or 32 bits; known: {}", quote(name),
                       served());
  }
  return unknown_word("dtype", name, kDTypeNames);
}

}  // namespace stretto
