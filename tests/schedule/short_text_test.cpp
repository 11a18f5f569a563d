#include "schedule/short_text.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(ShortText, NamesThePresetAndWhatDiffers) {
  const Segment op = parse_segment("gemm-rs m=4096 n=8192 k=7168 ranks=2 dtype=bf16");
  const Machine machine = default_machine(2);
  for (const char* text :
       {"sequential", "decomposed", "slices", "tiles,tile=128x160,comm-sms=4", "waves,groups=1+2+4",
        "tiles,order=peer-staggered", "library", "library,tile=64x64", "two-chunk,gemm=library",
        "sequential,split-k=2", "library,algorithm=3", "low-latency,algorithm=7",
        "low-latency,rows=bucket", "two-chunk,split-k=2,rows=bucket,gemm=library,algorithm=1"}) {
    const Schedule schedule = parse_schedule(text, op, machine);
    EXPECT_EQ(short_text(schedule, op, machine), text);
    EXPECT_EQ(parse_schedule(short_text(schedule, op, machine), op, machine), schedule);
  }
}

TEST(ShortText, KeepsWhatAnotherShapesPresetWouldSay) {
  const Machine machine = default_machine(2);
  const Segment small = parse_segment("ag-gemm m=128 n=256 k=256 ranks=2 dtype=bf16");
  const Segment large = parse_segment("ag-gemm m=8192 n=8192 k=8192 ranks=2 dtype=bf16");
  const Schedule schedule = find_preset("tiles").make(large, machine);
  EXPECT_EQ(short_text(schedule, large, machine), "tiles");
  EXPECT_EQ(parse_schedule(short_text(schedule, small, machine), small, machine), schedule);
}

}  // namespace
}  // namespace stretto
