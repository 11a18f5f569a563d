// Small plans written as text, and what the checker says about them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "stretto/check.h"
#include "stretto/plan.h"

namespace stretto {

// `body`: buffers, signals and lanes; `head`: what stands above the SMs. The operator only matters
// for its ranks: kFragment.
inline Plan text_plan(int ranks, std::string_view body, int sms = 8, std::string_view head = "") {
  return parse_plan("stretto-plan 1\noperator gemm-rs m=64 n=96 k=96 ranks=" +
                    std::to_string(ranks) + " dtype=fp32\n" + std::string(head) + "sms " +
                    std::to_string(sms) + "\n" + std::string(body) + "end\n");
}

inline constexpr CheckOptions kFragment{100, true};

inline CheckReport check_text(int ranks, std::string_view body, int sms = 8) {
  return check(text_plan(ranks, body, sms), kFragment);
}

inline std::string all_messages(const CheckReport& report) {
  std::string text;
  for (const Diagnostic& d : report.diagnostics) {
    text += std::string(to_string(d.kind)) + ": " + d.message + " [" + d.hint + "]\n";
  }
  return text;
}

inline void expect_clean(const CheckReport& report) {
  EXPECT_TRUE(report.clean()) << all_messages(report);
}

// One diagnostic of this kind is all there is; returned, or a blank one.
inline Diagnostic expect_only(const CheckReport& report, DiagnosticKind kind) {
  EXPECT_EQ(report.diagnostics.size(), 1u) << all_messages(report);
  for (const Diagnostic& d : report.diagnostics) {
    EXPECT_EQ(to_string(d.kind), to_string(kind)) << d.message;
    EXPECT_FALSE(d.message.empty());
    EXPECT_FALSE(d.hint.empty());
    if (d.kind == kind) return d;
  }
  return {kind, {}, {}, -1, "", "", ""};
}

}  // namespace stretto
