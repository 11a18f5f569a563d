// Tasks that choose experts and weigh them, in the text form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/refusal.h"

namespace stretto {
namespace {

std::string plan_with(std::string_view task) {
  return "stretto-plan 2\n"
         "operator gemm-rs m=3 n=8 k=16 ranks=1 dtype=bf16\n"
         "sms 2\nbuffer s fp32 3x8 local\nbuffer b fp32 1x8 input\nbuffer ids i32 3x4 local\n"
         "buffer w fp32 3x4 local\n\nlane 0 compute 0\n  " +
         std::string(task) + "\nend\n";
}

TEST(Router, IsPrintedAsItIsRead) {
  for (const char* task :
       {"top_k groups=1 best=1 s[0:3,0:8] -> ids[0:3,0:4]",
        "top_k #2 groups=4 best=2 s[0:2,0:8] -> ids[0:1,0:2] ids[1:2,2:4]",
        "biased_top_k groups=4 best=4 s[0:3,0:8] b[0:1,0:8] -> ids[0:3,0:3]",
        "slice_ids experts=8 slices=2 ids[0:3,0:2] -> ids[0:3,0:4]",
        "softmax_gate scale=1 normalise=0 s[0:3,0:8] ids[0:3,0:4] -> w[0:3,0:4]",
        "sigmoid_gate scale=2.5 normalise=1 s[1:2,0:8] ids[0:1,0:2] -> w[0:1,1:3]"}) {
    expect_plan_with_tables(plan_with(task));
  }
}

TEST(Router, ThatIsWrongIsRefused) {
  for (const auto& [task, message] : {
           std::pair{"top_k s[0:3,0:8] -> ids[0:3,0:4]", "expected groups=NUMBER"},
           std::pair{"top_k groups=0 best=1 s[0:3,0:8] -> ids[0:3,0:4]", "found '0'"},
           std::pair{"top_k groups=3 best=1 s[0:3,0:8] -> ids[0:3,0:2]",
                     "expected as many columns in each of 3 groups, found s@0[0:3,0:8]"},
           std::pair{"top_k groups=2 best=3 s[0:3,0:8] -> ids[0:3,0:2]",
                     "expected best of at most 2 groups, found 3"},
           std::pair{"top_k groups=4 best=1 s[0:3,0:8] -> ids[0:3,0:3]",
                     "expected at most 2 columns, which are left to choose, found ids@0"},
           std::pair{"top_k groups=1 best=1 s[0:3,0:2] -> ids[0:3,0:4]",
                     "expected at most 2 columns, which are left to choose, found ids@0"},
           std::pair{"top_k groups=1 best=1 s[0:3,0:8] -> w[0:3,0:4]",
                     "expected a table of i32, found w@0[0:3,0:4] of fp32"},
           std::pair{"top_k groups=1 best=1 ids[0:3,0:4] -> ids[0:3,0:4]",
                     "expected no table of whole numbers, found ids@0"},
           std::pair{"top_k groups=1 best=1 s[0:3,0:8] b[0:1,0:8] -> ids[0:3,0:4]",
                     "expected one region, S, found 2"},
           std::pair{"top_k groups=1 best=1 s[0:3,0:8] -> ids[0:2,0:4]",
                     "expected written regions that stack to 3 rows"},
           std::pair{"biased_top_k groups=1 best=1 s[0:3,0:8] -> ids[0:3,0:4]",
                     "expected two regions, S and B, found 1"},
           std::pair{"biased_top_k groups=1 best=1 s[0:3,0:8] b[0:1,0:7] -> ids[0:3,0:4]",
                     "expected one row of 8 columns, found b@0[0:1,0:7] of 1x7"},
           std::pair{"slice_ids experts=8 slices=2 ids[0:3,0:2] -> ids[0:3,0:3]",
                     "expected 4 columns, 2 of each choice, found ids@0[0:3,0:3]"},
           std::pair{"slice_ids experts=1073741824 slices=2 ids[0:3,0:2] -> ids[0:3,0:4]",
                     "expected at most 2147483647 slices in all, found 2 of each of 1073741824"},
           std::pair{"slice_ids experts=8 slices=0 ids[0:3,0:2] -> ids[0:3,0:4]", "found '0'"},
           std::pair{"slice_ids experts=8 slices=2 w[0:3,0:2] -> ids[0:3,0:4]",
                     "expected a table of i32, found w@0[0:3,0:2] of fp32"},
           std::pair{"slice_weights slices=2 ids[0:3,0:2] -> w[0:3,0:4]",
                     "expected no table of whole numbers, found ids@0"},
           std::pair{"slice_weights slices=3 w[0:3,0:1] -> w[0:3,0:4]",
                     "expected 3 columns, 3 of each choice, found w@0[0:3,0:4]"},
           std::pair{"softmax_gate normalise=1 s[0:3,0:8] ids[0:3,0:4] -> w[0:3,0:4]",
                     "expected scale=NUMBER"},
           std::pair{"softmax_gate scale=1 normalise=2 s[0:3,0:8] ids[0:3,0:4] -> w[0:3,0:4]",
                     "expected normalise of 0 or 1, found 2"},
           std::pair{"sigmoid_gate scale=0 normalise=1 s[0:3,0:8] ids[0:3,0:4] -> w[0:3,0:4]",
                     "expected scale (a number above 0"},
           std::pair{"sigmoid_gate scale=1 normalise=1 s[0:3,0:8] w[0:3,0:4] -> w[0:3,0:4]",
                     "expected a table of i32, found w@0[0:3,0:4] of fp32"},
           std::pair{"sigmoid_gate scale=1 normalise=1 s[0:3,0:8] ids[0:2,0:4] -> w[0:3,0:4]",
                     "expected ids of 3 rows, found ids@0[0:2,0:4]"},
           std::pair{"sigmoid_gate scale=1 normalise=1 s[0:3,0:8] ids[0:3,0:4] -> w[0:3,0:3]",
                     "expected a written region of 4 columns, found w@0[0:3,0:3]"},
       }) {
    EXPECT_THAT(refusal(plan_with(task)), testing::HasSubstr(message)) << task;
  }
}

}  // namespace
}  // namespace stretto
