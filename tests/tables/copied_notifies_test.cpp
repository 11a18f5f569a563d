// Which notifies of copy lanes are copies of a value, and that the words they copy hold what the
// counters would have if they were added to.
#include "tables/copied_notifies.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "stretto/lower.h"

namespace stretto::cuda {
namespace {

using testing::ElementsAre;

Plan plan_with(const std::string& signals, const std::string& lanes) {
  return parse_plan(fmt::format(R"(stretto-plan 1
operator gemm-rs m=128 n=64 k=256 ranks=2 dtype=bf16
sms 132
buffer a bf16 128x128 input
buffer b bf16 64x128 input
buffer slots bf16 256x64 symmetric copies=2
buffer out bf16 64x64 output sharded=128
{}
{}end
)",
                                signals, lanes));
}

CopiedNotifies copied_in(const Plan& plan) {
  return CopiedNotifies(plan, SignalLayout(plan, programs_of(plan), true));
}

TEST(CopiedNotifies, ACounterOfOneCopyLaneIsCopiedWithItsSum) {
  const Plan plan = plan_with("signals s 3 copies=2", R"(lane 0 copy 0
  copy a[0:64,0:64] -> slots@1[0:64,0:64]
  notify s.2@1 += 1
  notify s.0@1 += 4
  copy a[64:128,0:64] -> slots@1[64:128,0:64]
  notify s.2@1 += 2
lane 1 compute 0
  wait s.2 >= 3
  wait s.0 >= 4
)");
  const CopiedNotifies copied = copied_in(plan);
  EXPECT_EQ(copied.of(0, 0), nullptr);
  const CopiedNotify* first = copied.of(0, 1);
  const CopiedNotify* last = copied.of(0, 4);
  ASSERT_TRUE(first != nullptr && last != nullptr);
  EXPECT_EQ(first->rank, 1);
  EXPECT_EQ(first->copies, 2);
  EXPECT_EQ(first->signal, 2u);
  EXPECT_EQ(first->copy_step, 3u);
  EXPECT_EQ(first->value, 1u);
  EXPECT_EQ(last->value, 3u);
  EXPECT_EQ(last->per_run, 3u);
  EXPECT_EQ(copied.of(0, 2)->value, 4u);
  EXPECT_EQ(copied.of(1, 0), nullptr);
}

TEST(CopiedNotifies, CountersOfSeveralLanesAreLeftToAKernel) {
  const Plan plan = plan_with("signals s 2", R"(lane 0 copy 0
  copy a[0:64,0:64] -> slots@1[0:64,0:64]
  notify s.0@1 += 1
  notify s.1@1 += 1
lane 1 compute 0
  wait s.0 >= 2
  wait s.1 >= 1
lane 1 copy 0
  copy a[0:64,0:64] -> slots@1[64:128,0:64]
  notify s.0@1 += 1
)");
  const CopiedNotifies copied = copied_in(plan);
  EXPECT_EQ(copied.of(0, 1), nullptr);
  EXPECT_NE(copied.of(0, 2), nullptr);
  EXPECT_EQ(copied.of(2, 1), nullptr);
}

TEST(CopiedNotifies, CountersThatAStreamAwaitsAreLeftToAKernel) {
  const Plan plan = plan_with("signals s 1", R"(lane 0 copy 0
  copy a[0:64,0:64] -> slots@1[0:64,0:64]
  notify s.0@1 += 1
lane 1 copy 0
  wait s.0 >= 1
  copy slots[0:64,0:64] -> out[0:64,0:64]
)");
  const auto programs = programs_of(plan);
  EXPECT_EQ(CopiedNotifies(plan, SignalLayout(plan, programs, true)).of(0, 1), nullptr);
  EXPECT_NE(CopiedNotifies(plan, SignalLayout(plan, programs, false)).of(0, 1), nullptr);
}

TEST(CopiedNotifies, InstancesThatBuffersDoNotAlternateWithAreLeftToAKernel) {
  const Plan plan = plan_with("signals s 1 copies=3", R"(lane 0 copy 0
  copy a[0:64,0:64] -> slots@1[0:64,0:64]
  notify s.0@1 += 1
lane 1 compute 0
  wait s.0 >= 1
)");
  EXPECT_EQ(copied_in(plan).of(0, 1), nullptr);
}

CopiedNotify notify_of(uint16_t rank, uint32_t signal, uint64_t value = 1, uint16_t copies = 1) {
  return {rank, copies, signal, 100, value, value};
}

TEST(CopiedNotifies, OnlyTheLastOfACounterIsMade) {
  const std::vector<CopiedNotify> all = {notify_of(1, 0, 1), notify_of(1, 2, 1), notify_of(1, 0, 2),
                                         notify_of(0, 0, 5)};
  const std::vector<CopiedNotify> last = last_of_each_counter(all);
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last[0].value, 2u);
  EXPECT_EQ(last[1].signal, 2u);
  EXPECT_EQ(last[2].rank, 0);
}

TEST(CopiedNotifies, CountersAtEqualDistancesAreOneTransfer) {
  constexpr uint64_t kLine = device::kSignalStride * 8;
  const std::vector<DevicePtr> counters = {0x10000000, 0x20000000};
  const std::vector<CopiedNotify> notifies = {
      notify_of(1, 2), notify_of(1, 5), notify_of(1, 8),      notify_of(1, 9),
      notify_of(1, 4), notify_of(0, 5), notify_of(0, 6, 1, 2)};
  EXPECT_THAT(transfers_of(notifies, 0x1000, counters, 1),
              ElementsAre(Transfer{0x1000, counters[1] + 2 * kLine, 8, 3 * kLine, 8, 3},
                          Transfer{0x1018, counters[1] + 9 * kLine, 8, 8, 8, 1},
                          Transfer{0x1020, counters[1] + 4 * kLine, 8, 8, 8, 1},
                          Transfer{0x1028, counters[0] + 5 * kLine, 8, 101 * kLine, 8, 2}));
}

// Runs of a plan with words that are copied and advanced as on the device, and counters that are
// added to: after every notify both have the same.
void expect_same_as_adding(const Plan& plan, int* num_copied) {
  const SignalLayout signals(plan, programs_of(plan), true);
  const CopiedNotifies copied(plan, signals);
  std::map<std::tuple<int, uint32_t>, uint64_t> counters;  // by rank and flat index
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> words;
  for (uint64_t run = 0; run < 5; ++run) {
    for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
      for (uint32_t i = 0; i < plan.lanes[l].instrs.size(); ++i) {
        const Instr& instr = plan.lanes[l].instrs[i];
        if (instr.op != Opcode::notify) continue;
        const SignalArray& array = plan.signals[instr.signal.array];
        const auto instance = static_cast<uint32_t>(run % array.copies);
        const uint32_t signal =
            signals.index_of(instr.signal) + instance * static_cast<uint32_t>(array.count);
        uint64_t& counter = counters[{instr.rank, signal}];
        counter += static_cast<uint64_t>(instr.amount);
        const CopiedNotify* notify = copied.of(l, i);
        if (notify == nullptr) continue;
        ++*num_copied;
        const uint64_t word = words.try_emplace({l, i}, notify->value).first->second;
        ASSERT_EQ(word, counter) << describe(plan.lanes[l]) << " run " << run;
        ASSERT_EQ(notify->signal + instance * notify->copy_step, signal);
      }
    }
    for (auto& [at, word] : words) {
      const CopiedNotify& notify = *copied.of(at.first, at.second);
      if ((run + 1) % notify.copies == 0) word += notify.per_run;
    }
  }
}

TEST(CopiedNotifies, WordsAreWhatAddingWouldMakeOfTheCounters) {
  for (const char* op : {"ag-gemm m=1024 n=512 k=512 ranks=4 dtype=bf16",
                         "gemm-rs m=1024 n=512 k=512 ranks=4 dtype=bf16",
                         "gemm-ar m=1024 n=512 k=512 ranks=4 dtype=bf16"}) {
    for (const char* schedule :
         {"decomposed,tile=128x128", "decomposed,tile=128x128,sync=flag,chunks=2",
          "slices,mover=copy-engine,comm-sms=0,tile=128x128",
          "tiles,mover=copy-engine,comm-sms=0,tile=128x128,reuse=double"}) {
      const Segment parsed = parse_segment(op);
      const Machine machine = default_machine(parsed.ranks);
      int num_copied = 0;
      expect_same_as_adding(lower(parsed, parse_schedule(schedule, parsed, machine), machine),
                            &num_copied);
      EXPECT_GT(num_copied, 0) << op << " " << schedule;
    }
  }
}

}  // namespace
}  // namespace stretto::cuda
