// The C interface without a GPU: what it says of plans, and of every mistake in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/c.h"
#include "stretto/lower.h"
#include "stretto/machine.h"
#include "stretto/simulate.h"
#include "stretto/tune.h"
#include "stretto/version.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr stretto_operator operator_of(const char* name, const char* sizes, int32_t ranks,
                                       const char* dtype, const char* graph = nullptr) {
  return {sizeof(stretto_operator), name, graph, sizes, ranks, dtype};
}
constexpr stretto_operator kOp = operator_of("gemm-rs", "m=2048 n=1024 k=4096", 8, "bf16");

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

// Ends with the test.
class Handle {
 public:
  explicit Handle(const Asked& asked) {
    const stretto_plan_request request = asked.request();
    EXPECT_EQ(stretto_plan_make(&request, &plan_), STRETTO_GOOD) << stretto_last_error();
  }
  ~Handle() { EXPECT_EQ(stretto_plan_close(plan_), STRETTO_GOOD); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator stretto_plan*() const { return plan_; }  // NOLINT: stands for it

 private:
  stretto_plan* plan_ = nullptr;
};

Planned plan_of(const Asked& asked) {
  const Handle plan(asked);
  const char *schedule = "", *reason = "";
  Planned planned;
  EXPECT_EQ(stretto_plan_schedule(plan, &schedule, &reason), STRETTO_GOOD) << stretto_last_error();
  planned.schedule = schedule;
  planned.reason = reason;
  EXPECT_EQ(stretto_plan_predict(plan, &planned.predicted_us), STRETTO_GOOD);
  return planned;
}

std::string refusal_of(const stretto_plan_request& request) {
  stretto_plan* plan = nullptr;
  EXPECT_EQ(stretto_plan_make(&request, &plan), STRETTO_BAD_USAGE);
  EXPECT_EQ(plan, nullptr);
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

TEST(CPlans, ANameOfASystemIsThePointNearestToIt) {
  const stretto_operator op = operator_of("moe-ep", "t=64 h=256 f=128 experts=8 k=2", 2, "bf16");
  const Planned planned = plan_of(Asked{op, "comet", 0, nullptr});
  EXPECT_EQ(planned.schedule, plan_of(Asked{op, "tiles", 0, nullptr}).schedule);
  EXPECT_THAT(planned.reason, testing::StartsWith("the nearest point to Comet, by Stretto's"));
  EXPECT_THAT(refusal_of(Asked{kOp, "comet", 0, nullptr}),
              HasSubstr("comet has nothing for reduce-scatters behind a product"));
}

TEST(CPlans, AutoChoosesAsTheLibraryDoesAndSaysWhy) {
  const Segment op = parse_segment("gemm-rs m=4096 n=8192 k=14336 ranks=4 dtype=bf16");
  const auto expected = auto_schedule(op, default_machine(4), load_tuning());
  const Planned planned = plan_of(
      Asked{operator_of("gemm-rs", "m=4096 n=8192 k=14336", 4, "bf16"), "auto", 0, nullptr});
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
  const Handle plan(Asked{kOp, "tiles", 0, "h200x8"});
  int64_t count = -1;
  const char* problems = nullptr;
  ASSERT_EQ(stretto_plan_check(plan, &count, &problems), STRETTO_GOOD) << stretto_last_error();
  EXPECT_EQ(count, 0);
  EXPECT_STREQ(problems, "");
  const char* text = nullptr;
  ASSERT_EQ(stretto_plan_text(plan, &text), STRETTO_GOOD);
  EXPECT_EQ(print(parse_plan(text)), text);
}

stretto_tensor_info tensor_of(const stretto_operator& op, int32_t serves, int32_t rank,
                              int32_t index) {
  stretto_tensor_info info = {};
  info.size = sizeof info;
  EXPECT_EQ(stretto_tensor_of(&op, serves, rank, index, &info), STRETTO_GOOD)
      << stretto_last_error();
  return info;
}

TEST(CPlans, TensorsHaveTheGraphsNamesAndRoomForBuckets) {
  struct Case {
    const char* name;
    int32_t serves, rank, index;
    const char* tensor;
    const char* held;
    int64_t rows, cols;
  };
  for (const Case& c : {Case{"ag-gemm", 0, 0, 0, "a", "rows", 130, 576},
                        Case{"ag-gemm", 0, 3, 0, "a", "rows", 127, 576},
                        Case{"ag-gemm", 0, 0, 1, "b", "rows", 240, 576},
                        Case{"ag-gemm", 0, 0, 2, "out", "cols", 517, 240},
                        Case{"gemm-rs", 0, 0, 0, "a", "cols", 517, 144},
                        Case{"gemm-rs", 0, 0, 2, "out", "rows", 130, 960},
                        Case{"gemm-ar", 0, 0, 2, "out", "whole", 517, 960},
                        Case{"ag-gemm", 1, 0, 0, "a", "rows", 192, 576},
                        Case{"gemm-rs", 1, 0, 2, "out", "rows", 192, 960}}) {
    const auto info =
        tensor_of(operator_of(c.name, "m=517 n=960 k=576", 4, "bf16"), c.serves, c.rank, c.index);
    EXPECT_STREQ(info.name, c.tensor);
    EXPECT_STREQ(info.held, c.held);
    EXPECT_EQ(info.is_output != 0, c.index == 2);
    EXPECT_EQ(info.rows, c.rows) << c.name << " " << c.tensor;
    EXPECT_EQ(info.cols, c.cols) << c.name << " " << c.tensor;
  }
  int32_t count = 0;
  const stretto_operator mlp = operator_of("mlp", "m=64 h=32 f=64", 2, "bf16");
  ASSERT_EQ(stretto_tensor_count(&mlp, &count), STRETTO_GOOD);
  EXPECT_EQ(count, 5);
  EXPECT_STREQ(tensor_of(mlp, 0, 0, 4).name, "down");
}

TEST(CPlans, AnyGraphIsComputedOnTheCpuWithItsTensorsByName) {
  constexpr const char* kGraph =
      "graph twice m h\ninput x [m, h] cols\ninput w [2, h] cols\ny = gemm x w\n"
      "z = add y y\noutput z whole\n";
  const Handle plan(Asked{operator_of(nullptr, "m=3 h=4", 2, "fp32", kGraph), "tiles", 0, nullptr});
  // Rows of x are 3 elements apart, z has a column that is not its own.
  float x[2][9] = {{1, 2, 99, 3, 4, 99, 5, 6, 99}, {1, 0, 99, 0, 1, 99, 1, 1, 99}};
  float w[2][4] = {{1, 0, 0, 1}, {1, 1, 2, 0}};
  float z[2][9] = {};
  std::vector<stretto_call_tensor> tensors;
  for (int32_t rank = 0; rank < 2; ++rank) {
    const auto at = [](const float* values) { return reinterpret_cast<uint64_t>(values); };
    constexpr size_t kSize = sizeof(stretto_call_tensor);
    tensors.push_back({kSize, "x", 0, rank, at(x[rank]), 3});
    tensors.push_back({kSize, nullptr, 1, rank, at(w[rank]), 0});
    tensors.push_back({kSize, "z", 0, rank, at(z[rank]), 3});
  }
  ASSERT_EQ(stretto_plan_execute(plan, 3, tensors.data(), tensors.size()), STRETTO_GOOD)
      << stretto_last_error();
  for (const auto& of_rank : z) {
    EXPECT_THAT(of_rank, testing::ElementsAre(4, 8, 0, 8, 8, 0, 14, 16, 0));
  }
  const auto refusal = [&](int64_t rows, size_t count) {
    EXPECT_EQ(stretto_plan_execute(plan, rows, tensors.data(), count), STRETTO_BAD_USAGE);
    return std::string(stretto_last_error());
  };
  EXPECT_THAT(refusal(2, 6), HasSubstr("made for 3, no more and no fewer"));
  EXPECT_THAT(refusal(3, 5), HasSubstr("twice needs its tensors: z missing; it has x, w, z"));
  const uint64_t own = tensors[5].address;
  tensors[5].address = tensors[2].address + 8;  // between rows of rank 0's, and on the next of them
  EXPECT_THAT(refusal(3, 6),
              HasSubstr("tensors z of rank 0 and z of rank 1 lie on each other, and z "
                        "of rank 1 is written: give outputs memory of their own"));
  tensors[5].address = tensors[0].address;
  EXPECT_THAT(refusal(3, 6), HasSubstr("tensors x of rank 0 and z of rank 1 lie on each other"));
  tensors[5].address = own;
  tensors[5].row_stride = INT64_MAX;
  EXPECT_THAT(refusal(3, 6), HasSubstr("3 rows of tensor z begin 9223372036854775807 elements "
                                       "apart: no memory is as large"));
  tensors[5].row_stride = 1;
  EXPECT_THAT(refusal(3, 6), HasSubstr("tensor z begin 1 elements apart; they have 2 columns"));
  tensors[5] = tensors[4];
  EXPECT_THAT(refusal(3, 6), HasSubstr("tensor w is given twice"));
  tensors[5].name = "y";
  EXPECT_THAT(refusal(3, 6), HasSubstr("unknown tensor of twice 'y'"));
  tensors[5] = {sizeof tensors[5], "z", 0, 1, 0, 0};
  EXPECT_THAT(refusal(3, 6), HasSubstr("tensor z is at address 0, and has 3 rows"));
  tensors[5].rank = 2;
  EXPECT_THAT(refusal(3, 6), HasSubstr("the operator has ranks 0 to 1"));
}

TEST(CPlans, APlanThatServesIsComputedWithFewerRows) {
  const Handle plan(Asked{operator_of("gemm-rs", "m=128 n=2 k=4", 2, "fp32"), "tiles", 1, nullptr});
  float a[2][6] = {{1, 2, 3, 4, 5, 6}, {1, 0, 0, 1, 1, 1}};
  float b[2][4] = {{1, 0, 0, 1}, {1, 1, 2, 0}};
  float out[2][4] = {};
  std::vector<stretto_call_tensor> tensors;
  for (int32_t rank = 0; rank < 2; ++rank) {
    for (const auto& [name, values] :
         {std::pair<const char*, float*>{"a", a[rank]}, {"b", b[rank]}, {"out", out[rank]}}) {
      tensors.push_back(
          {sizeof(stretto_call_tensor), name, 0, rank, reinterpret_cast<uint64_t>(values), 0});
    }
  }
  ASSERT_EQ(stretto_plan_execute(plan, 3, tensors.data(), tensors.size()), STRETTO_GOOD)
      << stretto_last_error();
  EXPECT_THAT(out[0], testing::ElementsAre(2, 4, 4, 4));
  EXPECT_THAT(out[1], testing::ElementsAre(7, 8, 0, 0));
  EXPECT_EQ(stretto_plan_execute(plan, 0, nullptr, 0), STRETTO_GOOD);
  stretto_tensor_info info = {};
  info.size = sizeof info;
  ASSERT_EQ(stretto_plan_tensor(plan, 3, 1, 2, &info), STRETTO_GOOD);
  EXPECT_EQ(info.rows, 1);
}

TEST(CPlans, ThreadsExecuteOnePlanWithRowsOfTheirOwn) {
  const Handle plan(Asked{operator_of("gemm-rs", "m=64 n=2 k=4", 2, "fp32"), "tiles", 1, nullptr});
  std::atomic<int> wrong = 0;
  const auto serve = [&](int64_t first) {
    const float own = static_cast<float>(first + 1);
    std::vector<float> a(64 * 2, own), b(2 * 2, 1), out(2 * 32 * 2);
    std::vector<stretto_call_tensor> tensors;
    for (int32_t rank = 0; rank < 2; ++rank) {
      for (const auto& [name, values] : {std::pair<const char*, float*>{"a", a.data()},
                                         {"b", b.data()},
                                         {"out", out.data() + rank * 64}}) {
        tensors.push_back(
            {sizeof(stretto_call_tensor), name, 0, rank, reinterpret_cast<uint64_t>(values), 0});
      }
    }
    for (int64_t i = 0; i < 63; ++i) {
      const int64_t rows = 1 + (7 * i + first) % 63;  // each other thread meets them elsewhere
      const int status = stretto_plan_execute(plan, rows, tensors.data(), tensors.size());
      if (status != STRETTO_GOOD || out[0] != 4 * own) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (int64_t first = 0; first < 6; ++first) threads.emplace_back(serve, first);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CPlans, EveryMistakeIsOneLineThatSaysWhatWouldBeRight) {
  struct Case {
    Asked asked;
    const char* says;
  };
  constexpr const char* kSizes = "m=64 n=64 k=64";
  const auto with = [](stretto_operator op) { return Asked{op, "tiles", 0, nullptr}; };
  for (const Case& c : {
           Case{with(operator_of("gemm", "", 1, "bf16")), "known: a2a-gemm, ag-gemm"},
           Case{with(operator_of("gemm-rs", kSizes, 1, "int8")), "unknown dtype 'int8'"},
           Case{with(operator_of("gemm-rs", "m=0 n=64 k=64", 1, "bf16")), "m is 0"},
           Case{with(operator_of("gemm-rs", "m=64 n=64 k=7", 2, "bf16")), "take k = 6 or 8"},
           Case{with(operator_of("gemm-rs", "m=64 n=64", 1, "bf16")), "k= is missing"},
           Case{with(operator_of("gemm-rs", kSizes, -1, "bf16")), "ranks is -1"},
           Case{with(operator_of(nullptr, kSizes, 1, "bf16")), "either a name or a graph"},
           Case{with(operator_of("mlp", kSizes, 1, "bf16", "graph")), "either a name or a graph"},
           Case{with(operator_of(nullptr, kSizes, 1, "bf16", "graph a m\nz = gem")),
                "unknown kind"},
           Case{with(operator_of("gemm-rs", nullptr, 1, "bf16")), "sizes is NULL"},
           Case{with(operator_of("gemm-rs", kSizes, 1, nullptr)), "dtype is NULL"},
           Case{{kOp, nullptr, 0, nullptr}, "schedule is NULL"},
           Case{{kOp, "tile\nless", 0, nullptr}, "tile"},
           Case{{kOp, "atuo", 0, nullptr}, "(did you mean 'auto'?)"},
           Case{{kOp, "tiles", 0, "nowhere"}, "nowhere"},
       }) {
    const std::string line = refusal_of(c.asked);
    EXPECT_THAT(line, HasSubstr(c.says));
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
  stretto_plan* plan = nullptr;
  EXPECT_EQ(stretto_plan_make(nullptr, &plan), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("request is NULL"));
  stretto_tensor_info info = {};
  info.size = sizeof info;
  EXPECT_EQ(stretto_tensor_of(&kOp, 0, 0, 3, &info), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("a tensor with index 3; gemm-rs has 3"));
  EXPECT_EQ(stretto_tensor_of(&kOp, 0, 8, 0, &info), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("rank 8; the operator has ranks 0 to 7"));
}

TEST(CPlans, ErrorsAreTheThreadsOwn) {
  refusal_of(Asked{operator_of("gemm", "", 1, "bf16"), "tiles", 0, nullptr});
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
