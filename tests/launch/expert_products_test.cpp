// Whole products of rows that choose their matrices, which the kernel of experts multiplies.
#include "launch/expert_products.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/cublas_gemms.h"
#include "launch/expert_chain.h"
#include "launch/library_limits.h"
#include "plan/tile_task.h"
#include "stretto/lower.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

using testing::HasSubstr;

Plan plan_of(const std::string& op_text, const char* schedule = "library") {
  const Operator op = parse_operator(op_text);
  const Machine machine = default_machine(op.ranks);
  return lower(op, parse_schedules(schedule, op, machine), machine);
}

// By kernel of the rank.
std::vector<std::vector<ExpertProduct>> products_of_rank(const Plan& plan, size_t rank) {
  const RankProgram program = programs_of(plan)[rank];
  std::vector<std::vector<ExpertProduct>> all;
  for (size_t k = 0; k < program.gemms.size(); ++k) {
    EXPECT_TRUE(is_by_experts(program.needs[k]));
    all.push_back(expert_products_of(plan, *program.sums, program.gemms[k]));
  }
  return all;
}

std::string text_of(const Plan& plan, const Region& region) {
  if (region.rows() == 0) return "-";
  return fmt::format("{}[{}:{},{}:{}]", plan.buffers[region.buffer].name, region.row0, region.row1,
                     region.col0, region.col1);
}

TEST(ExpertProducts, AreTheWholeOfEachProduct) {
  const Plan plan = plan_of("moe-ep t=100 h=256 f=384 experts=4 k=2 ranks=1 dtype=bf16");
  const auto products = products_of_rank(plan, 0);
  ASSERT_EQ(products.size(), 2u);
  ASSERT_EQ(products[0].size(), 1u);
  const ExpertProduct &up = products[0][0], &down = products[1][0];
  EXPECT_EQ(text_of(plan, up.a), "x[0:100,0:256]");
  EXPECT_EQ(text_of(plan, up.gate), "wg[0:1536,0:256]");
  EXPECT_EQ(text_of(plan, up.up), "wu[0:1536,0:256]");
  EXPECT_EQ(text_of(plan, up.c), "a[0:448,0:384]");
  EXPECT_EQ(text_of(plan, up.counts), "a_counts[0:5,0:1]");
  EXPECT_EQ(text_of(plan, up.choices), "a_choices[0:448,0:1]");
  EXPECT_EQ(std::tuple(up.experts, up.each, up.per, up.entry_rows), std::tuple(4, 384, 2, 64));
  EXPECT_EQ(text_of(plan, down.a), "a[0:448,0:384]");
  EXPECT_EQ(text_of(plan, down.gate), "wd[0:1024,0:384]");
  EXPECT_EQ(text_of(plan, down.up), "-");
  EXPECT_EQ(text_of(plan, down.c), "d[0:448,0:256]");
}

// Of the plan, which GPUs run, every kernel of experts is one product. How many of them there are.
size_t count_products(const Plan& plan) {
  EXPECT_EQ(fmt::format("{}", fmt::join(why_not_on_cuda(plan), "; ")), "");
  const TileSums sums(plan);
  size_t count = 0;
  for (const RankProgram& program : programs_of(plan)) {
    for (size_t k = 0; k < program.gemms.size(); ++k) {
      if (!is_by_experts(program.needs[k])) continue;
      const auto found = expert_products_of(plan, sums, program.gemms[k]);
      EXPECT_EQ(found.size(), 1u);
      if (found.size() != 1) continue;
      ++count;
      int64_t elements = 0;
      for (const BlockPart& part : program.gemms[k]) {
        const std::vector<Instr>& instrs = plan.lanes[part.lane].instrs;
        for (uint32_t at = part.begin; at < part.end; ++at) {
          const Region& to = plan.writes(instrs[at])[0];
          if (to.buffer == found[0].c.buffer) elements += to.elements();
        }
      }
      EXPECT_EQ(elements, found[0].c.elements());
    }
  }
  return count;
}

// Rows in the partition's order, a rank's own experts, slices, parts of the rows.
TEST(ExpertProducts, OfEveryLayer) {
  for (const std::string schedule :
       {"library", "library,permute=pass", "library,tile=24x64", "library,tile=128x256"}) {
    for (const std::string name : {"moe-tp", "moe-ep", "moe-tp-up", "moe-tp-down"}) {
      for (const int ranks : {1, 2, 3}) {
        const std::string text =
            fmt::format("{} t=200 h=256 f=384 experts=6 k=2 ranks={} dtype=bf16", name, ranks);
        SCOPED_TRACE(text + " " + schedule);
        const size_t products = name.find("moe-tp-") == 0 ? 1 : 2;
        EXPECT_EQ(count_products(plan_of(text, schedule.c_str())),
                  products * static_cast<size_t>(ranks));
      }
    }
  }
}

TEST(ExpertProducts, OfPartsAndBesideOtherProducts) {
  const char* const shared =
      "moe-ep-shared t=200 h=256 f=384 s=128 experts=6 k=2 ranks={} dtype=bf16";
  const char* const slices =
      "moe-ep-slices t=200 h=256 f=384 experts=5 k=2 slices=2 ranks={} dtype=bf16";
  const char* const layer = "moe-ep t=200 h=256 f=384 experts=6 k=2 ranks={} dtype=bf16";
  for (const size_t ranks : {1, 2, 3}) {
    const auto count = [&](const char* text, const char* schedule) {
      SCOPED_TRACE(schedule);
      return count_products(plan_of(fmt::format(fmt::runtime(text), ranks), schedule)) / ranks;
    };
    EXPECT_EQ(count(layer, "split=2/library"), 4u);
    EXPECT_EQ(count(layer, "sequential/y:library"), 1u);
    EXPECT_EQ(count(slices, "library"), 2u);
    EXPECT_EQ(count(shared, "library/sa:sequential"), 2u);
    EXPECT_EQ(count(shared, "split=2/sequential/a:library/routed:library"), 4u);
  }
}

// Own tokens' products are kernels of their own, which await nothing that copy engines send; behind
// them, those of other ranks' tokens. Where no token has to come, one kernel has all sources.
TEST(ExpertProducts, OfOneSourceAfterTheOther) {
  const char* const up = "library,mover=copy-engine,granularity=chunk";
  const std::string both = fmt::format("{0}/y:{0},reduction=slots", up);
  for (const int ranks : {2, 3}) {
    const auto sources = static_cast<size_t>(ranks);
    const Plan plan =
        plan_of(fmt::format("moe-tp t=200 h=256 f=384 experts=6 k=2 ranks={} dtype=bf16", ranks),
                both.c_str());
    EXPECT_EQ(fmt::format("{}", fmt::join(why_not_on_cuda(plan), "; ")), "");
    for (size_t rank = 0; rank < sources; ++rank) {
      const auto kernels = products_of_rank(plan, rank);
      ASSERT_EQ(kernels.size(), sources + 1);
      for (size_t turn = 0; turn < sources; ++turn) {
        ASSERT_EQ(kernels[turn].size(), 1u);
        const bool is_own = turn == 0;
        EXPECT_EQ(plan.buffers[kernels[turn][0].a.buffer].name, is_own ? "x" : "a_x");
      }
      EXPECT_EQ(kernels.back().size(), sources);
      const RankProgram program = programs_of(plan)[rank];
      const std::vector<Step>& steps = program.streams[0].steps;
      const auto gemm = [](const Step& step) { return step.kind == StepKind::gemm; };
      const auto first = std::find_if(steps.begin(), steps.end(), gemm);
      const auto second = std::find_if(first + 1, steps.end(), gemm);
      const auto awaits_copies = [&](const Step& step) {
        return step.kind == StepKind::wait && step.instr(plan).lag == 0;
      };
      EXPECT_TRUE(std::any_of(first, second, awaits_copies));
    }
  }
}

TEST(ExpertProducts, TakeNoCublas) {
  const char* const sizes = " t=100 h=256 f=384 experts=4 k=2 ranks=1 dtype=bf16";
  EXPECT_FALSE(takes_cublas(plan_of(std::string("moe-ep") + sizes)));
  EXPECT_FALSE(takes_cublas(plan_of(std::string("moe-ep-router") + sizes, "library/s:sequential")));
  EXPECT_TRUE(takes_cublas(plan_of(std::string("moe-ep-router") + sizes)));
}

// Activations that a library leaves to movers, which have no room for them beside experts.
TEST(ExpertProducts, DoNotStandBesideLibrariesOfFollowedProducts) {
  const Operator op =
      parse_operator("moe-ep-shared t=200 h=256 f=384 s=128 experts=6 k=2 ranks=1 dtype=bf16");
  const Machine machine = default_machine(1);
  const auto reasons = legal(op, parse_schedules("sequential,gemm=library", op, machine), machine);
  EXPECT_THAT(fmt::format("{}", fmt::join(reasons, "; ")),
              testing::StartsWith("sa: gemm=library with swiglu behind the product"));
}

TEST(ExpertProducts, OfOtherTilesAreRefused) {
  const Plan whole = plan_of("moe-ep t=300 h=256 f=384 experts=4 k=2 ranks=1 dtype=bf16");
  const auto refusal = [&](auto&& change) {
    Plan plan = whole;
    for (Lane& lane : plan.lanes) {
      for (size_t at = 0; at < lane.instrs.size(); ++at) {
        Instr& instr = lane.instrs[at];
        if (instr.op != Opcode::grouped_gemm) continue;
        Region* const operands = plan.operands.data() + instr.first_operand;
        change(lane, at, operands);
        return why_no_products(plan, TileSums(plan));
      }
    }
    return std::string("no tile");
  };
  EXPECT_EQ(refusal([](auto&&...) {}), "");
  const char* const partial = "all entries by all columns";
  EXPECT_THAT(refusal([](Lane& lane, size_t at, Region*) {
                lane.instrs.erase(lane.instrs.begin() + static_cast<std::ptrdiff_t>(at));
              }),
              HasSubstr(partial));
  EXPECT_THAT(refusal([](Lane& lane, size_t at, Region*) {
                lane.instrs.insert(lane.instrs.begin() + static_cast<std::ptrdiff_t>(at),
                                   lane.instrs[at]);
              }),
              HasSubstr(partial));
  const char* const other = "are of one product";
  for (const int operand : {0, 1, 3}) {  // rows of A, EXPERTS, the result
    EXPECT_THAT(refusal([&](Lane&, size_t, Region* operands) {
                  const int32_t rows = operands[operand].rows();
                  const int32_t by = operands[operand].row0 == 0 ? rows : -rows;
                  operands[operand].row0 += by;
                  operands[operand].row1 += by;
                }),
                HasSubstr(other));
  }
  EXPECT_THAT(refusal([](Lane&, size_t, Region* operands) { ++operands[2].row0; }),
              HasSubstr(other));
  EXPECT_THAT(refusal([](Lane& lane, size_t at, Region*) {
                Instr wait;
                wait.op = Opcode::notify;
                lane.instrs.insert(lane.instrs.begin() + static_cast<std::ptrdiff_t>(at) + 1, wait);
                lane.instrs.insert(lane.instrs.begin() + static_cast<std::ptrdiff_t>(at) + 2,
                                   lane.instrs[at]);
              }),
              HasSubstr("nothing is awaited or told"));
}

// What a launch would leave out, or find elsewhere than its tiles do.
TEST(ExpertProducts, AreAllThatTheirTilesDo) {
  const Plan whole = plan_of("moe-ep t=300 h=256 f=384 experts=4 k=2 ranks=1 dtype=bf16");
  struct At {
    Plan plan;
    Lane* lane = nullptr;
    uint32_t pos = 0;
    Region* operands() { return plan.operands.data() + lane->instrs[pos].first_operand; }
    void insert(const Instr& instr) { lane->instrs.insert(lane->instrs.begin() + pos, instr); }
  };
  const auto first_of = [&](Opcode op) {
    At at{whole};
    for (Lane& lane : at.plan.lanes) {
      for (at.pos = 0; at.pos < lane.instrs.size(); ++at.pos) {
        at.lane = &lane;
        if (lane.instrs[at.pos].op == op) return at;
      }
    }
    return at;
  };
  const auto refusal = [&](Opcode op, auto&& change) {
    At at = first_of(op);
    change(at);
    return why_no_products(at.plan, TileSums(at.plan));
  };
  for (const Opcode op : {Opcode::gather_gemm, Opcode::grouped_gemm}) {
    EXPECT_EQ(refusal(op, [](At&) {}), "");
    EXPECT_THAT(refusal(op,
                        [](At& at) {
                          Instr wait;
                          wait.op = Opcode::wait;
                          at.insert(wait);
                        }),
                HasSubstr("nothing is awaited or told ahead of"));
    const At sum = first_of(Opcode::weigh);
    EXPECT_THAT(refusal(op, [&](At& at) { at.insert(sum.lane->instrs[sum.pos]); }),
                HasSubstr("nothing but tiles stands ahead of"));
  }
  EXPECT_THAT(refusal(Opcode::gather_gemm,
                      [](At& at) {
                        for (uint32_t pos = at.pos; pos < at.pos + 2; ++pos) {  // gate and up
                          Region& choices = at.plan.operands[at.lane->instrs[pos].first_operand];
                          choices.row0 += choices.rows();
                          choices.row1 += choices.rows();
                        }
                      }),
              HasSubstr("by the choices of their entries"));
  EXPECT_THAT(refusal(Opcode::route, [](At& at) { at.insert(at.lane->instrs[at.pos]); }),
              HasSubstr("of one partition"));
  EXPECT_THAT(refusal(Opcode::grouped_gemm,
                      [](At& at) { at.plan.buffers[at.operands()[2].buffer].dtype = DType::fp16; }),
              HasSubstr("tiles read bf16"));
  const auto of_all_tiles = [&](auto&& change) {
    return refusal(Opcode::grouped_gemm, [&](At& at) {
      for (const Lane& lane : at.plan.lanes) {
        for (const Instr& instr : lane.instrs) {
          if (instr.op == Opcode::grouped_gemm) {
            change(at.plan.operands.data() + instr.first_operand);
          }
        }
      }
    });
  };
  EXPECT_THAT(of_all_tiles([](Region* operands) {
                operands[3].col0 += 4;
                operands[3].col1 += 4;
              }),
              HasSubstr("found 4 to 260"));
  EXPECT_THAT(of_all_tiles([](Region* operands) { operands[0].buffer = operands[3].buffer; }),
              HasSubstr("none reads what another writes"));
}

// As wide as the caller has it: legal() says so before anything is lowered.
TEST(ExpertProducts, OfShapesThatTheKernelHasNotAreIllegal) {
  const auto reasons = [](const std::string& text, const char* schedule) {
    const Operator op = parse_operator(text);
    const Machine machine = default_machine(op.ranks);
    return fmt::format("{}",
                       fmt::join(legal(op, parse_schedules(schedule, op, machine), machine), "; "));
  };
  const auto sizes = [](int h, int f, int experts) {
    return fmt::format("moe-ep t=100 h={} f={} experts={} k=2 ranks=1 dtype=bf16", h, f, experts);
  };
  EXPECT_EQ(reasons(sizes(256, 384, 512), "library"), "");
  EXPECT_THAT(reasons(sizes(64, 384, 4), "sequential,gemm=library"),
              HasSubstr("K of 64 on a rank"));
  EXPECT_THAT(reasons(sizes(256, 384, 513), "sequential,gemm=library"),
              HasSubstr("513 experts of 384 columns"));
  EXPECT_THAT(reasons(sizes(256, 384, 4), "library,algorithm=1"), HasSubstr("algorithm=1"));
  EXPECT_THAT(reasons(sizes(256, 384, 4), "library,sync=flag"), HasSubstr("sync=flag"));
  EXPECT_THAT(
      reasons("moe-ep t=100 h=256 f=384 experts=4 k=2 ranks=2 dtype=bf16", "tiles,gemm=library"),
      HasSubstr("mover=nccl, epilogue or copy-engine, or gemm=tiles"));
}

// Tables are made and tokens sent by one kernel ahead of the products; nothing needs a second
// stream.
TEST(ExpertProducts, StandBehindTwoKernelsThatBringTheirTokens) {
  const Plan plan = plan_of("moe-tp t=128 h=256 f=512 experts=8 k=2 ranks=2 dtype=bf16",
                            "library,mover=epilogue,permute=load/y:library,mover=epilogue,"
                            "reduction=slots");
  for (const RankProgram& program : programs_of(plan)) {
    ASSERT_EQ(program.streams.size(), 1u);
    std::string kinds;
    for (const Step& step : program.streams[0].steps) {
      kinds += step.kind == StepKind::gemm ? "g" : step.kind == StepKind::move ? "m" : ".";
    }
    EXPECT_EQ(kinds, "m..mggm..m");
    EXPECT_EQ(program.moves.size(), 4u);
  }
}

// Only there do partition and weights stand before the kernel ahead has ended.
TEST(ExpertProducts, StandBehindOthersOfExpertsOrDoNot) {
  const auto ahead_of_all = [](const Plan& plan) {
    std::string found;
    for (const RankProgram& program : programs_of(plan)) {
      for (uint32_t kernel = 0; kernel < program.gemms.size(); ++kernel) {
        const std::optional<uint32_t> ahead = experts_ahead(program, kernel);
        found += ahead ? fmt::format("{} ", *ahead) : "- ";
      }
    }
    return found;
  };
  const std::string sizes = "t=128 h=256 f=512 experts=8 k=2 dtype=bf16 ranks=";
  EXPECT_EQ(ahead_of_all(plan_of("moe-ep " + sizes + "1", "library")), "- 0 ");
  EXPECT_EQ(ahead_of_all(plan_of("moe-ep " + sizes + "2", "low-latency")), "- 0 - 0 ");
  EXPECT_EQ(ahead_of_all(plan_of("moe-tp-up " + sizes + "2", "library")), "- - ");
  EXPECT_EQ(ahead_of_all(plan_of("moe-ep " + sizes + "2", "tiles")), "- - - - ");
  EXPECT_EQ(ahead_of_all(plan_of("mlp m=128 h=256 f=512 ranks=2 dtype=bf16", "library")),
            "- - - - ");
  // Two of one kind, each with a partition.
  const Operator layers =
      make_graph(parse_graph(R"(graph two t h f experts k
input x [t, h] rows
input ids [t, k] rows i32
input ids2 [t, k] rows i32
input w [t, k] rows fp32
input up [experts, f, h] experts
input down [experts, h, f] experts
a = grouped x up ids
b = grouped a down ids
c = grouped x up ids2
d = grouped c down ids2
y = weigh b ids w
z = weigh d ids2 w
output y rows
output z rows
)"),
                 {{"t", 128}, {"h", 256}, {"f", 512}, {"experts", 8}, {"k", 2}}, 1, DType::bf16);
  const Machine machine = default_machine(1);
  const Plan plan = lower(layers, parse_schedules("library", layers, machine), machine);
  EXPECT_EQ(ahead_of_all(plan), "- 0 - 2 ");
}

// Only rows that the kernel ahead stores in order are there tile by tile.
TEST(ExpertProducts, FollowByTilesWhereTheyReadRowsAsTheyAreStored) {
  const auto follow = [](const Plan& plan) {
    std::string found;
    for (const RankProgram& program : programs_of(plan)) {
      for (uint32_t kernel = 0; kernel < program.gemms.size(); ++kernel) {
        const std::optional<uint32_t> ahead = experts_ahead(program, kernel);
        if (!ahead) continue;
        const auto first = expert_products_of(plan, *program.sums, program.gemms[*ahead]);
        const auto second = expert_products_of(plan, *program.sums, program.gemms[kernel]);
        const GemmNeeds &of_first = program.needs[*ahead], &of_second = program.needs[kernel];
        found += follows_by_tiles(plan, first.at(0), of_first, second.at(0), of_second) ? "y" : "n";
        const auto expect_not = [&](const char* why, auto&& spoil) {
          ExpertProduct a = first.at(0), b = second.at(0);
          GemmNeeds of_a = of_first, of_b = of_second;
          spoil(a, b, of_a, of_b);
          EXPECT_FALSE(follows_by_tiles(plan, a, of_a, b, of_b)) << why;
        };
        expect_not("other rows", [](auto&, auto& b, auto&, auto&) { b.a.row1 -= 1; });
        expect_not("another partition",
                   [](auto&, auto& b, auto&, auto&) { b.counts.buffer = b.choices.buffer; });
        expect_not("other experts", [](auto&, auto& b, auto&, auto&) { ++b.experts; });
        expect_not("other entries", [](auto&, auto& b, auto&, auto&) { ++b.entry_rows; });
        expect_not("rows stored by choice",
                   [](auto&, auto&, auto& of_a, auto&) { of_a.scatters = true; });
        expect_not("rows gathered", [](auto&, auto&, auto&, auto& of_b) { of_b.gathers = true; });
        expect_not("over tokens", [](auto& a, auto& b, auto&, auto&) { b.c.buffer = a.a.buffer; });
        expect_not("over weights",
                   [](auto& a, auto& b, auto&, auto&) { b.c.buffer = a.gate.buffer; });
        expect_not("into a caller's tensor",
                   [](auto&, auto& b, auto&, auto&) { b.c.buffer = b.gate.buffer; });
      }
    }
    return found;
  };
  const std::string sizes = "t=128 h=256 f=512 experts=8 k=2 dtype=bf16 ranks=";
  EXPECT_EQ(follow(plan_of("moe-ep " + sizes + "1", "library")), "y");
  EXPECT_EQ(follow(plan_of("moe-ep " + sizes + "2", "low-latency")), "yy");
  EXPECT_EQ(follow(plan_of("moe-ep " + sizes + "2", "library,mover=copy-engine/y:low-latency")),
            "yy");
  EXPECT_EQ(follow(plan_of("moe-tp " + sizes + "2", "library,mover=copy-engine/y:low-latency")),
            "yy");
  EXPECT_EQ(follow(plan_of("moe-tp " + sizes + "2", "low-latency")), "yy");
}

}  // namespace
}  // namespace stretto::cuda
