// How a schedule says who moves what an edge at no product has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/cases.h"
#include "schedule/short_text.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Operator normed(int ranks = 4) {
  return make_operator("gemm-rs-norm-ag", {{"m", 512}, {"n", 512}, {"k", 512}}, ranks);
}

std::string refusal(const std::string& text, const Operator& op) {
  try {
    parse_schedules(text, op, machine_of());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Edges, HaveTheirMoverBehindTheProducts) {
  const Operator op = normed();
  for (const char* text : {"tiles/out:mover=copy-engine", "out : mover=copy-engine / tiles"}) {
    const OperatorSchedule schedule = parse_schedules(text, op, machine_of());
    ASSERT_EQ(schedule.edges.size(), 1u);
    EXPECT_EQ(schedule.mover_of_edge("out"), Mover::copy_engine);
    EXPECT_EQ(schedule.mover_of_edge("other"), Mover::epilogue);
    EXPECT_EQ(parse_schedules(to_string(schedule), op, machine_of()), schedule);
    EXPECT_EQ(short_text(schedule, op, machine_of()), "tiles/out:mover=copy-engine");
    EXPECT_THAT(legal(op, schedule, machine_of()), IsEmpty());
  }
  // What no word is for: those who have made the rows.
  EXPECT_EQ(parse_schedules("tiles/out:mover=epilogue", op, machine_of()),
            parse_schedules("tiles", op, machine_of()));
}

TEST(Edges, AreRefusedWithWhatWouldBeRight) {
  const Operator op = normed();
  EXPECT_EQ(refusal("tiles/out:slices", op),
            "out is an edge at no product, which has a mover alone: expected "
            "out:mover=copy-engine, found 'slices'");
  EXPECT_THAT(refusal("tiles/out:mover=copies", op), HasSubstr("unknown mover 'copies'"));
  EXPECT_EQ(refusal("tiles/out:mover=nccl/out:mover=nccl", op), "out is given twice");
  EXPECT_THAT(refusal("tiles/uot:mover=nccl", op), HasSubstr("known: "));
  EXPECT_THAT(refusal("out:mover=nccl", op), HasSubstr("no schedule for "));
  const auto reasons = [&](const char* text) {
    return legal(op, parse_schedules(text, op, machine_of()), machine_of());
  };
  EXPECT_THAT(reasons("sequential/out:mover=nccl"), IsEmpty());
  EXPECT_THAT(reasons("tiles/out:mover=comm-blocks"),
              ElementsAre("out: mover=comm-blocks of an edge at no product, beside which there is "
                          "nothing to compute: take mover=epilogue, whose blocks are all"));
  EXPECT_THAT(reasons("tiles,sync=flag/out:mover=nccl"),
              ElementsAre("out: mover=nccl beside p's sync=flag, whose kernels would wait for it: "
                          "take sync=event for all products, or mover=epilogue or copy-engine"));
  EXPECT_THAT(reasons("low-latency/out:mover=nccl"),
              ElementsAre("out: mover=nccl beside p's collectives=low-latency: take "
                          "collectives=nccl, or mover=epilogue or copy-engine"));
  OperatorSchedule other = parse_schedules("tiles", op, machine_of());
  other.edges = {{"y", Mover::copy_engine}};
  EXPECT_THAT(legal(op, other, machine_of()), ElementsAre(HasSubstr("y: unknown edge 'y'")));
}

}  // namespace
}  // namespace stretto
