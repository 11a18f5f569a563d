// What was measured on another GPU than plans will run on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stretto/tune.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kOp = "gemm-rs m=1024 n=4096 k=4096 ranks=4 dtype=bf16";

TunedOperator tuned_of(const std::string& op, const std::string& gpu, const std::string& schedule,
                       double us = 20) {
  TunedOperator tuned;
  tuned.op = parse_segment(op);
  tuned.machine = "h200x8";
  tuned.gpu = gpu;
  tuned.library_us = 100;
  tuned.measured = {{schedule, us, us, us, {}, {}}};
  return tuned;
}

Machine machine_with(const std::string& gpu) {
  Machine machine = default_machine(4);
  machine.gpu = gpu;
  return machine;
}

const std::string kH200 = "NVIDIA H200", kH100 = "NVIDIA H100 80GB HBM3";

AutoSchedule choose(const Tuning& tuning, const std::string& gpu) {
  return auto_schedule(parse_segment(kOp), machine_with(gpu), tuning);
}

AutoSchedule serve(const Tuning& tuning, const std::string& gpu) {
  return served_schedule(parse_segment(kOp), machine_with(gpu), tuning);
}

TEST(OtherGpu, IsNotTakenForThisOne) {
  Tuning tuning;
  tuning.add(tuned_of(kOp, kH200, "tiles,tile=128x64"));
  EXPECT_THAT(choose(tuning, kH200).reason, HasSubstr("measured on this shape"));
  EXPECT_THAT(choose(tuning, "").reason, HasSubstr("measured on this shape"));  // as plan does
  const std::string speaks = "m=1024 n=4096 k=4096 with 4 ranks on another GPU, 'NVIDIA H200'";
  EXPECT_THAT(choose(tuning, kH100).reason,
              AllOf(HasSubstr("by simulation"), HasSubstr("corrected by"), HasSubstr(speaks),
                    Not(HasSubstr("on this shape"))));
  // It is near: it speaks for servers too.
  const AutoSchedule served = serve(tuning, kH100);
  EXPECT_EQ(served.schedule.tile_n, 64);
  EXPECT_THAT(served.reason, AllOf(HasSubstr(speaks), Not(HasSubstr("on this shape"))));
}

// Nobody said on which: it counts as this one's, unless this one's is there.
TEST(OtherGpu, IsNotSuspectedWhereNoneIsNamed) {
  Tuning tuning;
  tuning.add(tuned_of(kOp, "", "tiles,tile=128x64"));
  EXPECT_THAT(choose(tuning, kH100).reason, HasSubstr("measured on this shape"));
  tuning.add(tuned_of(kOp, kH100, "tiles,tile=128x128"));
  tuning.add(tuned_of(kOp, "", "tiles,tile=128x96"));
  EXPECT_EQ(choose(tuning, kH100).schedule.tile_n, 128);
  EXPECT_EQ(choose(tuning, kH200).schedule.tile_n, 96);
}

TEST(OtherGpu, KeepsItsMeasurementsBesideThisOnes) {
  Tuning tuning;
  tuning.add(tuned_of(kOp, kH200, "tiles,tile=128x64"));
  tuning.add(tuned_of(kOp, kH100, "tiles,tile=128x128"));
  ASSERT_EQ(tuning.operators().size(), 2u);
  EXPECT_EQ(choose(tuning, kH200).schedule.tile_n, 64);
  EXPECT_EQ(choose(tuning, kH100).schedule.tile_n, 128);
  EXPECT_EQ(serve(tuning, kH200).schedule.tile_n, 64);
  EXPECT_EQ(serve(tuning, kH100).schedule.tile_n, 128);
  EXPECT_EQ(choose(tuning, "").schedule.tile_n, 128);  // what was read last
  const Tuning again = parse_tuning(print_tuning(tuning));
  EXPECT_EQ(again.operators().size(), 2u);
  EXPECT_EQ(choose(again, kH200).schedule.tile_n, 64);
  tuning.add(tuned_of(kOp, kH100, "tiles,tile=128x192"));
  ASSERT_EQ(tuning.operators().size(), 2u);
  EXPECT_EQ(choose(tuning, kH200).schedule.tile_n, 64);
  EXPECT_EQ(choose(tuning, kH100).schedule.tile_n, 192);
}

// A place in cuBLAS's list is that GPU's.
TEST(OtherGpu, HasAlgorithmsOfItsOwn) {
  Tuning tuning;
  TunedOperator tuned = tuned_of(kOp, kH200, "low-latency,algorithm=3", 5);
  tuned.measured.push_back({"low-latency", 6, 6, 6, {}, {}});
  tuning.add(tuned);
  EXPECT_EQ(serve(tuning, kH200).schedule.algorithm, 3);
  EXPECT_EQ(serve(tuning, kH100).schedule.algorithm, 0);
  EXPECT_EQ(serve(tuning, kH100).schedule.collectives, CollectivesBy::low_latency);
}

// A factor of two further than the same on this one.
TEST(OtherGpu, SpeaksLessThanThisOne) {
  Tuning tuning;
  tuning.add(tuned_of(kOp, kH200, "tiles,tile=128x64"));
  tuning.add(
      tuned_of("gemm-rs m=1024 n=4096 k=6144 ranks=4 dtype=bf16", kH100, "tiles,tile=128x128"));
  EXPECT_EQ(serve(tuning, kH100).schedule.tile_n, 128);
  EXPECT_THAT(serve(tuning, kH100).reason, HasSubstr("first m=1024 n=4096 k=6144 with 4 ranks,"));
}

}  // namespace
}  // namespace stretto
