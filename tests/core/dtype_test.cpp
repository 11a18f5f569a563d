#include "stretto/dtype.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(DType, NamesAreReadBack) {
  for (DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    EXPECT_EQ(dtype_from(to_string(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from("float"), std::nullopt);
  EXPECT_EQ(dtype_from(""), std::nullopt);
}

TEST(DType, SizesAndRoundoffs) {
  EXPECT_EQ(num_bytes(DType::bf16), 2);
  EXPECT_EQ(num_bytes(DType::fp16), 2);
  EXPECT_EQ(num_bytes(DType::fp32), 4);
  EXPECT_EQ(unit_roundoff(DType::bf16), 1.0 / 256);
  EXPECT_EQ(unit_roundoff(DType::fp16), 1.0 / 2048);
  EXPECT_EQ(unit_roundoff(DType::fp32), 1.0 / (1 << 24));
}

}  // namespace
}  // namespace stretto
