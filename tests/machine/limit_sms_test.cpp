#include <gtest/gtest.h>

#include "stretto/machine.h"

namespace stretto {
namespace {

TEST(LimitSms, AnSmMultipliesAsFastAsBefore) {
  const Machine whole = load_machine("h200x8");
  Machine limited = whole;
  limit_sms(limited, 114);
  EXPECT_EQ(limited.sms, 114);
  EXPECT_DOUBLE_EQ(limited.gemm_tflops / limited.sms, whole.gemm_tflops / whole.sms);
  EXPECT_DOUBLE_EQ(limited.fp32_tflops / limited.sms, whole.fp32_tflops / whole.sms);
  EXPECT_EQ(limited.hbm_gb_per_s, whole.hbm_gb_per_s);
}

TEST(LimitSms, MoreSmsThanTheMachineHasChangeNothing) {
  const Machine whole = load_machine("h200x8");
  for (const int sms : {whole.sms, whole.sms + 12}) {
    Machine limited = whole;
    limit_sms(limited, sms);
    EXPECT_EQ(limited.sms, whole.sms);
    EXPECT_EQ(limited.gemm_tflops, whole.gemm_tflops);
  }
}

}  // namespace
}  // namespace stretto
