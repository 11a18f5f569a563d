// Wrong plans: what is wrong is seen within a few seeds, and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "plans.h"
#include "stretto/emulate.h"
#include "stretto/error.h"

namespace stretto::emu {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;

testing::Matcher<const EmulateFault&> says(const std::string& what) {
  return testing::Field(&EmulateFault::text, HasSubstr(what));
}

bool right(const EmulateResult& result) {
  return result.finished && result.verified && result.faults.empty();
}

// The first seed below `seeds` whose execution goes wrong.
EmulateResult first_failure(const std::string& text, uint64_t seeds, int runs = 3) {
  const Plan plan = plan_of(text);
  EmulateResult result;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    result = emulate(plan, {.seed = seed, .fill = Fill::integers, .runs = runs});
    if (!right(result)) return result;
  }
  return result;
}

std::vector<std::string> synchronisation_lines(const std::string& text, const char* word) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin + 1);
    if (line.find(word) == 2) lines.push_back(line);
  }
  return lines;
}

// Every wait and notify of these plans is needed; and none of them can be missed unseen.
TEST(Missing, AnyWaitIsSeen) {
  for (const auto text :
       {reduce_scatter_by_slots, reduce_scatter_with_ack, all_gather_by_copies, all_reduce_two_shot,
        reduce_scatter_by_nccl, all_gather_by_nccl, all_reduce_by_nccl}) {
    std::map<std::string, int> seen;
    for (const std::string& line : synchronisation_lines(text(), "wait ")) {
      const std::string broken = replaced(text(), line, "", seen[line]++);
      EXPECT_FALSE(right(first_failure(broken, 40, 4))) << broken;
    }
  }
}

TEST(Missing, AnyNotifyMakesItStuck) {
  for (const auto text :
       {reduce_scatter_by_slots, reduce_scatter_with_ack, all_gather_by_copies, all_reduce_two_shot,
        reduce_scatter_by_nccl, all_gather_by_nccl, all_reduce_by_nccl}) {
    std::map<std::string, int> seen;
    for (const std::string& line : synchronisation_lines(text(), "notify ")) {
      const std::string broken = replaced(text(), line, "", seen[line]++);
      EXPECT_FALSE(first_failure(broken, 1).finished) << broken;
    }
  }
}

TEST(Stuck, NamesLaneSignalExpectedAndSeen) {
  const std::string broken =
      replaced(reduce_scatter_by_slots(), "  notify arrived.0@1 += 1\n", "", 0);
  const EmulateResult result = first_failure(broken, 1, 1);
  ASSERT_FALSE(result.finished);
  EXPECT_FALSE(result.verified);
  ASSERT_EQ(result.stuck.size(), 1u);
  EXPECT_EQ(result.stuck[0].lane, "rank 1 comm 0");
  EXPECT_EQ(result.stuck[0].signal, "arrived.0@1");
  EXPECT_EQ(result.stuck[0].expected, 2);
  EXPECT_EQ(result.stuck[0].seen, 1);
  EXPECT_EQ(result.stuck[0].run, 0);
  EXPECT_EQ(result.stuck[0].where, (InstrRef{3, 0}));
}

TEST(Stuck, NamesBoundariesAndCollectives) {
  const std::string text = reduce_scatter_by_nccl();
  const EmulateResult boundary = first_failure(replaced(text, "  boundary 0\n", "", 1), 1);
  ASSERT_FALSE(boundary.finished);
  EXPECT_EQ(boundary.stuck[0].lane, "rank 0 compute 0");
  EXPECT_EQ(boundary.stuck[0].signal, "boundary 0");
  EXPECT_EQ(boundary.stuck[0].expected, 2);
  EXPECT_EQ(boundary.stuck[0].seen, 1);

  const EmulateResult collective =
      first_failure(replaced(text, "reduce_scatter 0", "reduce_scatter 7", 2), 1);
  ASSERT_FALSE(collective.finished);
  ASSERT_EQ(collective.stuck.size(), 3u);
  EXPECT_EQ(collective.stuck[0].signal, "collective 0");
  EXPECT_EQ(collective.stuck[0].expected, 3);
  EXPECT_EQ(collective.stuck[0].seen, 2);
  EXPECT_EQ(collective.stuck[2].signal, "collective 7");
}

TEST(Fault, NamesRunLaneInstructionTileAndRegion) {
  const std::string broken = replaced(reduce_scatter_by_slots(), "  wait arrived.0 >= 2\n", "", 1);
  const EmulateResult result = first_failure(broken, 20);
  ASSERT_FALSE(result.faults.empty());
  EXPECT_THAT(result.faults[0].text,
              HasSubstr("rank 1 comm 0 instruction 0 (reduce tile 2) reads slots"));
  EXPECT_EQ(result.faults[0].where, (InstrRef{3, 0}));
  EXPECT_THAT(result.faults[0].text, AnyOf(HasSubstr("never written"), HasSubstr("earlier run")));
  EXPECT_GT(result.wrong_elements, 0);
  EXPECT_THAT(result.first_wrong, HasSubstr("got nan"));
}

TEST(Fault, NotifyBeforeTheWriteIsSeen) {
  const std::string broken =
      replaced(reduce_scatter_by_slots(),
               "  gemm #0 a[4:7,0:5] b[0:6,0:5] -> slots@1[0:3,0:6]\n  notify arrived.0@1 += 1\n",
               "  notify arrived.0@1 += 1\n  gemm #0 a[4:7,0:5] b[0:6,0:5] -> slots@1[0:3,0:6]\n");
  EXPECT_FALSE(right(first_failure(broken, 20)));
}

TEST(Fault, LowThresholdIsSeen) {
  EXPECT_FALSE(right(
      first_failure(replaced(reduce_scatter_by_slots(), "arrived.0 >= 2", "arrived.0 >= 1"), 20)));
}

TEST(Fault, OneCopyWithoutAcknowledgementIsSeen) {
  const std::string broken =
      replaced(replaced(reduce_scatter_by_slots(), "symmetric copies=2", "symmetric"),
               "signals arrived 1 copies=2", "signals arrived 1");
  const EmulateResult result = first_failure(broken, 40, 4);
  EXPECT_FALSE(right(result));
}

TEST(Fault, OutputThatMayComeAfterTheRunIsSeen) {
  std::string broken = all_reduce_two_shot();
  broken = replaced(broken, "  wait summed.0 >= 1\n  deliver out[3:6,0:4]\n", "");
  const EmulateResult result = first_failure(broken, 20);
  EXPECT_THAT(result.faults, Contains(says("the caller of rank 0 reads out@0[0:6,0:4]")));
}

TEST(Fault, WrongTileIsAWrongResult) {
  const std::string broken =
      replaced(reduce_scatter_by_slots(), "gemm #1 a[0:4,0:5]", "gemm #1 a[3:7,0:5]");
  const EmulateResult result = first_failure(broken, 1);
  EXPECT_TRUE(result.finished);
  EXPECT_TRUE(result.faults.empty());
  EXPECT_FALSE(result.verified);
  EXPECT_GT(result.wrong_elements, 0);
  EXPECT_THAT(result.first_wrong, HasSubstr("run 0: rank 0 out[0,"));
}

TEST(Fault, RegionsOutsideTheirBuffersAreNamedAndDoNoHarm) {
  for (const auto& [what, with] : {std::pair{"slots@1[0:3,0:6]", "slots@1[6:9,0:6]"},
                                   {"a[4:7,0:5]", "a[5:8,0:5]"},
                                   {"slots[4:8,0:6] -> out", "slots[5:9,0:6] -> out"},
                                   {"-> out[0:4,0:6]", "-> out[100000000:100000004,0:6]"}}) {
    const EmulateResult result = first_failure(replaced(reduce_scatter_by_slots(), what, with), 1);
    EXPECT_FALSE(right(result));
    EXPECT_THAT(result.faults, Contains(says("columns there"))) << with;
  }
}

TEST(Fault, MemoryOutOfReachIsNamed) {
  const std::string broken =
      replaced(reduce_scatter_by_slots(), "gemm #0 a[4:7,0:5]", "gemm #0 a@1[4:7,0:5]");
  EXPECT_THAT(first_failure(broken, 1).faults, Contains(says("out of reach")));
}

TEST(Fault, CollectivesThatDisagreeAreNamed) {
  const std::string text = all_reduce_by_nccl();
  const EmulateResult other =
      first_failure(replaced(text, "all_reduce 0 part[0:3,0:4] -> part[0:3,0:4]",
                             "all_reduce 0 part[0:2,0:4] -> part[0:2,0:4]", 1),
                    1);
  EXPECT_THAT(other.faults, Contains(says("is to be written")));
}

TEST(Fault, BoundariesThatDisagreeAreNamed) {
  const EmulateResult result =
      first_failure(replaced(reduce_scatter_by_nccl(), "boundary 0", "boundary 5", 1), 1);
  EXPECT_THAT(result.faults, Contains(says("stands at boundary 0, this lane at 5")));
}

TEST(Fault, SameSeedSameStory) {
  const Plan plan = plan_of(replaced(reduce_scatter_by_slots(), "  wait arrived.0 >= 2\n", "", 1));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const EmulateResult one = emulate(plan, {.seed = seed, .runs = 3});
    const EmulateResult two = emulate(plan, {.seed = seed, .runs = 3});
    EXPECT_EQ(one.faults, two.faults);
    EXPECT_EQ(one.output_hash, two.output_hash);
    EXPECT_EQ(one.wrong_elements, two.wrong_elements);
  }
}

TEST(Fault, ManyAreCountedNotKept) {
  std::string text = reduce_scatter_by_slots();
  std::string reads;
  for (int i = 0; i < 200; ++i) reads += "  deliver out[0:1,0:1] out[1:2,1:2] out[2:3,2:3]\n";
  text = replaced(text, "lane 0 comm 0\n", "lane 0 comm 0\n" + reads);
  const EmulateResult result = first_failure(text, 1, 1);
  ASSERT_LT(result.faults.size(), 100u);
  EXPECT_THAT(result.faults.back(), says("more faults"));
}

TEST(Refused, TooLargeForMemory) {
  const Plan plan = plan_of(
      replaced(reduce_scatter_by_slots(), "slots bf16 8x6", "slots bf16 2000000000x2000000000"));
  try {
    emulate(plan);
    FAIL() << "expected a refusal";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("GiB of memory, and the limit is"));
  }
  EXPECT_THROW(emulate(plan_of(reduce_scatter_by_slots()), {.max_bytes = 1000}), UsageError);
}

TEST(Refused, BuffersThatAreNotTheOperators) {
  const std::string text = reduce_scatter_by_slots();
  EXPECT_THROW(emulate(plan_of(replaced(text, "m=7", "m=8"))), UsageError);
  EXPECT_THROW(
      emulate(plan_of(replaced(text, "buffer a bf16 7x5 input", "buffer a bf16 7x5 local"))),
      UsageError);
}

TEST(Refused, NoRuns) {
  const Plan plan = plan_of(reduce_scatter_by_slots());
  EXPECT_THROW(emulate(plan, {.runs = 0}), UsageError);
  EXPECT_THROW(emulate(plan, {.runs = kMaxRuns + 1}), UsageError);
}

TEST(Refused, CountersThatOverflow) {
  const std::string text = reduce_scatter_by_slots();
  EXPECT_THROW(emulate(plan_of(replaced(text, "+= 1", "+= 9000000000000000000"))), UsageError);
  EXPECT_THROW(emulate(plan_of(replaced(text, ">= 2", ">= 9000000000000000000"))), UsageError);
}

}  // namespace
}  // namespace stretto::emu
