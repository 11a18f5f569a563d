// The C interface without a GPU: what it says of plans, and of every mistake in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "stretto/c.h"
#include "stretto/lower.h"
#include "stretto/machine.h"
#include "stretto/simulate.h"
#include "stretto/tune.h"
#include "stretto/version.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr stretto_operator operator_of(const char* kind, int64_t m, int64_t n, int64_t k,
                                       int32_t ranks, const char* dtype) {
  return {sizeof(stretto_operator), kind, m, n, k, ranks, dtype};
}
constexpr stretto_operator kOp = operator_of("gemm-rs", 2048, 1024, 4096, 8, "bf16");

struct Asked {
  stretto_operator op;
  const char* schedule;
  int32_t serves;
  const char* machine;

  stretto_plan_request request() const {
    return {sizeof(stretto_plan_request), &op, schedule, serves, machine};
  }
};

struct Planned {
  std::string schedule, reason;
  double predicted_us = 0;
};

Planned plan_of(const Asked& asked) {
  const stretto_plan_request request = asked.request();
  const char *schedule = nullptr, *reason = nullptr;
  Planned planned;
  EXPECT_EQ(stretto_plan(&request, &schedule, &reason, &planned.predicted_us), STRETTO_GOOD)
      << stretto_last_error();
  planned.schedule = schedule == nullptr ? "" : schedule;
  planned.reason = reason == nullptr ? "" : reason;
  return planned;
}

std::string refusal_of(const stretto_plan_request& request) {
  const char *schedule = nullptr, *reason = nullptr;
  double us = 0;
  EXPECT_EQ(stretto_plan(&request, &schedule, &reason, &us), STRETTO_BAD_USAGE);
  EXPECT_EQ(schedule, nullptr);
  return stretto_last_error();
}

std::string refusal_of(const Asked& asked) { return refusal_of(asked.request()); }

TEST(CPlans, VersionsAreTheHeadersAndTheProjects) {
  EXPECT_EQ(stretto_c_version(), STRETTO_C_VERSION);
  EXPECT_STREQ(stretto_version(), STRETTO_VERSION);
}

TEST(CPlans, ANamedScheduleIsPredictedAsBySimulate) {
  const Segment op = parse_segment("gemm-rs m=2048 n=1024 k=4096 ranks=8 dtype=bf16");
  const Machine machine = default_machine(8);
  const Schedule schedule = parse_schedule("tiles,tile=64x128", op, machine);
  const Planned planned = plan_of(Asked{kOp, "tiles,tile=64x128", 0, nullptr});
  EXPECT_EQ(planned.schedule, to_string(schedule));
  EXPECT_EQ(planned.reason, "");
  EXPECT_DOUBLE_EQ(planned.predicted_us, simulate(lower(op, schedule, machine), machine).total_us);
}

TEST(CPlans, AutoChoosesAsTheLibraryDoesAndSaysWhy) {
  const Segment op = parse_segment("gemm-rs m=4096 n=8192 k=14336 ranks=4 dtype=bf16");
  const auto expected = auto_schedule(op, default_machine(4), load_tuning());
  const Planned planned =
      plan_of(Asked{operator_of("gemm-rs", 4096, 8192, 14336, 4, "bf16"), "auto", 0, nullptr});
  EXPECT_EQ(planned.schedule, to_string(expected.schedule));
  EXPECT_EQ(planned.reason, expected.reason);
  EXPECT_GT(planned.predicted_us, 0);
}

TEST(CPlans, WhatServesHasRowsInBuckets) {
  EXPECT_THAT(plan_of(Asked{kOp, "tiles", 1, nullptr}).schedule, HasSubstr("rows=bucket"));
  EXPECT_THAT(refusal_of(Asked{kOp, "sequential", 1, nullptr}),
              HasSubstr("rows=bucket with mover=nccl"));
}

TEST(CPlans, ChecksProvePlans) {
  const Asked asked = {kOp, "tiles", 0, "h200x8"};
  const stretto_plan_request request = asked.request();
  int64_t count = -1;
  const char* problems = nullptr;
  ASSERT_EQ(stretto_check(&request, &count, &problems), STRETTO_GOOD) << stretto_last_error();
  EXPECT_EQ(count, 0);
  EXPECT_STREQ(problems, "");
}

TEST(CPlans, ShapesHaveRoomForWholeBlocksAndBuckets) {
  struct Case {
    stretto_operator op;
    int32_t serves;
    stretto_tensor tensor;
    int64_t rows, cols;
  };
  const stretto_operator ag = operator_of("ag-gemm", 517, 960, 576, 4, "bf16");
  const stretto_operator rs = operator_of("gemm-rs", 517, 960, 576, 4, "bf16");
  const stretto_operator ar = operator_of("gemm-ar", 517, 960, 576, 4, "bf16");
  for (const Case& c : {Case{ag, 0, STRETTO_A, 130, 576}, Case{ag, 0, STRETTO_B, 240, 576},
                        Case{ag, 0, STRETTO_OUT, 517, 240}, Case{rs, 0, STRETTO_A, 517, 144},
                        Case{rs, 0, STRETTO_B, 960, 144}, Case{rs, 0, STRETTO_OUT, 130, 960},
                        Case{ar, 0, STRETTO_OUT, 517, 960}, Case{ag, 1, STRETTO_A, 192, 576},
                        Case{rs, 1, STRETTO_OUT, 192, 960}}) {
    int64_t rows = 0, cols = 0;
    EXPECT_EQ(stretto_shape(&c.op, c.serves, c.tensor, &rows, &cols), STRETTO_GOOD)
        << stretto_last_error();
    EXPECT_EQ(rows, c.rows) << c.op.kind << " " << c.tensor;
    EXPECT_EQ(cols, c.cols) << c.op.kind << " " << c.tensor;
  }
}

TEST(CPlans, EveryMistakeIsOneLineThatSaysWhatWouldBeRight) {
  struct Case {
    Asked asked;
    const char* says;
  };
  const auto with = [](stretto_operator op) { return Asked{op, "tiles", 0, nullptr}; };
  for (const Case& c : {
           Case{with(operator_of("gemm", 1, 1, 1, 1, "bf16")), "known: ag-gemm, gemm-rs, gemm-ar"},
           Case{with(operator_of("gemm-rs", 64, 64, 64, 1, "int8")), "unknown dtype 'int8'"},
           Case{with(operator_of("gemm-rs", 0, 64, 64, 1, "bf16")), "m is 0"},
           Case{with(operator_of("gemm-rs", 64, 64, 65, 2, "bf16")), "take k = 64 or 66"},
           Case{with(operator_of("gemm-rs", 64, 64, 64, -1, "bf16")), "ranks is -1"},
           Case{with(operator_of(nullptr, 64, 64, 64, 1, "bf16")), "kind is NULL"},
           Case{with(operator_of("gemm-rs", 64, 64, 64, 1, nullptr)), "dtype is NULL"},
           Case{{kOp, nullptr, 0, nullptr}, "schedule is NULL"},
           Case{{kOp, "tile\nless", 0, nullptr}, "tile"},
           Case{{kOp, "atuo", 0, nullptr}, "(did you mean 'auto'?)"},
           Case{{kOp, "tiles", 0, "nowhere"}, "nowhere"},
       }) {
    const std::string line = refusal_of(c.asked);
    EXPECT_THAT(line, HasSubstr(c.says));
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
  double us = 0;
  const char* text = nullptr;
  EXPECT_EQ(stretto_plan(nullptr, &text, &text, &us), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("request is NULL"));
  int64_t rows = 0;
  EXPECT_EQ(stretto_shape(&kOp, 0, static_cast<stretto_tensor>(3), &rows, &rows),
            STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("0 (a), 1 (b) or 2 (out)"));
}

TEST(CPlans, ErrorsAreTheThreadsOwn) {
  refusal_of(Asked{operator_of("gemm", 1, 1, 1, 1, "bf16"), "tiles", 0, nullptr});
  const std::string mine = stretto_last_error();
  std::string other = "unset";
  std::thread([&] {
    other = stretto_last_error();
    refusal_of(Asked{kOp, "none", 0, nullptr});
  }).join();
  EXPECT_EQ(other, "");
  EXPECT_EQ(stretto_last_error(), mine);
}

}  // namespace
}  // namespace stretto
