// Which coordinates go together: what clusters, cuBLAS and low-latency collectives ask of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/cases.h"

namespace stretto {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Legal, WhatHasAMeaningIsAllowed) {
  for (const std::string_view text : {
           "tiles,mover=comm-blocks,comm-sms=8",
           "tiles,mover=copy-engine",
           "tiles,sync=counter",
           "tiles,comm-sms=0",
           "tiles,reuse=ack",
           "tiles,partials=fp32",
           "tiles,order=plain",
           "tiles,granularity=whole,sync=event",
           "tiles,granularity=chunk,chunks=4,sync=event",
           "slices,sync=flag",
           "decomposed,sync=flag",
           "decomposed,mover=epilogue",
           "decomposed,chunks=1024",
           "sequential,sync=counter",
           "two-chunk,sync=counter",
           "two-chunk,chunks=5",
           "waves,groups=1+2+4",
           "waves,sync=flag",
           "waves,comm-sms=1",
           "two-chunk,gemm=library,chunks=3",
           "decomposed,gemm=library,partials=fp32",
           "decomposed,gemm=library,comm-sms=4,reuse=double",
           "decomposed,gemm=library,mover=comm-blocks,comm-sms=4,groups=1+1",
           "two-chunk,chunks=5,groups=3+2",
           "library,algorithm=7",
           "low-latency,rows=bucket,algorithm=1",
       }) {
    EXPECT_THAT(reasons(text), IsEmpty()) << text;
  }
  for (const std::string_view text :
       {"tiles,order=arrival", "tiles,mover=copy-engine,comm-sms=0", "tiles,granularity=whole",
        "slices,sync=flag", "decomposed,order=arrival", "waves,sync=flag",
        "decomposed,groups=1+2+1", "tiles,order=interleaved", "slices,order=interleaved,k-phases=2",
        "tiles,own=gathered,k-phases=2", "tiles,start=wave,reuse=ack", "slices,start=wave",
        "tiles,start=wave,k-phases=2,own=gathered,order=interleaved",
        "slices,mover=copy-engine,comm-sms=0,own=gathered"}) {
    EXPECT_THAT(reasons(text, ag_gemm()), IsEmpty()) << text;
  }
  EXPECT_THAT(reasons("tiles,reduction=one-shot,mover=comm-blocks,comm-sms=8", gemm_ar()),
              IsEmpty());
}

TEST(Legal, ClustersArePairsOfTilesThatWaitForTheirRowsOnly) {
  const Segment op{kAgGemm, 1024, 4096, 4096, 2, DType::bf16};
  for (const std::string_view text :
       {"tiles,cluster=2,tile=128x256,comm-sms=8", "tiles,cluster=2,tile=256x128,comm-sms=8",
        "tiles,cluster=2,tile=128x256,comm-sms=130,k-phases=4,own=gathered,order=interleaved"}) {
    EXPECT_THAT(reasons(text, op), IsEmpty()) << text;
  }
  const auto only_reason = [](std::string_view changes, const Segment& of) {
    const std::string text = "tiles,tile=128x256,cluster=2," + std::string(changes);
    const std::vector<std::string> all = reasons(text, of);
    EXPECT_THAT(all, SizeIs(1)) << text;
    return all.empty() ? std::string() : all[0];
  };
  const auto only = [&](std::string_view changes) { return only_reason(changes, op); };
  EXPECT_THAT(reasons("tiles,cluster=0", op), ElementsAre("cluster=0; it must be 1 or 2"));
  EXPECT_THAT(reasons("tiles,cluster=3", op), ElementsAre("cluster=3; it must be 1 or 2"));
  EXPECT_THAT(only_reason("comm-sms=8", {kGemmRs, 1024, 4096, 4096, 2, DType::bf16}),
              HasSubstr("gemm-rs, whose tiles wait for what is added to them: take cluster=1"));
  EXPECT_THAT(only("mover=copy-engine,comm-sms=0"),
              HasSubstr("take cluster=1 or mover=comm-blocks"));
  EXPECT_THAT(only("granularity=slice,comm-sms=8"), HasSubstr("or granularity=tile"));
  EXPECT_THAT(only("split-k=2,comm-sms=8"), HasSubstr("take cluster=1 or split-k=1"));
  EXPECT_THAT(only("rows=bucket,comm-sms=8"), HasSubstr("take cluster=1 or rows=fixed"));
  EXPECT_THAT(only("comm-sms=7"), HasSubstr("half a pair of SMs: take cluster=1 or comm-sms=8"));
  EXPECT_THAT(only_reason("comm-sms=8", {kAgGemm, 1025, 4096, 4096, 2, DType::bf16}),
              HasSubstr("tile=128x256 for m=1025, whose last of 9 tile rows has no partner"));
  // Of own rows by a whole weight every rank pairs what it has; the last may have fewer.
  const ProductKind own = {Held::whole, Edge::none, Edge::none};
  EXPECT_THAT(reasons("tiles,cluster=2,tile=64x64", {own, 512, 64, 64, 4, DType::bf16}), IsEmpty());
  EXPECT_THAT(only_reason("comm-sms=8", {own, 512, 4096, 4096, 4, DType::bf16}),
              HasSubstr("tile=128x256 for 128 rows of rank 0, whose last of 1 tile rows has no"));
  EXPECT_THAT(only_reason("comm-sms=8", {own, 518, 4096, 4096, 4, DType::bf16}),
              HasSubstr("for 128 rows of rank 3"));
  Machine odd = machine_of();
  odd.sms = 131;
  EXPECT_THAT(reasons("tiles,tile=128x256,cluster=2,comm-sms=129", op, odd),
              ElementsAre(HasSubstr("take cluster=1 or comm-sms=128")));
  EXPECT_THAT(reasons("tiles,tile=128x256,cluster=2,comm-sms=130", op, odd),
              ElementsAre(HasSubstr("which leaves no pair of SMs: take cluster=1")));
}

TEST(Legal, ALibraryMultipliesWhatNothingHappensWithin) {
  const auto only_reason = [](std::string_view text, const Segment& op = gemm_rs()) {
    const std::vector<std::string> all = reasons(text, op);
    EXPECT_THAT(all, SizeIs(1)) << text;
    return all.empty() ? std::string() : all[0];
  };
  EXPECT_THAT(only_reason("library,sync=counter"),
              HasSubstr("gemm=library with sync=counter, which a library's kernels know nothing "
                        "of: take gemm=tiles or sync=event"));
  EXPECT_THAT(only_reason("waves,gemm=library"), HasSubstr("or sync=event,granularity=chunk"));
  EXPECT_THAT(only_reason("decomposed,gemm=library,mover=epilogue"),
              HasSubstr("which is its kernel's end: take gemm=tiles or another mover"));
  EXPECT_THAT(only_reason("library,split-k=2"), HasSubstr("gemm=tiles or split-k=1"));
  EXPECT_THAT(only_reason("decomposed,gemm=library,rows=bucket"), HasSubstr("rows=fixed"));
  EXPECT_THAT(only_reason("library,rows=bucket,split-k=1", {kGemmRs, 64, 64, 64, 1}),
              HasSubstr("rows=fixed"));
}

TEST(Legal, LowLatencyCollectivesTakeThePlaceOfWholeOnesInANode) {
  EXPECT_THAT(reasons("sequential,collectives=low-latency"), IsEmpty());
  EXPECT_THAT(reasons("low-latency,gemm=tiles,split-k=2"), IsEmpty());
  EXPECT_THAT(reasons("tiles,collectives=low-latency"),
              Contains(HasSubstr("mover=epilogue, which makes none: take mover=nccl")));
  EXPECT_THAT(reasons("two-chunk,collectives=low-latency"),
              ElementsAre(HasSubstr("cuts them into parts: take granularity=whole")));
  EXPECT_THAT(reasons("low-latency,rows=bucket"), IsEmpty());
  EXPECT_THAT(reasons("sequential,collectives=low-latency,rows=bucket"),
              ElementsAre(HasSubstr("take gemm=library or rows=fixed")));
  Schedule across = find_preset("low-latency").make(gemm_rs(8), machine_of(2));
  EXPECT_THAT(legal(gemm_rs(16), across, machine_of(2)),
              ElementsAre(HasSubstr("across nodes ranks do not reach each other's memory")));
  const Segment odd{kGemmRs, 33, 4100, 4096, 2, DType::bf16};
  EXPECT_EQ(find_preset("low-latency").make(odd, machine_of()).collectives, CollectivesBy::nccl);
  EXPECT_THAT(reasons("library,collectives=low-latency", odd),
              ElementsAre(HasSubstr("17 rows of 8200 bytes are no multiple of 16")));
  Segment even = odd;
  even.m = 8;  // 4 rows a rank are, one alone is not
  EXPECT_THAT(reasons("low-latency", even), IsEmpty());
  EXPECT_THAT(reasons("low-latency,rows=bucket", even), SizeIs(1));
}

// Its blocks send to kernels of low-latency sums, which take whole products of few rows in one hop.
TEST(Legal, FewRowsAreSentToLowLatencySumsInOneHop) {
  const Segment op{kGemmRs, 64, 1024, 4096, 8, DType::bf16};
  const auto only_reason = [&](std::string_view changes, const Segment& of) {
    const std::string text =
        "low-latency,gemm=few-rows" + (changes.empty() ? "" : "," + std::string(changes));
    const std::vector<std::string> all = reasons(text, of);
    EXPECT_THAT(all, SizeIs(1)) << text;
    return all.empty() ? std::string() : all[0];
  };
  EXPECT_THAT(reasons("few-rows", op), IsEmpty());
  EXPECT_EQ(only_reason("collectives=nccl", op),
            "gemm=few-rows with collectives=nccl, which it does not go with: take "
            "collectives=low-latency or gemm=library");
  EXPECT_EQ(only_reason("rows=bucket", op),
            "gemm=few-rows with rows=bucket, whose runs may have fewer than its kernel sends: take "
            "gemm=tiles or rows=fixed");
  EXPECT_EQ(only_reason("sync=counter", op),
            "gemm=few-rows with sync=counter, which its kernel knows nothing of: take gemm=tiles "
            "or sync=event");
  EXPECT_THAT(only_reason("split-k=2", op), HasSubstr("take gemm=tiles or split-k=1"));
  EXPECT_THAT(only_reason("algorithm=1", op), HasSubstr("take gemm=library or algorithm=0"));
  EXPECT_THAT(reasons("tiles,gemm=few-rows", op),
              Contains(HasSubstr("gemm=few-rows with sync=flag, which its kernel knows nothing")));

  const auto of = [&](auto change) {
    Segment other = op;
    change(other);
    return only_reason("", other);
  };
  EXPECT_EQ(of([](Segment& s) { s.m = 2056; }),
            "gemm=few-rows with 2056 rows, at most 2048: take gemm=library");
  EXPECT_EQ(of([](Segment& s) { s.kind = kAgGemm, s.m = 520; }),
            "gemm=few-rows with 520 rows, at most 512: take gemm=library");
  EXPECT_THAT(reasons("few-rows", {kAgGemm, 64, 1024, 4096, 8, DType::bf16}), IsEmpty());
  EXPECT_THAT(reasons("few-rows", {kColGemm, 64, 1024, 4096, 8, DType::bf16}), IsEmpty());
  EXPECT_THAT(reasons("few-rows", {kGemmAr, 64, 1024, 4096, 1, DType::bf16}), IsEmpty());
  EXPECT_THAT(reasons("few-rows", {kAgGemm, 128, 1024, 4096, 8, DType::bf16, 2}), IsEmpty());
  EXPECT_EQ(of([](Segment& s) { s.kind = kAgGemm, s.weights = 2, s.m = 136; }),
            "gemm=few-rows with 136 rows of two weights, at most 128: take gemm=library");
  EXPECT_EQ(of([](Segment& s) {
              s.kind = {Held::whole, Edge::none, Edge::none};
            }),
            "gemm=few-rows with a weight that every rank has whole: take gemm=library");
  EXPECT_EQ(of([](Segment& s) { s.k = 4100; }),
            "gemm=few-rows with 1024 columns and K of 4100, no multiples of 8: take gemm=library");
  EXPECT_EQ(of([](Segment& s) { s.kind = kGemmAr, s.n = 8192; }),
            "gemm=few-rows with an all-reduce in two hops: 7340032 bytes go out of a rank, in one "
            "hop at most 1572864: take gemm=library");
  Segment fp32 = op;
  fp32.dtype = DType::fp32;
  EXPECT_THAT(reasons("library,gemm=few-rows,collectives=low-latency", fp32),
              Contains("gemm=few-rows with fp32; it multiplies bf16 and fp16: take gemm=library"));
}

}  // namespace
}  // namespace stretto
