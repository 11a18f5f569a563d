#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

#include "plan/sample.h"
#include "stretto/error.h"

namespace stretto {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_plan(text, "edited.plan");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

struct Edit {
  std::string_view from, to;  // the first occurrence of `from` becomes `to`
  std::string_view place, message;
};

void PrintTo(const Edit& edit, std::ostream* out) { *out << edit.from << " -> " << edit.to; }

class ParseErrors : public testing::TestWithParam<Edit> {};

TEST_P(ParseErrors, NameTheirPlaceAndWhatWasExpected) {
  const Edit& edit = GetParam();
  std::string text(kSampleText);
  const size_t at = text.find(edit.from);
  ASSERT_NE(at, std::string::npos) << edit.from;
  text.replace(at, edit.from.size(), edit.to);
  EXPECT_EQ(refusal(text), std::string("edited.plan:") + std::string(edit.place) + ": " +
                               std::string(edit.message));
}

INSTANTIATE_TEST_SUITE_P(
    Header, ParseErrors,
    testing::Values(
        Edit{"stretto-plan 1", "stretto plan 1", "1:1",
             "expected 'stretto-plan 1', found 'stretto'"},
        Edit{"stretto-plan 1", "stretto-plan 2", "1:14",
             "expected a plan of version 1 or older, found version 2: a newer stretto wrote it"},
        Edit{"stretto-plan 1", "stretto-plan", "1:13",
             "expected the plan's version (a number from 1 to 2147483647), found the end of the "
             "line"},
        Edit{"stretto-plan 1", "stretto-plan 1.5", "1:15",
             "expected the end of the line, found '.5'"},
        Edit{"operator gemm-rs", "op gemm-rs", "2:1", "expected 'operator', found 'op'"},
        Edit{"k=6 ranks=2", "k=7 ranks=2", "2:10",
             "expected an operator, found 'gemm-rs m=5 n=4 k=7 ranks=2 dtype=bf16': gemm-rs: k = 7 "
             "is sharded over 2 ranks and must divide: take k = 6 or 8"},
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
             "expected algorithm=NUMBER or nothing, found 'x'"},
        Edit{"sms 132\n", "gemm library algorithm\nsms 132\n", "4:23",
             "expected '=', found the end of the line"},
        Edit{"sms 132\n", "gemm library algorithms=3\nsms 132\n", "4:14",
             "expected algorithm=NUMBER or nothing, found 'algorithms=3'"},
        Edit{"sms 132\n", "gemm library algorithm=2 algorithm=3\nsms 132\n", "4:26",
             "expected algorithm=NUMBER or nothing, found 'algorithm=3'"},
        Edit{"sms 132\n", "gemm tiles\nsms 132\n", "4:6", "expected 'library', found 'tiles'"},
        Edit{"schedule granularity", "schedules granularity", "3:1",
             "expected 'schedule', 'gemm', 'collectives', 'cluster' or 'sms', found 'schedules'"},
        Edit{"granularity=tile", "granularity=\x01", "3:10",
             "expected a schedule's text, found 'granularity=\\x01,made=by-hand'"}));

INSTANTIATE_TEST_SUITE_P(
    Declarations, ParseErrors,
    testing::Values(
        Edit{"buffer a bf16", "buffer 2a bf16", "5:8", "expected a buffer's name, found '2a'"},
        Edit{"buffer a bf16", "buffer a bf17", "5:10", "expected bf16, fp16 or fp32, found 'bf17'"},
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
             "expected sharded=ROWS, copies=COUNT or nothing, found 'copy=2'"},
        Edit{"sharded=5", "sharded5", "9:28",
             "expected sharded=ROWS, copies=COUNT or nothing, found 'sharded5'"},
        Edit{"signals ack 1", "signals ack", "11:12",
             "expected the number of signals (a number from 0 to 2147483647), found the end of the "
             "line"},
        Edit{"signals ack 1", "signals ack 1 count=2", "11:15",
             "expected copies=COUNT or nothing, found 'count=2'"},
        Edit{"signals ack 1", "signal ack 1", "11:1",
             "expected 'buffer', 'signals', 'lane' or 'end', found 'signal'"}));

INSTANTIATE_TEST_SUITE_P(
    Lanes, ParseErrors,
    testing::Values(
        Edit{"lane 0 comm 3", "lane 2 comm 3", "18:6",
             "expected a rank (a number from 0 to 1), found '2'"},
        Edit{"lane 0 comm 3", "lane 0 com 3", "18:8",
             "expected compute, comm, copy or nccl, found 'com'"},
        Edit{"lane 0 comm 3", "lane 0 comm", "18:12",
             "expected a lane's index (a number from 0 to 65535), found the end of the line"},
        Edit{"lane 0 copy 0", "lane 0 comm 3", "23:6",
             "expected lanes ordered by rank, kind and index, found rank 0 comm 3 after rank 0 "
             "comm 3"},
        Edit{"lane 0 copy 0", "lane 0 compute 1", "23:6",
             "expected lanes ordered by rank, kind and index, found rank 0 compute 1 after rank 0 "
             "comm 3"},
        Edit{"\nend\n", "\n", "32:1",
             "expected an instruction, 'lane' or 'end', found the end of the file"},
        Edit{"\nend\n", "\nen", "32:1", "expected an instruction, 'lane' or 'end', found 'en'"},
        Edit{"\nend\n", "\nend\nlane 1 nccl 1\n", "33:1",
             "expected nothing after 'end', found 'lane'"},
        Edit{"\nend\n", "\nend of it\n", "32:5", "expected the end of the line, found 'of'"}));

INSTANTIATE_TEST_SUITE_P(
    Synchronisation, ParseErrors,
    testing::Values(
        Edit{"wait slots.1 >= 2", "await slots.1 >= 2", "19:3",
             "expected an instruction, 'lane' or 'end', found 'await'"},
        Edit{"wait slots.1 >= 2", "wait slot.1 >= 2", "19:8",
             "expected a declared signal array, found 'slot.1'"},
        Edit{"wait slots.1 >= 2", "wait slots >= 2", "19:13", "expected '.', found a blank"},
        Edit{"wait slots.1 >= 2", "wait slots.4 >= 2", "19:14",
             "expected a signal's index (a number from 0 to 3), found '4'"},
        Edit{"wait slots.1 >= 2", "wait slots.1 > 2", "19:16", "expected '>=', found '>'"},
        Edit{"wait slots.1 >= 2", "wait slots.1 >= 0", "19:19",
             "expected a threshold (a number from 1 to 1099511627776), found '0'"},
        Edit{"wait slots.1 >= 2", "wait slots.1 >= -2", "19:19",
             "expected a threshold (a number from 1 to 1099511627776), found '-2'"},
        Edit{"wait slots.1 >= 2", "wait slots.1 >= 99999999999999999999", "19:19",
             "expected a threshold (a number from 1 to 1099511627776), found "
             "'99999999999999999999'"},
        Edit{"wait slots.1 >= 2", "wait slots.1 >= 2 log 1", "19:21",
             "expected the end of the line, found 'log'"},
        Edit{"lag 2", "lag 256", "20:23",
             "expected runs back (a number from 1 to 255), found "
             "'256'"},
        Edit{"lag 2", "lag", "20:22",
             "expected runs back (a number from 1 to 255), found the end of the line"},
        Edit{"notify slots.1@1 += 1", "notify slots.1 += 1", "16:17",
             "expected '@', found a blank"},
        Edit{"notify slots.1@1 += 1", "notify slots.1@2 += 1", "16:18",
             "expected a rank (a number from 0 to 1), found '2'"},
        Edit{"notify slots.1@1 += 1", "notify slots.1@1 = 1", "16:20", "expected '+=', found '='"},
        Edit{"notify slots.1@1 += 1", "notify slots.1@1 += one", "16:23",
             "expected an increment (a number from 1 to 1099511627776), found 'one'"},
        Edit{"boundary 0", "boundary", "14:11",
             "expected the boundary's number (a number from 0 to 2147483647), found the end of "
             "the line"},
        Edit{"signals ack 1", "signals ack 0", "20:8",
             "expected a signal array that has signals, found 'ack.0'"}));

INSTANTIATE_TEST_SUITE_P(
    Regions, ParseErrors,
    testing::Values(Edit{"gemm #5 a[0:2,0:3]", "gemm #x a[0:2,0:3]", "15:9",
                         "expected the tile's number (a number from 0 to 2147483647), found 'x'"},
                    Edit{"gemm #5 a[0:2,0:3]", "gemm #5 [0:2,0:3]", "15:11",
                         "expected a region, like out[0:128,0:256], found '[0:2,0:3]'"},
                    Edit{"gemm #5 a[0:2,0:3]", "gemm #5 aa[0:2,0:3]", "15:11",
                         "expected a declared buffer, found 'aa[0:2,0:3]'"},
                    Edit{"gemm #5 a[0:2,0:3]", "gemm #5 a(0:2,0:3)", "15:12",
                         "expected '[', found '(0:2,0:3)'"},
                    Edit{"gemm #5 a[0:2,0:3]", "gemm #5 a[0:2;0:3]", "15:16",
                         "expected ',', found the end of the line"},
                    Edit{"gemm #5 a[0:2,0:3]", "gemm #5 a[3:2,0:3]", "15:15",
                         "expected a row (a number from 3 to 2147483647), found '2,0:3]'"},
                    Edit{"gemm #5 a[0:2,0:3]", "gemm #5 a[0:2,0:3", "15:20",
                         "expected ']', found a blank"},
                    Edit{"gemm #5 a[0:2,0:3]", "gemm #5 a@2[0:2,0:3]", "15:13",
                         "expected a rank (a number from 0 to 1), found '2[0:2,0:3]'"},
                    Edit{"-> slots[0:3,0:4] slots@1[0:2", "=> slots[0:3,0:4] slots@1[0:2", "15:44",
                         "expected a region, like out[0:128,0:256], found '=>'"},
                    Edit{" -> slots[0:3,0:4] slots@1[0:2,0:4]", "", "15:43",
                         "expected a region or '->', found the end of the line"}));

INSTANTIATE_TEST_SUITE_P(
    Shapes, ParseErrors,
    testing::Values(
        Edit{"b[0:4,0:3] ->", "b[0:4,0:2] ->", "15:3",
             "expected a region of A with the 2 columns of B, found a@0[0:2,0:3] of 2x3"},
        Edit{"a[0:2,0:3] a[2:5,0:3] b[0:4,0:3] ->", "b[0:4,0:3] ->", "15:3",
             "expected regions of A, then one of B, found 1 read regions"},
        Edit{"slots@1[0:2,0:4]\n  notify", "slots@1[0:3,0:4]\n  notify", "15:3",
             "expected written regions that stack to 5 rows, found slots@1[0:3,0:4] of 3x4"},
        Edit{" slots@1[0:2,0:4]\n  notify", "\n  notify", "15:3",
             "expected written regions that stack to 5 rows, found 3 rows"},
        Edit{"slots[3:6,0:4] -> out", "slots[3:5,0:4] -> out", "21:3",
             "expected regions of one shape, 3x4, found slots@0[3:5,0:4] of 2x4"},
        Edit{"-> out[0:3,0:4]\n\nlane 0 copy", "-> out[0:3,0:3]\n\nlane 0 copy", "21:3",
             "expected a written region of 4 columns, found out@0[0:3,0:3] of 3x3"},
        Edit{"copy part[0:2,0:4]", "copy part[0:2,0:2] part[0:2,2:4]", "24:3",
             "expected one region to copy, found 2"},
        Edit{"copy part[0:2,0:4]", "copy part[0:0,0:4]", "24:3",
             "expected a region that is not empty, found part@0[0:0,0:4]"},
        Edit{"-> out[0:2,0:4]\n  collective", "-> out[0:1,0:4]\n  collective", "28:3",
             "expected own part 0 to have the shape 2x4 that is read, found out@1[0:1,0:4] of 1x4"},
        Edit{"part[3:5,0:4] -> out", "-> out", "28:3",
             "expected reduce_scatter with 2 ranks to read and write ranks*p and p regions, found "
             "1 and 1 regions"},
        Edit{"collective all_gather", "collective allgather", "29:14",
             "expected all_gather, reduce_scatter or all_reduce, found 'allgather'"},
        Edit{"deliver out[0:1,0:4] out[1:2,0:4]", "deliver", "31:3",
             "expected deliver to read regions and write none, found 0 and 0"},
        Edit{"lane 0 comm 3", "lane 0 copy 3", "21:3",
             "expected what a copy lane can do, found reduce"},
        Edit{"lane 1 nccl 0", "lane 1 compute 0", "28:3",
             "expected what a compute lane can do, found collective"}));

TEST(ParseErrorsOf, FilesThatAreNoPlans) {
  EXPECT_EQ(refusal(""), "edited.plan:1:1: expected 'stretto-plan 1', found the end of the file");
  EXPECT_EQ(refusal("\n\n ; nothing\n"),
            "edited.plan:4:1: expected 'stretto-plan 1', found the end of the file");
  EXPECT_EQ(refusal(std::string_view("\x7f"
                                     "ELF\0\x01",
                                     6)),
            "edited.plan:1:1: expected 'stretto-plan 1', found '\\x7fELF\\x00\\x01'");
  const std::string zeros(1000, '\0');
  EXPECT_EQ(refusal(zeros).substr(0, 60),
            std::string("edited.plan:1:1: expected 'stretto-plan 1', found '\\x00\\x00\\x00")
                .substr(0, 60));
}

TEST(ParseErrorsOf, EveryTruncationIsNoticed) {
  for (size_t size = 0; size + 1 < kSampleText.size(); ++size) {
    EXPECT_NE(refusal(kSampleText.substr(0, size)), "accepted") << size;
  }
  EXPECT_EQ(refusal(kSampleText.substr(0, kSampleText.size() - 1)), "accepted");  // no last newline
}

}  // namespace
}  // namespace stretto
