// Plans with errors in their lanes: refused with the place and what was expected there.
#include "plan/parse_errors.h"

namespace stretto {
namespace {

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
             "expected an instruction, 'lane' or 'end', found 'await' (did you mean 'wait'?)"},
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
             "expected all_gather, reduce_scatter, all_reduce, all_to_all, all_reduce_norm, "
             "dispatch, combine, dispatch_all or combine_all, found 'allgather'"},
        Edit{"deliver out[0:1,0:4] out[1:2,0:4]", "deliver", "31:3",
             "expected deliver to read regions and write none, found 0 and 0"},
        Edit{"lane 0 comm 3", "lane 0 copy 3", "21:3",
             "expected what a copy lane can do, found reduce"},
        Edit{"lane 1 nccl 0", "lane 1 compute 0", "28:3",
             "expected what a compute lane can do, found collective"}));

}  // namespace
}  // namespace stretto
