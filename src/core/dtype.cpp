#include "stretto/dtype.h"

#include <cmath>

#include "stretto/error.h"

namespace stretto {

std::string_view to_string(DType dtype) {
  switch (dtype) {
#define STRETTO_CASE(name, text, bytes, bits) \
  case DType::name:                           \
    return text;
    STRETTO_ALL_DTYPES(STRETTO_CASE)
#undef STRETTO_CASE
  }
  STRETTO_ASSERT(false, "dtype out of range");
}

std::optional<DType> dtype_from(std::string_view text) {
#define STRETTO_MATCH(name, word, bytes, bits) \
  if (text == word) return DType::name;
  STRETTO_DTYPES(STRETTO_MATCH)
  return std::nullopt;
}

std::optional<DType> any_dtype_from(std::string_view text) {
  STRETTO_ALL_DTYPES(STRETTO_MATCH)
#undef STRETTO_MATCH
  return std::nullopt;
}

int64_t num_bytes(DType dtype) {
  switch (dtype) {
#define STRETTO_CASE(name, text, bytes, bits) \
  case DType::name:                           \
    return bytes;
    STRETTO_ALL_DTYPES(STRETTO_CASE)
#undef STRETTO_CASE
  }
  STRETTO_ASSERT(false, "dtype out of range");
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
#define STRETTO_CASE(name, text, bytes, bits) \
  case DType::name:                           \
    return std::ldexp(1.0, -(bits + 1));
    STRETTO_ALL_DTYPES(STRETTO_CASE)
#undef STRETTO_CASE
  }
  STRETTO_ASSERT(false, "dtype out of range");
}

}  // namespace stretto
