#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/cases.h"
#include "schedule/plan_size.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// What lowering makes of it must be readable again.
TEST(Legal, RefusesMoreGroupsThanAPlansTextKeeps) {
  Schedule schedule = parse_schedule("waves", gemm_rs(), machine_of());
  schedule.groups.assign(1024, 1'048'576);
  const auto reasons = legal(gemm_rs(), schedule, machine_of());
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_THAT(reasons.front(), testing::HasSubstr("at most 8192 are kept in plans"));
  schedule.groups.assign(1024, 99'999);
  EXPECT_TRUE(legal(gemm_rs(), schedule, machine_of()).empty());
  schedule.groups.assign(512, 1'048'576);
  EXPECT_TRUE(legal(gemm_rs(), schedule, machine_of()).empty());
}

TEST(Legal, SaysEveryReasonAtOnce) {
  Segment op = gemm_rs(16);
  op.m = 0;
  EXPECT_THAT(
      reasons("tiles,granularity=waves,order=arrival,sync=event,reduction=none,partials=fp16,"
              "tile=100x520,swizzle=0,chunks=3,comm-sms=132",
              op),
      ElementsAre(
          "m is 0; it must be at least 1",
          "a tile of 100 rows; it must be a multiple of 8 from 8 to 512",
          "a tile of 520 columns; it must be a multiple of 8 from 8 to 512",
          "swizzle=0; it must be from 1 to 1024",
          "chunks=3 cuts nothing at granularity=waves: take granularity=chunk or chunks=1",
          "16 ranks on test8, which has 8: take ranks=8 or a larger machine",
          "comm-sms=132 leaves no SM to compute on: test8 has 132, take at most 131",
          "granularity=waves reorders storage for collectives: take mover=nccl instead of epilogue",
          "sync=event ends the kernel for every group: take sync=counter or flag, or "
          "granularity=chunk",
          "order=arrival follows gathered input: take order=peer-staggered for gemm-rs",
          "granularity=waves stores tiles in plain order: take order=plain instead of arrival",
          "reduction=none is not for gemm-rs: take reduction=slots",
          "partials=fp16 for bf16 inputs: take partials=bf16 or partials=fp32"));
}

struct Rule {
  std::string_view text;
  Segment op;
  std::string_view reason;
};

TEST(Legal, EveryRuleSpeaksAlone) {
  const Rule rules[] = {
      {"tiles,split-k=0", gemm_rs(), "split-k=0; it must be from 1 to 16"},
      {"tiles,split-k=17", gemm_rs(), "split-k=17; it must be from 1 to 16"},
      {"tiles,k-phases=0", ag_gemm(), "k-phases=0; it must be from 1 to 16"},
      {"tiles,k-phases=17", ag_gemm(), "k-phases=17; it must be from 1 to 16"},
      {"tiles,k-phases=2", gemm_rs(), "gemm-rs, which gathers no rows: take k-phases=1"},
      {"waves,k-phases=2", ag_gemm(), "collectives move whole rows: take k-phases=1, or mover="},
      {"decomposed,k-phases=2", ag_gemm(), "take k-phases=1, or granularity=tile or slice"},
      {"tiles,mover=epilogue", ag_gemm(), "communicates its input: take mover=comm-blocks"},
      {"tiles,comm-sms=0", ag_gemm(), "without an SM to run on: take comm-sms=1 or more"},
      {"tiles,order=peer-staggered", ag_gemm(), "take order=own-first for ag-gemm"},
      {"tiles,order=own-first", gemm_rs(), "take order=peer-staggered for gemm-rs"},
      {"sequential,order=arrival", ag_gemm(),
       "delivers all ranks' rows together: take order=plain"},
      {"waves,granularity=tile", gemm_rs(), "cannot start a collective for every tile"},
      {"waves,granularity=slice", ag_gemm(), "cannot start a collective for every slice"},
      {"waves,order=node-then-local", gemm_rs(), "take order=plain instead of node-then-local"},
      {"waves,comm-sms=15", ag_gemm(), "needs 16 SMs of its own on test8: take comm-sms=16"},
      {"waves,sync=event", gemm_rs(), "sync=event ends the kernel for every group"},
      {"tiles,sync=event", gemm_rs(), "sync=event ends the kernel for every tile"},
      {"tiles,reduction=nccl", gemm_rs(), "needs mover=nccl instead of mover=epilogue"},
      {"waves,reduction=slots", gemm_rs(), "take reduction=nccl instead of reduction=slots"},
      {"tiles,reduction=two-shot", gemm_rs(), "take reduction=slots"},
      {"tiles,reduction=slots", gemm_ar(), "take reduction=two-shot or one-shot"},
      {"tiles,reduction=slots", ag_gemm(), "take reduction=none, there is nothing to add"},
      {"tiles,partials=fp16", gemm_rs(), "take partials=bf16 or partials=fp32"},
      {"waves,partials=fp32", gemm_rs(),
       "collectives add in the operator's type: take partials=bf16"},
      {"tiles,partials=fp32", ag_gemm(), "where nothing is added: take partials=bf16"},
      {"tiles,groups=1+2", gemm_rs(), "granularity=chunk with sync=event, or groups=auto"},
      {"decomposed,sync=flag,groups=2", gemm_rs(), "nothing at granularity=chunk with sync=flag"},
      {"decomposed,groups=2+0", ag_gemm(), "a group of 0 chunks; each must have from 1 to"},
      {"tiles,own=gathered", gemm_rs(), "gemm-rs, which gathers no rows: take own=direct"},
      {"sequential,own=gathered", ag_gemm(), "collectives write all rows: take own=direct, or"},
      {"decomposed,order=interleaved", ag_gemm(), "take order=own-first, or mover=comm-blocks at"},
      {"sequential,order=interleaved", ag_gemm(), "with mover=nccl at granularity=whole: gathers"},
      {"decomposed,own=gathered", ag_gemm(), "own rows come first: take own=direct, or"},
      {"tiles,start=wave", gemm_rs(), "gemm-rs, whose tiles wait for no rows: take start=tile"},
      {"sequential,start=wave", ag_gemm(), "collectives bring all rows: take start=tile, or"},
      {"decomposed,start=wave", ag_gemm(), "tiles begin by kernels: take start=tile, or"},
      {"two-chunk,order=arrival", a2a_gemm(), "between kernels: take order=plain"},
      {"sequential,order=arrival", a2a_gemm(), "stand between kernels: take order=plain"},
      {"two-chunk,sync=flag", a2a_gemm(), "stand between kernels: take sync=event"},
      {"library,collectives=low-latency", a2a_gemm(), "take collectives=nccl"},
      {"tiles,mover=epilogue", a2a_gemm(), "take mover=comm-blocks, copy-engine or nccl"},
      {"tiles,granularity=waves", gemm_a2a(), "take granularity=tile, slice, chunk or whole"},
      {"tiles,order=own-first", gemm_a2a(), "take order=peer-staggered, interleaved, plain or"},
      {"tiles,order=peer-staggered", a2a_gemm(), "take order=arrival, plain or node-then-local"},
      {"tiles,k-phases=2", gemm_a2a(), "whose tiles multiply own rows: take k-phases=1"},
      {"tiles,k-phases=3", a2a_gemm(), "a phase is what a rank has of K: take k-phases=1 or 8"},
      {"sequential,k-phases=8", a2a_gemm(), "take k-phases=1, or mover=comm-blocks or copy-engine"},
      {"decomposed,k-phases=8", a2a_gemm(), "take k-phases=1, or granularity=tile or slice"},
      {"tiles,k-phases=8,split-k=2", a2a_gemm(), "take k-phases=1 or split-k=1"},
      {"tiles,own=gathered", a2a_gemm(), "which gathers no rows: take own=direct"},
      {"tiles,start=wave", gemm_a2a(), "which gathers no rows: take start=tile"},
      {"tiles,cluster=2", gemm_a2a(), "a tile row without a partner: take cluster=1"},
      {"tiles,rows=bucket", gemm_a2a(), "as many rows as its plan says: take rows=fixed"},
      {"decomposed,gemm=library", gemm_a2a(),
       "a library is told no part: take gemm=tiles or mover=nccl"},
      {"tiles,reduction=slots", gemm_a2a(), "take reduction=none, there is nothing to add"},
      {"tiles,permute=pass", gemm_rs(), "rows that choose no experts: take permute=load"},
      {"waves,groups=1+0", gemm_rs(), "a group of 0 waves; each must have from 1 to 1048576"},
      {"decomposed,chunks=0", gemm_rs(), "chunks=0; it must be from 1 to 1024"},
      {"decomposed,chunks=1025", gemm_rs(), "chunks=1025; it must be from 1 to 1024"},
      {"tiles,swizzle=1025", gemm_rs(), "swizzle=1025; it must be from 1 to 1024"},
      {"tiles,tile=520x8", gemm_rs(), "a tile of 520 rows"},
      {"tiles,tile=8x12", gemm_rs(), "a tile of 12 columns"},
      {"library,algorithm=8", gemm_rs(), "algorithm=8; it must be from 0 to 7"},
      {"tiles,algorithm=8", gemm_rs(), "algorithm=8; it must be from 0 to 7"},
      {"tiles,algorithm=1", gemm_rs(),
       "algorithm=1 is one of cuBLAS's, not of gemm=tiles: take gemm=library or algorithm=0"},
  };
  for (const Rule& rule : rules) {
    EXPECT_THAT(reasons(rule.text, rule.op), ElementsAre(HasSubstr(std::string(rule.reason))))
        << rule.text << " for " << to_string(rule.op);
  }
}

TEST(Legal, PlansOfHostileSizesAreRefusedWithAWayOut) {
  const Machine machine = machine_of(128);
  const Segment large{kGemmRs, 1 << 16, 1 << 16, 8192, 8, DType::bf16};
  const std::vector<std::string> small_tiles = reasons("tiles,tile=8x8", large, machine);
  ASSERT_THAT(small_tiles, SizeIs(1));
  EXPECT_THAT(small_tiles[0],
              HasSubstr("at most 20 million are served: take a larger tile, like 128x64"));
  EXPECT_THAT(reasons("tiles,tile=128x64", large, machine), IsEmpty());

  const Segment huge{kGemmRs, 1 << 20, 1 << 20, 1 << 20, 1024, DType::bf16};
  EXPECT_THAT(reasons("tiles", huge, machine),
              ElementsAre(HasSubstr("take fewer ranks or chunks")));
  const Segment small{kAgGemm, 1, 1024, 1, 1024, DType::bf16};
  EXPECT_THAT(reasons("decomposed,chunks=1024", small, machine), IsEmpty());
}

TEST(Legal, TheSizesThatWeMustServeAreServed) {
  const Segment op{kGemmRs, 8192, 8192, 28672, 64, DType::bf16};
  for (const Preset& preset : presets()) {
    EXPECT_THAT(reasons(preset.name, op, machine_of(8)), IsEmpty()) << preset.name;
  }
}

TEST(Legal, OnlyNcclGivesUpDeterminism) {
  const auto deterministic = [](std::string_view text, const Segment& op) {
    return is_deterministic(parse_schedule(text, op, machine_of()));
  };
  EXPECT_TRUE(deterministic("tiles", gemm_rs()));
  EXPECT_TRUE(deterministic("tiles,reduction=one-shot", gemm_ar()));
  EXPECT_FALSE(deterministic("waves", gemm_rs()));
  EXPECT_TRUE(deterministic("waves", ag_gemm()));
}

}  // namespace
}  // namespace stretto
