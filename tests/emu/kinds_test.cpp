// Each kind of task alone, in a plan of hand, on the emulator: against a computation in fp64 here
// that shares nothing with it but the inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "emu/tasks.h"
#include "plans.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/perfetto.h"
#include "stretto/simulate.h"
#include "stretto/timeline.h"
#include "tasks/elements.h"

namespace stretto::emu {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr int kRows = 7, kCols = 37;

std::string head(std::string_view types) {
  std::string text = "stretto-plan 2\noperator gemm-rs m=1 n=1 k=1 ranks=1 dtype=bf16\nsms 2\n";
  const std::string type(types);
  text += "buffer x " + type + " 8x64 input\nbuffer u " + type + " 8x64 input\n";
  text += "buffer row " + type + " 2x64 input\n";
  text += "buffer y " + type + " 8x64 local\nbuffer wide fp32 8x64 local\n";
  text += "buffer z " + type + " 8x64 local\n\nlane 0 comm 0\n  ";
  return text;
}

// One task of a plan, run in pieces of its rows.
class OneTask {
 public:
  explicit OneTask(const std::string& text)
      : plan_(plan_of(text)),
        memory_(plan_),
        signals_(plan_, 1),
        faults_(plan_),
        scheduler_(plan_, 1),
        in_flight_(plan_, memory_, signals_, faults_, scheduler_),
        tasks_(plan_, memory_, in_flight_, faults_) {}

  Matrix write(std::string_view buffer, double scale, bool poison = false) {
    const Region all = whole(buffer);
    const DType dtype = memory_.buffer(all).dtype;
    const auto count = static_cast<size_t>(all.elements());
    std::vector<float> values(count);
    std::normal_distribution<float> normal;
    for (float& value : values) value = static_cast<float>(scale) * normal(random_);
    if (poison) values[count / 2] = std::nanf("");
    std::vector<std::byte> rounded(count * sizeof(float));
    tasks::round_elements(dtype, values.data(), rounded.data(), count);
    memory_.write(all, 0, rounded.data(), all.cols());
    return read(buffer);
  }

  void run() {
    const Where where{0, 0, 0};
    ASSERT_TRUE(tasks_.sound(where));
    const int64_t rows = tasks_.rows(where);
    for (int64_t row = 0; row < rows; row += 3) tasks_.run(where, row, std::min(rows, row + 3));
    in_flight_.deliver_writes(0);
    EXPECT_TRUE(faults_.none());
  }

  Matrix read(std::string_view buffer) {
    const Region all = whole(buffer);
    const auto view = memory_.view(all, 0);
    Matrix values;
    for (int32_t row = 0; row < all.rows(); ++row) {
      std::vector<float> line(static_cast<size_t>(all.cols()));
      const auto* from = static_cast<const std::byte*>(view.data);
      tasks::widen(view.dtype, from + row * view.stride * num_bytes(view.dtype), line.data(),
                   line.size());
      values.emplace_back(line.begin(), line.end());
    }
    return values;
  }

  double roundoff(std::string_view buffer) {
    return unit_roundoff(memory_.buffer(whole(buffer)).dtype);
  }

 private:
  Region whole(std::string_view buffer) const {
    return memory_.whole(*plan_.find_buffer(buffer), 0);
  }

  Plan plan_;
  Memory memory_;
  Signals signals_;
  Faults faults_;
  Scheduler scheduler_;
  InFlight in_flight_;
  Tasks tasks_;
  std::mt19937 random_{7};
};

class Kinds : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, Kinds, testing::Values("bf16", "fp16", "fp32"));

// Rows 1 to 7 and columns 2 to 38 of x and u, and the first 37 columns of a row; y has the result
// from its rows 1 and columns 3, and `wide` in fp32.
constexpr std::string_view kX = " x[1:8,2:39]", kU = " u[1:8,2:39]", kRow = " row[1:2,0:37]";
constexpr std::string_view kTo = " -> y[1:4,3:40] y[4:8,3:40] wide[0:7,0:37] z[1:8,3:40]\nend\n";

template <typename Value>
void expect_values(OneTask& task, const Value& value, double relative, double least) {
  const Matrix y = task.read("y"), wide = task.read("wide"), z = task.read("z");
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kCols; ++col) {
      const double right = value(row, col), exact = std::fabs(right) * relative + least;
      const auto r = static_cast<size_t>(row), c = static_cast<size_t>(col);
      EXPECT_NEAR(wide[r][c], right, exact) << row << " " << col;
      const double rounded = exact + (std::fabs(right) + exact) * task.roundoff("y") + 1e-7;
      EXPECT_NEAR(y[r + 1][c + 3], right, rounded) << row << " " << col;
      EXPECT_EQ(z[r + 1][c + 3], y[r + 1][c + 3]) << "the second replica";
    }
  }
}

std::string text(std::string_view task, std::string_view reads) {
  return head(Kinds::GetParam()) + std::string(task) + std::string(reads) + std::string(kTo);
}

double at(const Matrix& x, int row, int col) {
  return x[static_cast<size_t>(row + 1)][static_cast<size_t>(col + 2)];
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_P(Kinds, Silu) {
  OneTask task(text("silu #2", kX));
  const Matrix x = task.write("x", 4);
  task.run();
  const auto value = [&](int r, int c) { return at(x, r, c) * sigmoid(at(x, r, c)); };
  expect_values(task, value, 1e-6, 0);
}

TEST_P(Kinds, GeluInItsTanhForm) {
  OneTask task(text("gelu", kX));
  const Matrix x = task.write("x", 2);
  task.run();
  const auto value = [&](int r, int c) {
    const double v = at(x, r, c), root = std::sqrt(2 / std::acos(-1.0));
    return 0.5 * v * (1 + std::tanh(root * (v + 0.044715 * v * v * v)));
  };
  expect_values(task, value, 1e-5, 1e-12);
}

TEST_P(Kinds, Swiglu) {
  OneTask task(text("swiglu", std::string(kX) + std::string(kU)));
  const Matrix g = task.write("x", 4), u = task.write("u", 1);
  task.run();
  const auto value = [&](int r, int c) { return at(g, r, c) * sigmoid(at(g, r, c)) * at(u, r, c); };
  expect_values(task, value, 1e-6, 0);
}

TEST_P(Kinds, Bias) {
  OneTask task(text("bias", std::string(kX) + std::string(kRow)));
  const Matrix x = task.write("x", 1), b = task.write("row", 1);
  task.run();
  const auto value = [&](int r, int c) { return at(x, r, c) + b[1][static_cast<size_t>(c)]; };
  expect_values(task, value, 2e-7, 0);
}

TEST_P(Kinds, NormOfEveryRow) {
  OneTask task(text("norm #0 eps=0.25", std::string(kX) + std::string(kRow)));
  const Matrix x = task.write("x", 3), w = task.write("row", 1);
  task.run();
  const auto value = [&](int r, int c) {
    double squares = 0;
    for (int i = 0; i < kCols; ++i) squares += at(x, r, i) * at(x, r, i);
    return at(x, r, c) / std::sqrt(squares / kCols + 0.25) * w[1][static_cast<size_t>(c)];
  };
  expect_values(task, value, 1e-6, 0);
}

TEST_P(Kinds, ReduceInTheOrderListed) {
  OneTask task(text("reduce", std::string(kX) + std::string(kU) + std::string(kX)));
  const Matrix x = task.write("x", 1), u = task.write("u", 1);
  task.run();
  const auto value = [&](int r, int c) {
    return static_cast<float>(at(x, r, c) + at(u, r, c)) + at(x, r, c);
  };
  expect_values(task, value, 1.3e-7, 0);
}

// 37 columns of tiles of 16, 16 and 5, each with rows of its own, and what is added.
TEST_P(Kinds, RestoreOfPackedTiles) {
  OneTask task(text("restore",
                    " x[1:8,2:18] u[0:7,40:56] x[1:8,34:39]" + std::string(kU) + std::string(kX)));
  const Matrix x = task.write("x", 1), u = task.write("u", 1);
  task.run();
  const auto value = [&](int r, int c) {
    const double of_tile = c < 16   ? at(x, r, c)
                           : c < 32 ? u[static_cast<size_t>(r)][static_cast<size_t>(c + 24)]
                                    : at(x, r, c);
    return static_cast<float>(of_tile + at(u, r, c)) + at(x, r, c);
  };
  expect_values(task, value, 1.3e-7, 0);
}

TEST_P(Kinds, Copy) {
  OneTask task(text("copy", kX));
  const Matrix x = task.write("x", 1);
  task.run();
  expect_values(
      task, [&](int r, int c) { return at(x, r, c); }, 0, 0);
}

// Rows without any value, and those far from 0.
TEST(KindsAtEnds, StayFinite) {
  const std::string text =
      head("fp32") + "norm eps=1e-06" + std::string(kX) + std::string(kRow) + std::string(kTo);
  OneTask norm(text);
  norm.write("x", 0);
  norm.write("row", 1);
  norm.run();
  const Matrix normed = norm.read("wide");  // nobody has written what is around it
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kCols; ++c) EXPECT_TRUE(std::isfinite(normed[r][c]));
  }
  for (const char* kind : {"silu", "gelu"}) {
    OneTask task(head("fp32") + kind + std::string(kX) + std::string(kTo));
    const Matrix x = task.write("x", 1e4);
    task.run();
    const Matrix y = task.read("wide");
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kCols; ++c) {
        if (std::fabs(at(x, r, c)) < 200) continue;
        const double right = std::max(0.0, at(x, r, c));
        EXPECT_EQ(y[static_cast<size_t>(r)][static_cast<size_t>(c)], right) << kind;
      }
    }
  }
}

// One rank: a product that is verified, and all other kinds on the way, in local buffers.
constexpr const char* kAll = R"(stretto-plan 2
operator gemm-rs m=4 n=8 k=16 ranks=1 dtype=bf16
sms 2
buffer a bf16 4x16 input
buffer b bf16 8x16 input
buffer g fp32 4x8 local
buffer h fp32 4x8 local
buffer s bf16 4x8 local
buffer q fp32 4x8 local
buffer out bf16 4x8 output

lane 0 compute 0
  gemm #0 a[0:4,0:16] b[0:8,0:16] -> g[0:4,0:8] out[0:4,0:8]
  swiglu #0 g[0:4,0:8] g[0:4,0:8] -> h[0:4,0:8]
  gelu h[0:4,0:8] -> s[0:4,0:8]
  silu s[0:4,0:8] -> h[0:4,0:8]
  bias h[0:4,0:8] b[2:3,4:12] -> s[0:4,0:8]
  norm #0 eps=1e-05 s[0:4,0:8] b[0:1,0:8] -> g[0:4,0:8]
  restore s[0:4,0:4] s[0:4,4:8] g[0:4,0:8] -> h[0:4,0:8]
end
)";

TEST(AllKinds, AreExecutedProvedAndPredicted) {
  const Plan plan = plan_of(kAll);
  EXPECT_EQ(print(plan), kAll);
  EXPECT_TRUE(check(plan).clean());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const EmulateResult result = emulate(plan, {.seed = seed, .runs = 3});
    EXPECT_TRUE(result.verified) << result.first_wrong;
    ASSERT_TRUE(result.faults.empty()) << result.faults[0].text;
  }
  const Simulation simulation = simulate(plan, load_machine("h200x8"));
  const std::string trace = to_perfetto(plan, simulation, nullptr);
  for (const char* title : {"swiglu 0", "gelu", "silu", "bias", "norm 0", "restore"}) {
    EXPECT_NE(trace.find("\"name\":\"" + std::string(title) + "\""), std::string::npos) << title;
  }
}

struct Operand {
  const char* of;
  const char* unwritten;
};

class EveryOperand : public testing::TestWithParam<Operand> {};
INSTANTIATE_TEST_SUITE_P(
    , EveryOperand,
    testing::Values(Operand{"swiglu #0 g[", "swiglu #0 q["},
                    Operand{" g[0:4,0:8] -> h", " q[0:4,0:8] -> h"}, Operand{"gelu h", "gelu q"},
                    Operand{"silu s", "silu q"}, Operand{"bias h", "bias q"},
                    Operand{"b[2:3,4:12]", "q[2:3,0:8]"}, Operand{"eps=1e-05 s", "eps=1e-05 q"},
                    Operand{"b[0:1,0:8] ->", "q[0:1,0:8] ->"}, Operand{"s[0:4,4:8]", "q[0:4,4:8]"},
                    Operand{"g[0:4,0:8] -> h[0:4,0:8]\nend", "q[0:4,0:8] -> h[0:4,0:8]\nend"}));

TEST_P(EveryOperand, IsMissedWhereNobodyHasWrittenIt) {
  const std::string text = replaced(kAll, GetParam().of, GetParam().unwritten);
  EXPECT_FALSE(check(plan_of(text)).clean());
  const EmulateResult result = emulate(plan_of(text));
  ASSERT_FALSE(result.faults.empty());
  EXPECT_NE(result.faults[0].text.find(" q@0["), std::string::npos) << result.faults[0].text;
}

}  // namespace
}  // namespace stretto::emu
