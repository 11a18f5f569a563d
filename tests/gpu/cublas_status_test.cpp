#include "gpu/cublas_status.h"

#include <gtest/gtest.h>

#include <string>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

std::string said_of(int status) {
  try {
    check_cublas(status, "multiply");
  } catch (const SystemError& error) {
    return error.what();
  }
  return "";
}

TEST(CublasStatus, IsSaidInWords) {
  EXPECT_EQ(said_of(0), "");
  EXPECT_EQ(said_of(3), "out of GPU memory: cuBLAS had none left to multiply");
  EXPECT_EQ(said_of(13), "cuBLAS could not multiply: its kernel failed (status 13)");
  EXPECT_EQ(said_of(99), "cuBLAS could not multiply: unknown (status 99)");
}

}  // namespace
}  // namespace stretto::cuda
