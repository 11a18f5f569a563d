// The kernels that are made ahead of time, for every architecture. A sample; STRETTO_THOROUGH=1
// compiles all of them, as ./dev check does.
#include "serve/usual_kernels.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

#include "gpu/compiler_fixture.h"
#include "stretto/buckets.h"
#include "stretto/lower.h"
#include "stretto/machine.h"
#include "tables/kernel_set.h"
#include "thorough.h"

namespace stretto::runtime {
namespace {

using testing::Contains;

// Parts that tests of several processes share: GEMMs exist for the first architecture only.
constexpr size_t kPartsOfGemms = 2;
struct Part {
  std::string arch;
  size_t part, parts;
};
void PrintTo(const Part& part, std::ostream* out) { *out << part.arch << " " << part.part; }

// Both 16-bit types make the same code but for the type that its instructions name; tests/launch
// compiles kernels of each.
bool is_of_fp16(const cuda::KernelEntry& kernel) {
  return kernel.name.find("fp16") != std::string::npos ||
         kernel.name.find("Fp16") != std::string::npos;
}

// What a kernel of products is told to be and to do, word by word. Sums of other ranks are one
// thing that it does: each more is one more term.
std::set<std::string> words_of(const std::string& name) {
  std::set<std::string> words;
  std::istringstream stream(name);
  for (std::string word; stream >> word;) {
    if (word == "adds") stream >> std::ws, stream.ignore(1);
    words.insert(word);
  }
  return words;
}

// Rows, and stages, which follow from them, of a kernel of few rows; what is left is its sort.
struct FewRowsName {
  int rows = 0;
  std::string sort;
};
std::optional<FewRowsName> few_rows_name(const std::string& name) {
  int columns = 0, rows = 0, stages = 0, length = 0;
  if (std::sscanf(name.c_str(), "few rows %dx%dx64 stages %d%n", &columns, &rows, &stages,
                  &length) != 3) {
    return std::nullopt;
  }
  return FewRowsName{rows, fmt::format("{}{}", columns, name.substr(size_t(length)))};
}

// Without those kernels of products than which another of the same tile does the same and more: it
// takes their registers and its own. Of a sort of kernels of few rows the one of the most.
std::vector<cuda::KernelEntry> that_do_most(std::vector<cuda::KernelEntry> kernels) {
  std::vector<std::set<std::string>> words;
  std::map<std::string, int> most_rows;
  for (const cuda::KernelEntry& kernel : kernels) {
    words.push_back(words_of(kernel.name));
    if (const auto few = few_rows_name(kernel.name)) {
      most_rows[few->sort] = std::max(most_rows[few->sort], few->rows);
    }
  }
  const auto is_less = [&](size_t i) {
    if (const auto few = few_rows_name(kernels[i].name)) return few->rows < most_rows[few->sort];
    if (!kernels[i].name.starts_with("gemm ")) return false;
    for (size_t j = 0; j < kernels.size(); ++j) {
      const bool has_all =
          std::includes(words[j].begin(), words[j].end(), words[i].begin(), words[i].end());
      if (has_all && (words[j].size() > words[i].size() || j < i)) return true;
    }
    return false;
  };
  std::vector<cuda::KernelEntry> most;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!is_less(i)) most.push_back(kernels[i]);
  }
  return most;
}

class UsualKernels : public cuda::NeedsCompiler, public testing::WithParamInterface<Part> {};

TEST_P(UsualKernels, DoNotSpillAndCompileInTime) {
  const auto& [arch, part, parts] = GetParam();
  const std::vector<cuda::KernelEntry> all = usual_kernels(shipped_tuning(), arch);
  const std::vector<cuda::KernelEntry> kernels = is_thorough() ? all : that_do_most(all);
  size_t compiled = 0;
  for (size_t i = part; i < kernels.size(); i += parts) {
    if (!kernels[i].missing.empty() || is_of_fp16(kernels[i])) continue;
    expect_no_spills_in_time(kernels[i].name, kernels[i].source, arch);
    ++compiled;
  }
  EXPECT_GT(compiled, 0u);
}

// Kernels have as many registers on sm_89 as on sm_80, and the same instructions; that both compile
// them tests/fibre says.
std::vector<Part> parts() {
  std::vector<Part> all;
  for (const std::string& arch : cuda::known_archs()) {
    if (arch == "sm_89" && !is_thorough()) continue;
    const size_t parts = arch == cuda::known_archs().front() ? kPartsOfGemms : 1;
    for (size_t part = 0; part < parts; ++part) all.push_back({arch, part, parts});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(GpuCompile, UsualKernels, testing::ValuesIn(parts()),
                         [](const auto& part) {
                           return fmt::format("{}_{}", part.param.arch, part.param.part);
                         });

std::set<std::string> names_of(const std::vector<cuda::KernelEntry>& kernels) {
  std::set<std::string> names;
  for (const cuda::KernelEntry& entry : kernels) names.insert(entry.name);
  return names;
}

// Without a tuned operator there is nothing to choose for.
TEST(UsualKernelsList, IsMadeFromTheTuning) {
  EXPECT_TRUE(usual_kernels(Tuning(), "sm_90a").empty());
}

// With fixed rows, and of the bucket that an operation of as many rows begins with.
TEST(UsualKernelsList, HasOnceWhatAutoTakesForEveryTunedOperator) {
  const Tuning tuning = shipped_tuning();
  const auto kernels = usual_kernels(tuning, "sm_90a");
  const std::set<std::string> usual = names_of(kernels);
  EXPECT_EQ(usual.size(), kernels.size());
  const auto expect_usual = [&](const Segment& op, const Schedule& schedule,
                                const Machine& machine) {
    const bool serves = schedule.rows == RowCount::bucket;
    for (const auto& entry : cuda::kernels_of(lower(op, schedule, machine), "sm_90a", serves)) {
      EXPECT_THAT(usual, Contains(entry.name)) << to_string(op);
    }
  };
  for (const TunedOperator& tuned : tuning.operators()) {
    const Machine machine = load_machine(tuned.machine);
    Segment op = tuned.op;
    expect_usual(op, auto_schedule(op, machine, tuning).schedule, machine);
    op.m = bucket_of(op.kind, op.ranks, op.m);
    for (const RowsFrom from : {RowsFrom::host, RowsFrom::gpu_memory}) {
      expect_usual(op, served_schedule(op, machine, tuning, from).schedule, machine);
    }
  }
}

}  // namespace
}  // namespace stretto::runtime
