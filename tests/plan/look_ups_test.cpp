// Pooled look-ups in the text form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/refusal.h"

namespace stretto {
namespace {

std::string plan_with(std::string_view task) {
  return "stretto-plan 2\n"
         "operator embedding-a2a bags=3 tables=2 rows=5 dim=8 pool=2 ranks=1 dtype=bf16\n"
         "sms 2\nbuffer ids i32 3x4 input\nbuffer w bf16 10x8 input\nbuffer out bf16 3x16 output\n"
         "\nlane 0 compute 0\n  " +
         std::string(task) + "\nend\n";
}

TEST(LookUps, ArePrintedAsTheyAreRead) {
  for (const char* task : {"embed #0 each=5 ids[0:3,0:4] w[0:10,0:8] -> out[0:3,0:16]",
                           "embed_mean each=5 ids[0:2,2:4] w[5:10,0:8] -> out[0:1,8:16] "
                           "out[1:2,8:16]"}) {
    expect_plan_with_tables(plan_with(task));
  }
}

TEST(LookUps, ThatAreWrongAreRefused) {
  for (const auto& [task, message] : {
           std::pair{"embed ids[0:3,0:4] w[0:10,0:8] -> out[0:3,0:16]", "expected each=NUMBER"},
           std::pair{"embed each=0 ids[0:3,0:4] w[0:10,0:8] -> out[0:3,0:16]", "found '0'"},
           std::pair{"embed each=5 ids[0:3,0:4] -> out[0:3,0:16]",
                     "expected two regions, IDS and W, found 1"},
           std::pair{"embed each=4 ids[0:3,0:4] w[0:10,0:8] -> out[0:3,0:16]",
                     "expected tables of 4 rows each, found w@0[0:10,0:8]"},
           std::pair{"embed each=5 ids[0:3,0:3] w[0:10,0:8] -> out[0:3,0:16]",
                     "expected as many columns for each of 2 tables, found ids@0[0:3,0:3]"},
           std::pair{"embed each=5 ids[0:3,0:4] w[0:10,0:8] -> out[0:3,0:8]",
                     "expected 16 columns of 2 tables, found out@0[0:3,0:8]"},
           std::pair{"embed each=5 ids[0:3,0:4] w[0:10,0:8] -> out[0:2,0:16]",
                     "expected written regions that stack to 3 rows"},
           std::pair{"embed each=3 w[0:3,0:4] ids[0:3,0:4] -> out[0:3,0:4]",
                     "expected a table of i32, found w@0[0:3,0:4] of bf16"},
       }) {
    EXPECT_THAT(refusal(plan_with(task)), testing::HasSubstr(message)) << task;
  }
}

}  // namespace
}  // namespace stretto
