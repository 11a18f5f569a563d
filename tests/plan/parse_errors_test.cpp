// Texts that are no plans, and plans with errors before their first lane: refused with the place
// and what was expected there.
#include "plan/parse_errors.h"

#include <string>
#include <string_view>

#include "plan/refusal.h"
#include "plan/sample.h"

namespace stretto {
namespace {

constexpr std::string_view kFile = "edited.plan";

TEST_P(ParseErrors, NameTheirPlaceAndWhatWasExpected) {
  const Edit& edit = GetParam();
  std::string text(kSampleText);
  const size_t at = text.find(edit.from);
  ASSERT_NE(at, std::string::npos) << edit.from;
  text.replace(at, edit.from.size(), edit.to);
  EXPECT_EQ(refusal(text, kFile), std::string("edited.plan:") + std::string(edit.place) + ": " +
                                      std::string(edit.message));
}

INSTANTIATE_TEST_SUITE_P(
    Header, ParseErrors,
    testing::Values(
        Edit{"stretto-plan 2", "stretto plan 2", "1:1",
             "expected 'stretto-plan 2', found 'stretto'"},
        Edit{"stretto-plan 2", "stretto-plan 3", "1:14",
             "expected a plan of version 2 or older, found version 3: a newer stretto wrote it"},
        Edit{"stretto-plan 2", "stretto-plan", "1:13",
             "expected the plan's version (a number from 1 to 2147483647), found the end of the "
             "line"},
        Edit{"stretto-plan 2", "stretto-plan 2.5", "1:15",
             "expected the end of the line, found '.5'"},
        Edit{"operator gemm-rs", "op gemm-rs", "2:1", "expected 'operator', found 'op'"},
        Edit{"k=6 ranks=2", "k=7 ranks=2", "2:10",
             "expected an operator, found 'gemm-rs m=5 n=4 k=7 ranks=2 dtype=bf16': gemm-rs: k = 7 "
             "is sharded over 2 ranks in blocks of 8, which leaves none for the last: take k = 6 "
             "or 8"},
        Edit{"schedule gran", "run-of 5\nschedule gran", "3:8",
             "expected more rows than the run's (a number from 6 to 2147483647), found '5'"},
        Edit{"sms 132", "sms 0", "4:5",
             "expected the number of SMs (a number from 1 to 2147483647), found '0'"},
        Edit{"sms 132\n", "", "4:1",
             "expected 'gemm', 'collectives', 'cluster' or 'sms', found 'buffer'"},
        Edit{"sms 132\n", "gemm library\n", "5:1",
             "expected 'collectives', 'cluster' or 'sms', found 'buffer'"},
        Edit{"sms 132\n", "collectives low-latency\n", "5:1",
             "expected 'cluster' or 'sms', found 'buffer'"},
        Edit{"sms 132\n", "cluster 2\n", "5:1", "expected 'sms', found 'buffer'"},
        Edit{"sms 132\n", "cluster 3\nsms 132\n", "4:9", "expected '2', found '3'"},
        Edit{"sms 132\n", "cluster\nsms 132\n", "4:8", "expected '2', found the end of the line"},
        Edit{"sms 132\n", "cluster 2\ncluster 2\nsms 132\n", "5:1",
             "expected 'sms', found 'cluster'"},
        Edit{"sms 132\n", "collectives nccl\n", "4:13", "expected 'low-latency', found 'nccl'"},
        Edit{"sms 132\n", "gemm library algorithm=8\nsms 132\n", "4:24",
             "expected algorithm (a number from 1 to 7), found '8'"},
        Edit{"sms 132\n", "gemm library algorithm=0\nsms 132\n", "4:24",
             "expected algorithm (a number from 1 to 7), found '0'"},
        Edit{"sms 132\n", "gemm library algorithm=-1\nsms 132\n", "4:24",
             "expected algorithm (a number from 1 to 7), found '-1'"},
        Edit{"sms 132\n", "gemm library algorithm=3x\nsms 132\n", "4:25",
             "expected behind=NUMBER, algorithm=NUMBER or nothing, found 'x'"},
        Edit{"sms 132\n", "gemm library algorithm\nsms 132\n", "4:23",
             "expected '=', found the end of the line"},
        Edit{"sms 132\n", "gemm library algorithms=3\nsms 132\n", "4:14",
             "expected behind=NUMBER, algorithm=NUMBER or nothing, found 'algorithms=3'"},
        Edit{"sms 132\n", "gemm library algorithm=2 algorithm=3\nsms 132\n", "4:26",
             "expected behind=NUMBER, algorithm=NUMBER or nothing, found 'algorithm=3'"},
        Edit{"sms 132\n", "gemm library behind=0 behind=1\nsms 132\n", "4:23",
             "expected algorithm=NUMBER or nothing, found 'behind=1'"},
        Edit{"sms 132\n", "gemm library behind=-1\nsms 132\n", "4:21",
             "expected behind (a number from 0 to 2147483647), found '-1'"},
        Edit{"sms 132\n", "gemm library behind=3\nsms 132\n", "4:1",
             "expected gemms of compute lanes behind 3 boundaries, found none"},
        Edit{"sms 132\n", "gemm library behind=1\ngemm library behind=1\nsms 132\n", "5:1",
             "expected kernels of a library in ascending order, found one behind 1 boundary"},
        Edit{"sms 132\n", "gemm library behind=1\ngemm library\nsms 132\n", "5:13",
             "expected behind=NUMBER, found the end of the line"},
        Edit{"sms 132\n", "gemm library\ngemm library behind=1\nsms 132\n", "5:1",
             "expected 'collectives', 'cluster' or 'sms', found 'gemm'"},
        Edit{"sms 132\n", "gemm tiles\nsms 132\n", "4:6",
             "expected 'library' or 'few-rows', found 'tiles'"},
        Edit{"sms 132\n", "gemm few-rows algorithm=1\nsms 132\n", "4:15",
             "expected behind=NUMBER or nothing, found 'algorithm=1'"},
        Edit{"sms 132\n", "gemm few-rows behind=1 algorithm=1\nsms 132\n", "4:24",
             "expected nothing, found 'algorithm=1'"},
        Edit{"sms 132\n", "gemm few-rows\nsms 132\n", "4:1",
             "expected 'collectives low-latency' with 'gemm few-rows', which sends to these, found "
             "none"},
        Edit{"schedule granularity", "schedules granularity", "3:1",
             "expected 'schedule', 'gemm', 'collectives', 'cluster' or 'sms', found 'schedules'"},
        Edit{"granularity=tile", "granularity=\x01", "3:10",
             "expected a schedule's text, found 'granularity=\\x01,made=by-hand'"}));

INSTANTIATE_TEST_SUITE_P(
    Declarations, ParseErrors,
    testing::Values(
        Edit{"buffer a bf16", "buffer 2a bf16", "5:8", "expected a buffer's name, found '2a'"},
        Edit{"buffer a bf16", "buffer a bf17", "5:10",
             "expected bf16, fp16, fp32, i32 or i64, found 'bf17'"},
        Edit{"5x3 input", "5*3 input", "5:16", "expected 'x', found '*3'"},
        Edit{"5x3 input", "0x3 input", "5:15",
             "expected rows (a number from 1 to 2147483647), found '0x3'"},
        Edit{"5x3 input", "5x2147483648 input", "5:17",
             "expected columns (a number from 1 to 2147483647), found '2147483648'"},
        Edit{"5x3 input", "5x3 inputs", "5:19",
             "expected input, output, local or symmetric, found 'inputs'"},
        Edit{"buffer b bf16", "buffer a bf16", "6:8",
             "expected a buffer's name that is not taken yet, found 'a'"},
        Edit{"symmetric copies=2", "symmetric copies=256", "7:40",
             "expected copies (a number from 1 to 255), found '256'"},
        Edit{"symmetric copies=2", "symmetric copy=2", "7:33",
             "expected sharded=ROWS, columns=COLUMNS, copies=COUNT, by=PARTITION or nothing, found "
             "'copy=2'"},
        Edit{"sharded=5", "sharded5", "9:28",
             "expected sharded=ROWS, columns=COLUMNS, copies=COUNT, by=PARTITION or nothing, found "
             "'sharded5'"},
        Edit{"signals ack 1", "signals ack", "11:12",
             "expected the number of signals (a number from 0 to 2147483647), found the end of the "
             "line"},
        Edit{"signals ack 1", "signals ack 1 count=2", "11:15",
             "expected copies=COUNT or nothing, found 'count=2'"},
        Edit{"signals ack 1", "signal ack 1", "11:1",
             "expected 'partition', 'buffer', 'signals', 'lane' or 'end', found 'signal'"}));

TEST(ParseErrorsOf, FilesThatAreNoPlans) {
  EXPECT_EQ(refusal("", kFile),
            "edited.plan:1:1: expected 'stretto-plan 2', found the end of the file");
  EXPECT_EQ(refusal("\n\n ; nothing\n", kFile),
            "edited.plan:4:1: expected 'stretto-plan 2', found the end of the file");
  EXPECT_EQ(refusal(std::string_view("\x7f"
                                     "ELF\0\x01",
                                     6),
                    kFile),
            "edited.plan:1:1: expected 'stretto-plan 2', found '\\x7fELF\\x00\\x01'");
  const std::string zeros(1000, '\0');
  EXPECT_EQ(refusal(zeros, kFile).substr(0, 60),
            std::string("edited.plan:1:1: expected 'stretto-plan 2', found '\\x00\\x00\\x00")
                .substr(0, 60));
}

TEST(ParseErrorsOf, EveryTruncationIsNoticed) {
  for (size_t size = 0; size + 1 < kSampleText.size(); ++size) {
    EXPECT_NE(refusal(kSampleText.substr(0, size), kFile), "accepted") << size;
  }
  EXPECT_EQ(refusal(kSampleText.substr(0, kSampleText.size() - 1), kFile),
            "accepted");  // no last newline
}

}  // namespace
}  // namespace stretto
