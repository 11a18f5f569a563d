// How the time of a proof grows with the products of a plan: as their number, not as its square.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "check/program.h"
#include "launch/rank_program.h"
#include "stretto/lower.h"

namespace stretto {
namespace {

// One product behind the other, of few rows: each second one's sums go to all.
Plan chain_of(int products) {
  std::string text =
      "graph chain m n\ninput x [m, n] whole\ninput v [n, n] rows\ninput w [n, n] cols\n";
  std::string from = "x";
  for (int i = 0; i < products; ++i) {
    const std::string made = "t" + std::to_string(i);
    text += made + " = gemm " + from + (i % 2 == 0 ? " v\n" : " w\n");
    from = made;
  }
  text += "output " + from + " whole\n";
  const Machine machine = default_machine(2);
  const Operator op = make_graph(parse_graph(text), {{"m", 4}, {"n", 256}}, 2, DType::bf16);
  return lower(op, schedule_of(find_preset("few-rows"), op, machine), machine);
}

// Of a processor: other processes take none of it. The least of three.
double seconds_of_proof(const Plan& plan) {
  const std::vector<cuda::RankProgram> programs = cuda::programs_of(plan);
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    EXPECT_TRUE(checker::check_programs(plan, programs).empty());
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

// Four times as many take four times as long, or sixteen times where each looks at all others.
TEST(ProgramTime, GrowsAsTheNumberOfProducts) {
  const Plan few = chain_of(250), many = chain_of(1000);
  const double of_few = seconds_of_proof(few), of_many = seconds_of_proof(many);
  EXPECT_LT(of_many, 9 * of_few) << of_few << " s and " << of_many << " s";
}

}  // namespace
}  // namespace stretto
