#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/sample.h"
#include "stretto/error.h"

namespace stretto {
namespace {

TEST(TextForm, PrintsWhatWasParsed) {
  const Plan plan = parse_plan(kSampleText);
  EXPECT_EQ(print(plan), kSampleText);
  EXPECT_NO_THROW(validate(plan));
}

TEST(TextForm, HoldsEveryField) {
  const Plan plan = parse_plan(kSampleText);
  EXPECT_EQ(plan.op, (Segment{kGemmRs, 5, 4, 6, 2, DType::bf16}));
  EXPECT_EQ(plan.schedule, "granularity=tile,made=by-hand");
  EXPECT_EQ(plan.sms, 132);
  ASSERT_EQ(plan.buffers.size(), 5u);
  EXPECT_EQ(plan.buffers[2], (Buffer{"slots", DType::fp32, BufferRole::symmetric, 6, 4, 0, 2}));
  EXPECT_EQ(plan.buffers[4], (Buffer{"out", DType::bf16, BufferRole::output, 3, 4, 5, 1}));
  ASSERT_EQ(plan.signals.size(), 2u);
  EXPECT_EQ(plan.signals[0], (SignalArray{"slots", 4, 2}));
  ASSERT_EQ(plan.lanes.size(), 4u);
  EXPECT_EQ(plan.num_instrs(), 12u);

  const Lane& compute = plan.lanes[0];
  const Instr& gemm = compute.instrs[1];
  EXPECT_EQ(gemm.op, Opcode::gemm);
  EXPECT_EQ(gemm.tile, 5);
  ASSERT_EQ(plan.reads(gemm).size(), 3u);
  EXPECT_EQ(plan.reads(gemm)[1], (Region{2, 5, 0, 3, 0, 0}));
  ASSERT_EQ(plan.writes(gemm).size(), 2u);
  EXPECT_EQ(plan.writes(gemm)[1], (Region{0, 2, 0, 4, 2, 1}));
  const Instr& notify = compute.instrs[2];
  EXPECT_EQ(notify.signal, (SignalRef{0, 1}));
  EXPECT_EQ(notify.rank, 1);
  EXPECT_EQ(notify.amount, 1);

  const Lane& comm = plan.lanes[1];
  EXPECT_EQ(comm.kind, LaneKind::comm);
  EXPECT_EQ(comm.index, 3);
  EXPECT_EQ(comm.instrs[0].lag, 0);
  EXPECT_EQ(comm.instrs[1].signal, (SignalRef{1, 0}));
  EXPECT_EQ(comm.instrs[1].lag, 2);

  EXPECT_EQ(plan.lanes[2].instrs[0].tile, -1);
  const Instr& scatter = plan.lanes[3].instrs[0];
  EXPECT_EQ(scatter.collective, CollectiveKind::reduce_scatter);
  EXPECT_EQ(scatter.id, 3);
  EXPECT_EQ(plan.reads(plan.lanes[3].instrs[3]).size(), 2u);
}

TEST(TextForm, WaitsAndNotifiesBeginTheirLines) {
  const std::string text = print(parse_plan(kSampleText));
  size_t synced = 0;
  for (size_t start = 0; start < text.size(); start = text.find('\n', start) + 1) {
    const size_t word = text.find_first_not_of(' ', start);
    synced += text.compare(word, 5, "wait ") == 0 || text.compare(word, 7, "notify ") == 0 ? 1 : 0;
    const std::string line = text.substr(start, text.find('\n', start) - start);
    EXPECT_EQ(line.find(" wait "), line.find("  wait ") == 0 ? 1 : std::string::npos);
    EXPECT_EQ(line.find(" notify "), line.find("  notify ") == 0 ? 1 : std::string::npos);
  }
  EXPECT_EQ(synced, 3u);
}

TEST(TextForm, CommentsBlankLinesAndIndentationAreFree) {
  std::string edited = "; a plan\n\n\tstretto-plan\t2  ; version\r\n";
  const std::string rest(kSampleText.substr(kSampleText.find('\n') + 1));
  for (const char c : rest) {
    if (c == '\n') {
      edited += " ; remark\r\n\n  ;\n  ";
    } else {
      edited += c;
      if (c == ' ') edited += ' ';
    }
  }
  EXPECT_EQ(print(parse_plan(edited)), kSampleText);
}

constexpr const char* kInTeams = R"(stretto-plan 2
operator gemm-ar m=4 n=4 k=8 ranks=4 dtype=bf16
sms 132
buffer part bf16 4x4 local
buffer out bf16 4x4 output

lane 1 nccl 0
  collective all_reduce 0 team=2 part[0:4,0:4] -> out[0:4,0:4]
  collective all_gather 1 team=2 part[0:2,0:4] -> out[0:2,0:4] part[0:2,0:4]
  collective all_reduce 2 part[0:4,0:4] -> out[0:4,0:4]
end
)";

TEST(TextForm, CollectivesSayTheirTeams) {
  const Plan plan = parse_plan(kInTeams);
  EXPECT_EQ(print(plan), kInTeams);
  const std::vector<Instr>& instrs = plan.lanes[0].instrs;
  EXPECT_EQ(instrs[1].team, 2);
  const Plan::Joined joined = plan.joined_by(instrs[1], 3), all = plan.joined_by(instrs[2], 3);
  EXPECT_EQ(std::pair(joined.first, joined.count), std::pair(2, 2));
  EXPECT_EQ(std::pair(all.first, all.count), std::pair(0, 4));
  EXPECT_TRUE(joined.has(2) && !joined.has(1) && !joined.has(4));
}

TEST(TextForm, TeamsAreSomeOfTheRanksAndDivideThem) {
  for (const auto& [team, why] :
       {std::pair{"3",
                  "expected teams of fewer ranks that divide 4, or no team where all join, "
                  "found team=3"},
        {"4",
         "expected teams of fewer ranks that divide 4, or no team where all join, found "
         "team=4"},
        {"5", "found '5"},
        {"0", "found '0"},
        {"1",
         "expected all_gather with 1 ranks to read and write p and ranks*p regions, found 1 "
         "and 2 regions"}}) {
    std::string text = kInTeams;
    text.replace(text.find("1 team=2") + 7, 1, team);
    try {
      parse_plan(text);
      FAIL() << team;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(why));
    }
  }
}

TEST(TextForm, AnEmptyScheduleIsLeftOut) {
  Plan plan = parse_plan(kSampleText);
  plan.schedule.clear();
  const std::string text = print(plan);
  EXPECT_EQ(text.find("schedule"), std::string::npos);
  EXPECT_EQ(print(parse_plan(text)), text);
}

TEST(TextForm, ALibrarysAlgorithmIsSaidWhenItIsNotTheFirst) {
  Plan plan = parse_plan(kSampleText);
  plan.library_gemms = true;
  EXPECT_NE(print(plan).find("\ngemm library\nsms"), std::string::npos);
  EXPECT_EQ(parse_plan(print(plan)).library_algorithm, 0);
  plan.library_algorithm = 7;
  const std::string text = print(plan);
  EXPECT_NE(text.find("\ngemm library algorithm=7\nsms"), std::string::npos);
  EXPECT_EQ(parse_plan(text).library_algorithm, 7);
  EXPECT_TRUE(parse_plan(text).library_gemms);
  EXPECT_EQ(print(parse_plan(text)), text);
}

TEST(TextForm, SomeKernelsMayBeALibrarys) {
  Plan plan = parse_plan(kSampleText);
  EXPECT_FALSE(plan.any_library());
  plan.library_kernels = {{1, 3}};
  const std::string text = print(plan);
  EXPECT_NE(text.find("\ngemm library behind=1 algorithm=3\nsms"), std::string::npos);
  const Plan again = parse_plan(text);
  EXPECT_FALSE(again.library_gemms);
  EXPECT_TRUE(again.any_library());
  EXPECT_EQ(again.library_kernels, plan.library_kernels);
  EXPECT_EQ(again.library_at(1), 3);
  EXPECT_EQ(again.library_at(0), std::nullopt);
  EXPECT_EQ(print(again), text);
}

TEST(TextForm, TheKernelOfFewRowsStandsWhereALibraryDoes) {
  Plan plan = parse_plan(kSampleText);
  EXPECT_FALSE(plan.any_few_rows());
  plan.library_gemms = plan.few_rows_gemms = plan.low_latency_collectives = true;
  std::string text = print(plan);
  EXPECT_NE(text.find("\ngemm few-rows\ncollectives low-latency\nsms"), std::string::npos);
  EXPECT_TRUE(parse_plan(text).few_rows_at(7));
  EXPECT_EQ(parse_plan(text).library_at(7), 0);
  EXPECT_EQ(print(parse_plan(text)), text);

  plan.library_gemms = plan.few_rows_gemms = false;
  plan.library_kernels = {{1, 0, true}};
  text = print(plan);
  EXPECT_NE(text.find("\ngemm few-rows behind=1\ncollectives low-latency"), std::string::npos);
  const Plan again = parse_plan(text);
  EXPECT_EQ(again.library_kernels, plan.library_kernels);
  EXPECT_TRUE(again.any_few_rows());
  EXPECT_TRUE(again.few_rows_at(1));
  EXPECT_FALSE(again.few_rows_at(0));
  EXPECT_EQ(print(again), text);
}

TEST(TextForm, PrintsSingleInstructions) {
  const Plan plan = parse_plan(kSampleText);
  EXPECT_EQ(print(plan, plan.lanes[0], plan.lanes[0].instrs[2]), "notify slots.1@1 += 1");
  EXPECT_EQ(print(plan, plan.lanes[2], plan.lanes[2].instrs[0]),
            "copy part[0:2,0:4] -> slots[3:5,0:4] slots@1[3:5,0:4]");
}

}  // namespace
}  // namespace stretto
