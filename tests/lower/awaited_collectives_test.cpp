// Schedules of which one leaves its collectives to boundaries, and another has blocks wait for what
// these bring.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lower/drafts.h"
#include "op/graph_text.h"
#include "stretto/check.h"

namespace stretto {
namespace {

constexpr int kSms = 4;

Operator two_sums(const std::string& rest) {
  return make_graph(parse_graph("graph own m\ninput x [m, 16] cols\ninput v [16, 16] cols\n"
                                "input w [16, 16] cols\ng = gemm x v\nu = gemm x w\n" +
                                rest),
                    {{"m", 256}}, 2, DType::bf16);
}

// Compute lanes of rank 0 in a plan that is proved.
int proved_lanes(const Operator& op, const std::string& text) {
  SCOPED_TRACE(text);
  const Machine machine = small_machine(2, kSms);
  const OperatorSchedule schedule = parse_schedules(text, op, machine);
  EXPECT_THAT(legal(op, schedule, machine), testing::IsEmpty());
  const Plan plan = lower(op, schedule, machine);
  const CheckReport report = check(plan);
  EXPECT_TRUE(report.clean()) << (report.clean() ? "" : report.diagnostics.front().message);
  return static_cast<int>(std::count_if(plan.lanes.begin(), plan.lanes.end(), [](const Lane& lane) {
    return lane.kind == LaneKind::compute && lane.rank == 0;
  }));
}

TEST(AwaitedCollectives, FindAnSmBesideSumsThatWaitForThem) {
  const Operator op = two_sums("y = add u g\noutput y rows\n");
  for (const char* first : {"sequential", "library", "low-latency"}) {
    const std::string text = std::string("g:") + first + "/u:tiles,mover=epilogue,comm-sms=0";
    EXPECT_EQ(proved_lanes(op, text + ",tile=8x8"), kSms - 1);
  }
}

TEST(AwaitedCollectives, FindAnSmBesideRowsThatWaitForThem) {
  const Operator op = two_sums("y = swiglu u g\noutput y rows\n");
  for (const char* first : {"sequential", "library", "low-latency"}) {
    const std::string text = std::string("g:") + first + "/u:tiles,mover=epilogue,comm-sms=0";
    EXPECT_EQ(proved_lanes(op, text + ",tile=8x8"), kSms - 1);
  }
}

// Tiles of the second product wait for the first one's sums, and so do movers that gather the rows.
TEST(AwaitedCollectives, FindAnSmBesideTilesAndMoversThatWaitForThem) {
  const std::string head =
      "graph own m\ninput x [m, 16] cols\ninput v [16, 16] cols\ng = gemm x v\n";
  const auto op_of = [&](const char* rest) {
    return make_graph(parse_graph(head + rest), {{"m", 256}}, 2, DType::bf16);
  };
  const Operator movers = op_of(
      "input u [16, 16] whole\ninput w [32, 16] rows\ns = silu g\nt = gemm s u\n"
      "y = gemm t w\noutput y cols\n");
  EXPECT_EQ(
      proved_lanes(movers, "g:sequential/t:tiles,comm-sms=2,tile=8x8/y:tiles,comm-sms=2,tile=8x8"),
      kSms - 2);
  const Operator both = op_of(
      "input u [16, 16] whole\ninput w [32, 16] rows\nt = gemm g u\ny = gemm t w\noutput y cols\n");
  EXPECT_EQ(
      proved_lanes(both, "g:low-latency/t:tiles,comm-sms=2,tile=8x8/y:tiles,comm-sms=2,tile=8x8"),
      kSms - 3);
}

// Who comes first on one rank may keep the other out, and wait for it on the next rank.
TEST(AwaitedCollectives, FindAnSmBesideTilesThatWaitForOtherRanks) {
  const Operator op = two_sums("output g rows\noutput u rows\n");
  for (const char* first : {"sequential", "library", "low-latency"}) {
    const std::string text = std::string("g:") + first + "/u:tiles,mover=epilogue,comm-sms=0";
    EXPECT_EQ(proved_lanes(op, text + ",tile=8x8"), kSms - 1);
  }
}

TEST(AwaitedCollectives, LeaveAllSmsToTilesThatHaveEndedBeforeThem) {
  const Operator op = two_sums("y = swiglu u g\noutput y rows\n");
  EXPECT_EQ(proved_lanes(op, "g:tiles,mover=epilogue,comm-sms=0,tile=8x8/u:sequential"), kSms);
}

// The norm has waited for the first sums, at a boundary.
TEST(AwaitedCollectives, LeaveAllSmsBehindWhatHasWaitedForThem) {
  const Operator op =
      make_graph(parse_graph("graph own m\ninput x [m, 16] cols\ninput v [16, 16] cols\n"
                             "input n [1, 16] whole\ninput u [16, 16] rows\ninput w [16, 16] cols\n"
                             "input r [m, 16] rows\ng = gemm x v\ns = add g r\nt = norm s n\n"
                             "h = gemm t u\nd = gemm h w\ny = add d s\noutput y rows\n"),
                 {{"m", 256}}, 2, DType::bf16);
  for (const char* first : {"sequential", "low-latency"}) {
    const std::string text = std::string("tiles,mover=copy-engine,comm-sms=0,tile=8x8/g:") + first +
                             "/d:tiles,mover=epilogue,comm-sms=0,tile=8x8";
    EXPECT_EQ(proved_lanes(op, text), kSms - 1);  // which copy engines' signals have
  }
  EXPECT_EQ(proved_lanes(op, "sequential/d:tiles,mover=epilogue,comm-sms=0,tile=8x8"), kSms);
}

TEST(AwaitedCollectives, AndMoversLeaveAnSmToComputeOn) {
  const Operator op = two_sums("y = swiglu u g\noutput y rows\n");
  const Machine machine = small_machine(2, kSms);
  const auto reasons =
      legal(op, parse_schedules("g:sequential/u:tiles,mover=comm-blocks,comm-sms=3", op, machine),
            machine);
  EXPECT_THAT(reasons, testing::ElementsAre(testing::HasSubstr("leave no SM to compute on")));
}

// A kernel of the graph's, whose blocks may wait for each other, has an SM for each of them.
TEST(AwaitedCollectives, OfTheGraphsKernelsFindAnSmForEveryBlock) {
  const auto op_of = [](int blocks, const char* rest) {
    return make_graph(
        parse_graph(fmt::format("graph own m\nkernel k reduce-scatter \"k.h\" blocks={}\n"
                                "input x [m, 16] cols\ninput v [16, 16] cols\n"
                                "input w [16, 16] cols\ng = gemm x v\nu = gemm x w\n{}",
                                blocks, rest)),
        {{"m", 256}}, 2, DType::bf16);
  };
  const std::string text = "g:sequential,kernel=k/u:tiles,mover=epilogue,comm-sms=0,tile=8x8";
  const char* const sum = "y = add u g\noutput y rows\n";
  EXPECT_EQ(proved_lanes(op_of(1, sum), text), kSms - 1);
  EXPECT_EQ(proved_lanes(op_of(3, sum), text), kSms - 3);
  // Nothing waits for the call, but tiles beside it wait for other ranks' tiles.
  EXPECT_EQ(proved_lanes(op_of(3, "output g rows\noutput u rows\n"), text), kSms - 3);
  const Machine machine = small_machine(2, kSms);
  const Operator all = op_of(kSms, sum);
  EXPECT_THAT(
      legal(all, parse_schedules(text, all, machine), machine),
      testing::ElementsAre(testing::HasSubstr(
          "a kernel of 4 blocks, each with an SM while blocks of other products wait in "
          "theirs, beside comm-sms=0: small has 4 SMs, give it at most blocks=3 in the graph")));
}

// Of a gather the call may begin beside tiles that stand ahead of its product, and in parts of the
// rows a part's call runs beside what has followed another's.
TEST(AwaitedCollectives, OfTheGraphsKernelsFindTheirSmsBesideAllThatWaitsForPeers) {
  const auto op_of = [](const std::string& rest) {
    return make_graph(parse_graph("graph own m\nkernel k gather \"k.h\" blocks=2\n"
                                  "kernel s reduce-scatter \"k.h\" blocks=2\n" +
                                  rest),
                      {{"m", 256}}, 2, DType::bf16);
  };
  const std::string tiles = "tiles,mover=epilogue,comm-sms=0,tile=8x8";
  const std::string gathers =
      "input x [m, 16] cols\ninput w [16, 16] cols\n"
      "input v [16, 16] rows\nu = gemm x w\n";
  const std::string text = "u:" + tiles + "/g:sequential,kernel=k";
  EXPECT_EQ(proved_lanes(op_of("input z [m, 16] rows\n" + gathers +
                               "g = gemm z v\noutput u rows\noutput g cols\n"),
                         text),
            kSms - 2);
  EXPECT_EQ(proved_lanes(op_of("input n [1, 16] whole\n" + gathers +
                               "t = norm u n\ng = gemm t v\noutput g cols\n"),
                         text),
            kSms);
  const Operator followed = op_of(
      "input x [m, 16] cols\ninput w [16, 16] cols\ninput n [1, 16] whole\n"
      "input v [16, 16] rows\ninput d [16, 16] cols\ng = gemm x w\nt = norm g n\n"
      "h = gemm t v\ny = gemm h d\noutput y rows\n");
  const std::string chain = "sequential/g:sequential,kernel=s/y:" + tiles;
  EXPECT_EQ(proved_lanes(followed, chain), kSms);
  EXPECT_EQ(proved_lanes(followed, "split=2/" + chain), kSms - 2);
  // Movers' blocks are there all along.
  const Machine machine = small_machine(2, kSms);
  const std::string movers = "sequential/g:sequential,kernel=s/y:tiles,mover=comm-blocks,comm-sms=";
  EXPECT_THAT(legal(followed, parse_schedules(movers + "2", followed, machine), machine),
              testing::IsEmpty());
  EXPECT_THAT(legal(followed, parse_schedules(movers + "3", followed, machine), machine),
              testing::ElementsAre(testing::HasSubstr("give it at most blocks=1 in the graph")));
}

// Tiles of the edge in front of the product wait inside their kernel, and its own collective is to
// have an SM.
TEST(AwaitedCollectives, AndMoversOfAnEdgeInFrontLeaveAnSmToComputeOn) {
  const Operator op =
      make_graph(parse_graph("graph own m\ninput x [m, 16] rows\ninput w [16, 16] rows\n"
                             "y = gemm x w\noutput y rows\n"),
                 {{"m", 256}}, 2, DType::bf16);
  const Machine machine = small_machine(2, kSms);
  const auto reasons = [&](int comm_sms) {
    const std::string text = fmt::format(
        "y.in:tiles,mover=comm-blocks,tile=8x8,comm-sms={}/y:sequential,tile=8x8", comm_sms);
    return legal(op, parse_schedules(text, op, machine), machine);
  };
  EXPECT_THAT(reasons(kSms - 1),
              testing::ElementsAre(testing::HasSubstr("leave no SM to compute")));
  EXPECT_THAT(reasons(kSms - 2), testing::IsEmpty());
  EXPECT_EQ(proved_lanes(op, "y.in:tiles,tile=8x8,comm-sms=2/y:sequential,tile=8x8"), kSms - 3);
}

}  // namespace
}  // namespace stretto
