// Whole products of rows that choose their matrices, which the kernel of experts multiplies.
#include "launch/expert_products.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/library_products.h"
#include "plan/tile_task.h"
#include "stretto/lower.h"

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

// Rows in the partition's order, a rank's own experts, slices, parts of the rows.
TEST(ExpertProducts, OfEveryLayer) {
  const std::string sizes = "t=200 h=256 f=384 experts=6 k=2";
  for (const char* schedule : {"library", "library,permute=pass", "split=2/library",
                               "library,tile=24x64", "library,tile=128x256"}) {
    for (const char* name : {"moe-tp", "moe-ep", "moe-tp-up", "moe-tp-down", "moe-ep-shared"}) {
      for (const int ranks : {1, 2, 3}) {
        const std::string text =
            fmt::format("{} {}{} ranks={} dtype=bf16", name, sizes,
                        name == std::string("moe-ep-shared") ? " s=128" : "", ranks);
        const bool splits = std::string(schedule).find("split") == 0;
        if (splits && std::string(name).find("moe-tp-") == 0) continue;  // rows by choice
        SCOPED_TRACE(text + " " + schedule);
        const Operator op = parse_operator(text);
        const Machine machine = default_machine(ranks);
        const OperatorSchedule parsed = parse_schedules(schedule, op, machine);
        if (!legal(op, parsed, machine).empty()) continue;
        const Plan plan = lower(op, parsed, machine);
        const TileSums sums(plan);
        EXPECT_EQ(why_no_products(plan, sums), "");
        for (const RankProgram& program : programs_of(plan)) {
          for (size_t k = 0; k < program.gemms.size(); ++k) {
            if (!is_by_experts(program.needs[k])) continue;
            const auto found = expert_products_of(plan, sums, program.gemms[k]);
            ASSERT_EQ(found.size(), 1u);
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
      }
    }
  }
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
  EXPECT_THAT(reasons(sizes(64, 384, 4), "library"), HasSubstr("K of 64 on a rank"));
  EXPECT_THAT(reasons(sizes(256, 384, 513), "library"), HasSubstr("513 experts of 384 columns"));
  EXPECT_THAT(reasons(sizes(256, 384, 4), "library,algorithm=1"), HasSubstr("algorithm=1"));
  EXPECT_THAT(reasons(sizes(256, 384, 4), "library,sync=flag"), HasSubstr("sync=flag"));
  EXPECT_THAT(
      reasons("moe-ep t=100 h=256 f=384 experts=4 k=2 ranks=2 dtype=bf16", "tiles,gemm=library"),
      HasSubstr("mover=nccl or gemm=tiles"));
}

}  // namespace
}  // namespace stretto::cuda
