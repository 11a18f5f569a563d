// Operations whose `auto` was measured with an algorithm that this cuBLAS may not propose. The
// tuning file is read once a process, so this binary starts itself.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/file.h"
#include "run/gpu_plans.h"
#include "serve/operation_on_memory.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr const char* kInside = "STRETTO_TEST_INSIDE";
constexpr int kRanks = 2;
constexpr int64_t kRows = 64;

struct Sizes {
  int64_t n, k;
};
// For large products cuBLAS proposes many, for small ones few. No shipped file knows any of them.
constexpr Sizes kSizes[] = {{4224, 3712}, {512, 512}, {64, 64}, {16, 32}, {8, 16}};

std::string measured(const Sizes& of) {
  return fmt::format(
      R"({{"operator": "gemm-ar m={} n={} k={} ranks={} dtype=bf16", "machine": "h200x8",
          "library_us": 2, "measured": [{{"schedule": "low-latency,algorithm=7", "time_us": 1,
          "low_us": 1, "high_us": 1}}]}})",
      kRows, of.n, of.k, kRanks);
}

TEST(AutoOfOperationsOnGpus, GoesOnWhereItsAlgorithmIsNotProposed) {
  if (const std::string why = runtime::why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
  if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("ranks that share GPUs go by no tuning file");
  std::vector<std::string> operators;
  for (const Sizes& of : kSizes) operators.push_back(measured(of));
  const std::string file =
      (std::filesystem::path(testing::TempDir()) / fmt::format("tuning-{}.json", getpid()))
          .string();
  write_file(file, fmt::format(R"({{"stretto_tuning": 1, "operators": [{}]}})",
                               fmt::join(operators, ",")));
  const std::string command = fmt::format(
      "{}=1 STRETTO_TUNING_FILE='{}' /proc/{}/exe --gtest_filter=InsideAutoOfOperations.*", kInside,
      file, getpid());
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::remove(file.c_str());
}

TEST(InsideAutoOfOperations, TakesTheFirstWhereNamingTheAlgorithmIsRefused) {
  if (std::getenv(kInside) == nullptr) GTEST_SKIP() << "a part of AutoOfOperationsOnGpus";
  Context context(kRanks, 1);
  for (const Sizes& of : kSizes) {
    SCOPED_TRACE(fmt::format("n={} k={}", of.n, of.k));
    const ProductShape shape{kGemmAr, of.n, of.k, DType::bf16};
    std::string refusal;
    try {
      OperationOnMemory(context, shape, kRows, {.schedule = "low-latency,algorithm=7"});
    } catch (const UsageError& error) {
      refusal = error.what();
      EXPECT_THAT(refusal, HasSubstr("algorithm=7: cuBLAS proposes "));
    }
    OperationOnMemory operation(context, shape, kRows);
    const std::string schedule = operation.schedule(kRows);
    std::cout << fmt::format("n={} k={}: {}\n", of.n, of.k,
                             refusal.empty() ? "algorithm=7 is proposed" : refusal);
    EXPECT_THAT(schedule, HasSubstr("collectives=low-latency"));
    EXPECT_EQ(schedule.find("algorithm=7") == std::string::npos, !refusal.empty()) << schedule;
    for (const int64_t rows : {kRows, int64_t{3}}) {
      for (int rank = 0; rank < kRanks; ++rank) operation.run(rank, context.stream(rank), rows);
    }
    operation.finish();
  }
}

}  // namespace
}  // namespace stretto
