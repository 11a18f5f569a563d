// What tasks cost that go on with what is in registers: what was measured on an H200
// (docs/notes/graphs.md), not a reduce of memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "stretto/lower.h"
#include "stretto/schedule.h"
#include "stretto/simulate.h"

namespace stretto {
namespace {

double total_us(const std::string& graph) {
  const Operator op = parse_operator("made m=4096 h=4096 n=8192 f=4096 ranks=1 dtype=bf16", {},
                                     parse_graph("graph made m h n f\n" + graph));
  const Machine machine = default_machine(1);
  const Plan plan = lower(op, parse_schedules("sequential,tile=128x256", op, machine), machine);
  return simulate(plan, machine).total_us;
}

TEST(Followers, CostATileWhatTheyTakeInItsEpilogue) {
  const std::string one = "input x [m, h] rows\ninput w [n, h] rows\nc = gemm x w\n";
  const double none = total_us(one + "output c cols\n");
  const double gelu = total_us(one + "a = gelu c\noutput a cols\n");
  const double both =
      total_us("input b [1, n] cols\n" + one + "d = bias c b\na = gelu d\noutput a cols\n");
  const double two = total_us(
      "input x [m, h] rows\ninput w [f, h] rows\ninput v [f, h] rows\n"
      "g = gemm x w\nu = gemm x v\na = swiglu g u\noutput a cols\n");
  EXPECT_NEAR(gelu / none, 1.062, 0.01);
  EXPECT_NEAR(both / none, 1.080, 0.01);
  EXPECT_NEAR(two / none, 1.024, 0.01);
}

// A sum of three and its norm, 132 blocks, 16384 rows of 8192.
TEST(Norms, ReadNothingThatTheirSumHas) {
  const auto sum_and_norm = [](const char* fused) {
    std::string text =
        "stretto-plan 2\noperator gemm-rs m=128 n=128 k=128 ranks=1 dtype=bf16\nsms 132\n"
        "buffer x bf16 49152x8192 input\nbuffer w bf16 1x8192 input\n"
        "buffer y bf16 16384x8192 local\nbuffer z bf16 16384x8192 local\n";
    for (int lane = 0; lane < 128; ++lane) {
      const int begin = lane * 128, end = begin + 128;
      text += fmt::format(
          "lane 0 compute {0}\n  reduce x[{1}:{2},0:8192] x[{3}:{4},0:8192] x[{5}:{6},0:8192] -> "
          "y[{1}:{2},0:8192]\n  norm {7}eps=1e-05 y[{1}:{2},0:8192] w[0:1,0:8192] -> "
          "z[{1}:{2},0:8192]\n",
          lane, begin, end, 16384 + begin, 16384 + end, 32768 + begin, 32768 + end, fused);
    }
    return simulate(parse_plan(text + "end\n"), default_machine(1)).total_us;
  };
  EXPECT_NEAR(sum_and_norm("fused ") / sum_and_norm(""), 353.0 / 452.0, 0.08);
}

}  // namespace
}  // namespace stretto
