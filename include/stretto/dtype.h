// Element types of tensors, declared once: enum, text name and size come from one table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stretto {

// X(enumerator, text name, bytes, explicit significand bits)
#define STRETTO_DTYPES(X) \
  X(bf16, "bf16", 2, 7)   \
  X(fp16, "fp16", 2, 10)  \
  X(fp32, "fp32", 4, 23)
// Tensors that say which rows are meant have numbers that nothing rounds. No operator's own type.
#define STRETTO_INDEX_DTYPES(X) \
  X(i32, "i32", 4, 31)          \
  X(i64, "i64", 8, 63)
#define STRETTO_ALL_DTYPES(X) STRETTO_DTYPES(X) STRETTO_INDEX_DTYPES(X)

enum class DType : uint8_t {
#define STRETTO_ENUM(name, text, bytes, bits) name,
  STRETTO_ALL_DTYPES(STRETTO_ENUM)
#undef STRETTO_ENUM
};

// Whether it is of numbers that say which rows are meant.
constexpr bool is_index(DType dtype) {
#define STRETTO_IS(name, text, bytes, bits) || dtype == DType::name
  return false STRETTO_INDEX_DTYPES(STRETTO_IS);
#undef STRETTO_IS
}

std::string_view to_string(DType dtype);
std::optional<DType> dtype_from(std::string_view text);  // that an operator can have
std::optional<DType> any_dtype_from(std::string_view text);
int64_t num_bytes(DType dtype);
// Unit roundoff of one rounding to nearest: half the distance from 1 to the next value.
double unit_roundoff(DType dtype);

}  // namespace stretto
