#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "schedule/cases.h"

namespace stretto {
namespace {

using testing::HasSubstr;

Schedule parse(std::string_view text, const Segment& op = gemm_rs()) {
  return parse_schedule(text, op, machine_of());
}

TEST(ScheduleText, HasOneCanonicalForm) {
  Schedule schedule;
  schedule.granularity = Granularity::tile;
  schedule.order = Order::own_first;
  schedule.mover = Mover::comm_blocks;
  schedule.sync = Sync::flag;
  schedule.comm_sms = 8;
  EXPECT_EQ(to_string(schedule),
            "granularity=tile,order=own-first,mover=comm-blocks,sync=flag,reduction=none,"
            "reuse=double,partials=bf16,tile=128x256,swizzle=8,chunks=1,groups=auto,comm-sms=8");
}

TEST(ScheduleText, ParsesWhatItPrints) {
  std::mt19937 random(7);
  const auto below = [&](int bound) { return static_cast<int>(random() % unsigned(bound)); };
  for (int i = 0; i < 500; ++i) {
    Schedule s;
    s.granularity = static_cast<Granularity>(below(5));
    s.order = static_cast<Order>(below(5));
    s.mover = static_cast<Mover>(below(4));
    s.sync = static_cast<Sync>(below(3));
    s.reduction = static_cast<Reduction>(below(5));
    s.reuse = static_cast<Reuse>(below(2));
    s.partials = static_cast<DType>(below(3));
    s.tile_m = below(1000);
    s.tile_n = below(1000);
    s.swizzle = below(100);
    s.chunks = below(100);
    for (int g = below(4); g > 0; --g) s.groups.push_back(below(50));
    s.comm_sms = below(200);
    s.split_k = below(4);
    s.k_phases = below(4);
    s.cluster = below(4);
    s.rows = static_cast<RowCount>(below(2));
    s.gemm = static_cast<GemmBy>(below(3));
    s.algorithm = below(kMostAlgorithms);
    s.collectives = static_cast<CollectivesBy>(below(2));
    EXPECT_EQ(parse(to_string(s)), s) << to_string(s);
  }
}

TEST(ScheduleText, WordsOfTheCallersStandAlone) {
  constexpr std::string_view kWords[] = {"auto"};
  try {
    parse_schedule("auto,tile=64x64", gemm_rs(), machine_of(), kWords);
    FAIL() << "auto takes no changes";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'auto,tile=64x64' changes what auto chooses"));
  }
  try {  // as in split=2/auto
    parse_schedule("auto", gemm_rs(), machine_of(), kWords);
    FAIL() << "auto is no schedule of a product";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("auto chooses for all of an operator; auto stands alone"));
  }
}

TEST(ScheduleText, ChangesAPreset) {
  const Schedule plain = find_preset("tiles").make(gemm_rs(), machine_of());
  EXPECT_EQ(parse("tiles"), plain);
  Schedule changed = plain;
  changed.tile_m = 64;
  changed.tile_n = 128;
  changed.comm_sms = 4;
  changed.groups = {1, 2, 4};
  EXPECT_EQ(parse("tiles,tile=64x128,comm-sms=4,groups=1+2+4"), changed);
  EXPECT_EQ(parse("tiles,groups=auto"), plain);
}

TEST(ScheduleText, SaysSplitKOnlyWhenKIsSplit) {
  Schedule schedule = parse("tiles");
  EXPECT_EQ(to_string(schedule).find("split-k="), std::string::npos);
  schedule.split_k = 4;
  EXPECT_EQ(parse("tiles,split-k=4"), schedule);
  EXPECT_THAT(to_string(schedule), testing::EndsWith(",split-k=4"));
  EXPECT_EQ(parse("tiles,split-k=1"), parse("tiles"));
  EXPECT_THAT(refusal("tiles,split-k=two"), HasSubstr("split-k='two': expected a whole number"));
}

TEST(ScheduleText, SaysKPhasesOnlyWhenThereAreSeveral) {
  Schedule schedule = parse("tiles,split-k=2");
  EXPECT_EQ(to_string(schedule).find("k-phases="), std::string::npos);
  schedule.k_phases = 4;
  EXPECT_EQ(parse("tiles,k-phases=4,split-k=2"), schedule);
  EXPECT_THAT(to_string(schedule), testing::EndsWith(",split-k=2,k-phases=4"));
  EXPECT_EQ(parse("tiles,k-phases=1"), parse("tiles"));
  EXPECT_THAT(refusal("tiles,k-phases=all"), HasSubstr("k-phases='all': expected a whole number"));
}

TEST(ScheduleText, SaysTheClusterOnlyWhenLanesHavePartners) {
  Schedule schedule = parse("tiles,k-phases=2");
  EXPECT_EQ(to_string(schedule).find("cluster="), std::string::npos);
  schedule.cluster = 2;
  EXPECT_EQ(parse("tiles,cluster=2,k-phases=2"), schedule);
  EXPECT_THAT(to_string(schedule), testing::EndsWith(",k-phases=2,cluster=2"));
  EXPECT_EQ(parse("tiles,cluster=1"), parse("tiles"));
  EXPECT_THAT(refusal("tiles,cluster=b"), HasSubstr("cluster='b': expected a whole number"));
}

TEST(ScheduleText, SaysRowsOnlyWhenTheyAreNotFixed) {
  Schedule schedule = parse("tiles");
  EXPECT_EQ(to_string(schedule).find("rows="), std::string::npos);
  schedule.rows = RowCount::bucket;
  EXPECT_EQ(parse("tiles,rows=bucket"), schedule);
  EXPECT_THAT(to_string(schedule), testing::EndsWith(",rows=bucket"));
  EXPECT_EQ(parse("tiles,rows=fixed"), parse("tiles"));
  EXPECT_THAT(refusal("tiles,rows=many"), HasSubstr("unknown rows 'many'"));
}

TEST(ScheduleText, SaysTheAlgorithmOnlyWhenItIsNotTheFirst) {
  Schedule schedule = parse("library");
  EXPECT_EQ(to_string(schedule).find("algorithm="), std::string::npos);
  schedule.algorithm = 3;
  EXPECT_EQ(parse("library,algorithm=3"), schedule);
  EXPECT_THAT(to_string(schedule), testing::EndsWith(",gemm=library,algorithm=3"));
  EXPECT_EQ(parse("library,algorithm=0"), parse("library"));
  EXPECT_THAT(refusal("library,algorithm=best"),
              HasSubstr("algorithm='best': expected a whole number"));
  EXPECT_THAT(refusal("library,algorithm=-1"), HasSubstr("algorithm='-1': expected a whole"));
}

TEST(ScheduleText, NamesEveryBadPartAtOnce) {
  const std::string what = refusal(
      "tiels,granularity=tiles,tile=128,swizzle=x,chunks=99999999999999999999,groups=1+,"
      "comm_sms=3,reuse,,sync=flag,sync=event");
  EXPECT_THAT(what, HasSubstr("unknown strategy 'tiels' (did you mean 'tiles'?)"));
  EXPECT_THAT(what, HasSubstr("unknown granularity 'tiles' (did you mean 'tile'?); known: whole, "
                              "chunk, waves, slice, tile"));
  EXPECT_THAT(what, HasSubstr("tile='128': expected ROWSxCOLUMNS, like 128x256"));
  EXPECT_THAT(what, HasSubstr("swizzle='x': expected a whole number from 0 to 1000000000"));
  EXPECT_THAT(what, HasSubstr("chunks='99999999999999999999': expected a whole number"));
  EXPECT_THAT(what, HasSubstr("groups='1+': expected auto, or sizes like 1+2+4"));
  EXPECT_THAT(what, HasSubstr("unknown coordinate 'comm_sms' (did you mean 'comm-sms'?)"));
  EXPECT_THAT(what, HasSubstr("'reuse' is not of the form key=value"));
  EXPECT_THAT(what, HasSubstr("an empty part between commas"));
  EXPECT_THAT(what, HasSubstr("sync is given twice"));
  EXPECT_EQ(what.find('\n'), std::string::npos);
}

TEST(ScheduleText, WithoutAPresetEveryCoordinateIsNeeded) {
  const std::string what = refusal("granularity=tile,tile=64x64");
  EXPECT_THAT(what, HasSubstr("order= mover= sync= reduction= reuse= partials= swizzle= chunks= "
                              "groups= comm-sms= missing"));
  EXPECT_THAT(what, HasSubstr("begin with a preset's name"));
}

TEST(ScheduleText, HostileTextsAreRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("an empty schedule"));
  EXPECT_THAT(refusal(std::string(1 << 20, ',')), HasSubstr("at most 8192"));
  EXPECT_THAT(refusal(std::string(8000, ',')), HasSubstr("unknown strategy ''"));
  EXPECT_THAT(refusal(std::string("tiles,tile=\0x\xff", 14)), HasSubstr("\\x00x\\xff"));
  EXPECT_THAT(refusal("tiles,tile=-8x8"), HasSubstr("tile='-8x8'"));
  EXPECT_THAT(refusal("tiles,tile=8x8x8"), HasSubstr("tile='8x8x8'"));
  EXPECT_THAT(refusal("tiles,comm-sms= 8"), HasSubstr("comm-sms=' 8'"));
}

TEST(ScheduleText, PresetsOfABadOperatorDoNotCrash) {
  for (const Preset& preset : presets()) {
    Segment op{kGemmRs, 0, -1, 0, 0, DType::bf16};
    EXPECT_EQ(parse(preset.name, op).tile_m, 128);
  }
}

}  // namespace
}  // namespace stretto
