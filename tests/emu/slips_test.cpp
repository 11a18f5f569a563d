// Plans whose order is right and whose operands are not: an operand of one task is that of another
// one. Each is found by what it computes, under random data and under integers.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <set>

#include "small_plans.h"

namespace stretto {
namespace {

struct Slip {
  std::string what;
  Plan plan;
};

// Those that have an operand of the same shape elsewhere.
bool computes(Opcode op) {
  switch (op) {
    case Opcode::gemm:
    case Opcode::grouped_gemm:
    case Opcode::gather_gemm:
    case Opcode::reduce:
    case Opcode::norm:
    case Opcode::swiglu:
    case Opcode::bias:
      return true;
    default:
      return false;
  }
}

bool is_input(const Plan& plan, const Region& region) {
  const auto tensor = plan.op.find_tensor(plan.buffers[region.buffer].name);
  return tensor && plan.op.tensor(*tensor).stage < 0;
}

// Rows so many times their number below or above them.
std::optional<Region> beside(const Plan& plan, Region region, int32_t times) {
  const int32_t number = region.rows(), rows = number * times;
  if (region.row1 + rows <= plan.buffers[region.buffer].rows) {
    region.row0 += rows;
  } else if (region.row0 >= rows) {
    region.row0 -= rows;
  } else {
    return std::nullopt;
  }
  region.row1 = region.row0 + number;
  return region;
}

class Slips {
 public:
  explicit Slips(const Plan& plan) : plan_(plan) {
    for (const Lane& lane : plan.lanes) {
      for (size_t at = 0; at < lane.instrs.size(); ++at) {
        const Instr& instr = lane.instrs[at];
        if (!computes(instr.op)) continue;
        for (size_t i = 0; i < instr.num_reads; ++i) add_operand(lane, at, i);
        if (instr.op == Opcode::norm) add_norm(lane, at);
      }
    }
  }

  std::vector<Slip> take() {
    std::vector<Slip> all;
    for (auto& [what, plan] : slips_) all.push_back({what, std::move(plan)});
    return all;
  }

 private:
  // One of each kind and buffer will do.
  bool is_known(const std::string& what) const { return slips_.contains(what); }

  void add_operand(const Lane& lane, size_t at, size_t operand) {
    const Instr& instr = lane.instrs[at];
    const Region& region = plan_.reads(instr)[operand];
    const Buffer& buffer = plan_.buffers[region.buffer];
    const std::string what = fmt::format("{} {}", to_string(instr.op), buffer.name);
    if (is_known(what)) return;
    // Of another expert, which has some tiles; which rows are whose is not this test's.
    const bool is_experts = buffer.name.ends_with("_experts");
    if (is_index(buffer.dtype) && !is_experts) return;
    std::optional<Region> other;
    if (is_input(plan_, region) || is_experts) {
      other = beside(plan_, region, is_experts ? 4 : 1);
    } else {
      other = earlier(lane, at, operand);
    }
    if (!other) return;
    Plan wrong = plan_;
    wrong.operands[instr.first_operand + operand] = *other;
    fuse_tasks(wrong);
    slips_.emplace(what, std::move(wrong));
  }

  // What the same lane has read for that before: it is there.
  std::optional<Region> earlier(const Lane& lane, size_t at, size_t operand) const {
    const Region& own = plan_.reads(lane.instrs[at])[operand];
    for (size_t before = 0; before < at; ++before) {
      const Instr& instr = lane.instrs[before];
      if (instr.op != lane.instrs[at].op || instr.num_reads <= operand) continue;
      const Region& region = plan_.reads(instr)[operand];
      const bool is_alike = region.buffer == own.buffer && region.rank == own.rank &&
                            region.rows() == own.rows() && region.cols() == own.cols();
      if (is_alike && region != own) return region;
    }
    return std::nullopt;
  }

  void add_norm(const Lane& lane, size_t at) {
    const Instr& instr = lane.instrs[at];
    const auto lane_index = static_cast<size_t>(&lane - plan_.lanes.data());
    const Region& weights = plan_.reads(instr)[1];
    const std::string& name = plan_.buffers[weights.buffer].name;
    if (const std::string what = "eps beside " + name; !is_known(what)) {
      Plan wrong = plan_;
      wrong.lanes[lane_index].instrs[at].set_attribute(100);
      slips_.emplace(what, std::move(wrong));
    }
    add_residual(instr);
    if (name != "n1") return;
    if (const std::string what = "n2 for n1"; !is_known(what)) {
      Plan wrong = plan_;
      wrong.operands[instr.first_operand + 1].buffer = *plan_.find_buffer("n2");
      slips_.emplace(what, std::move(wrong));
    }
  }

  // Rows that nothing has been added to, and other ones.
  void add_residual(const Instr& instr) {
    const Region& own = plan_.reads(instr)[0];
    const std::string what = fmt::format("other rows of r for {}", plan_.buffers[own.buffer].name);
    if (is_known(what)) return;
    Region residual = own;
    residual.buffer = *plan_.find_buffer("r");
    const std::optional<Region> other = beside(plan_, residual, 1);
    if (!other) return;
    Plan wrong = plan_;
    wrong.operands[instr.first_operand] = *other;
    fuse_tasks(wrong);
    slips_.emplace(what, std::move(wrong));
  }

  const Plan& plan_;
  std::map<std::string, Plan> slips_;
};

struct SlipCase {
  const char* op;
  std::vector<const char*> at_least;
};

class SlipsOf : public testing::TestWithParam<SlipCase> {};

TEST_P(SlipsOf, AreFoundByValue) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const Operator op = parse_operator(fmt::format("{} ranks=2 dtype={}", GetParam().op, dtype));
    const Machine machine = small_machine(2, 4);  // lanes have several tiles
    std::set<std::string> found;
    for (const OperatorSchedule& schedule : small_presets(op, machine)) {
      const Plan plan = lower(op, schedule, machine);
      for (const auto& [what, wrong] : Slips(plan).take()) {
        if (!found.insert(what).second) continue;
        for (const Fill fill : {Fill::random, Fill::integers}) {
          const EmulateResult result = emulate(wrong, {.fill = fill});
          EXPECT_GT(result.wrong_elements, 0)
              << what << ", " << dtype << ", " << to_string(fill) << ": " << to_string(schedule);
          EXPECT_TRUE(result.finished && result.faults.empty())
              << what << ": " << (result.faults.empty() ? "stuck" : result.faults.front().text);
        }
      }
    }
    EXPECT_THAT(found, testing::IsSupersetOf(GetParam().at_least));
  }
}

INSTANTIATE_TEST_SUITE_P(
    , SlipsOf,
    testing::Values(
        SlipCase{"layer m=48 h=64 f=96 heads=8 kv-heads=8 head-dim=8",
                 {"eps beside n1", "eps beside n2", "n2 for n1", "other rows of r for s",
                  "other rows of r for v", "gemm wo", "gemm wg", "gemm wu", "gemm wd", "gemm wqkv",
                  "gemm t", "gemm up", "gemm z", "reduce r", "reduce o_slots", "reduce down_slots",
                  "swiglu g", "swiglu u"}},
        SlipCase{"mlp m=48 h=64 f=96",
                 {"gemm wg", "gemm wu", "gemm wd", "gemm x", "gemm up", "reduce down_slots",
                  "swiglu g", "swiglu u"}},
        SlipCase{"mlp-gelu m=48 h=64 f=96", {"gemm w1", "gemm w2", "gemm x", "gemm up", "bias p"}},
        SlipCase{"gemm-ar-norm m=48 n=64 k=96",
                 {"eps beside w", "other rows of r for s", "gemm a", "gemm b", "reduce r",
                  "reduce p_slots"}},
        SlipCase{"gemm-rs-norm-ag m=48 n=64 k=96",
                 {"eps beside w", "other rows of r for s", "gemm a", "gemm b", "reduce r",
                  "reduce p_slots"}},
        SlipCase{"moe-ep t=48 h=64 f=64 experts=8 k=2",
                 {"gather_gemm a_experts", "grouped_gemm a_experts", "swiglu g", "swiglu u"}},
        SlipCase{"moe-ep-shared t=48 h=64 f=64 s=64 experts=8 k=2",
                 {"gather_gemm a_experts", "grouped_gemm a_experts", "gemm sg", "gemm su",
                  "gemm sd", "swiglu sgx", "swiglu u"}},
        SlipCase{
            "moe-ep-router t=48 h=64 f=64 experts=8 k=2",
            {"gather_gemm a_experts", "grouped_gemm a_experts", "gemm x", "swiglu g", "swiglu u"}},
        SlipCase{"moe-tp t=48 h=64 f=64 experts=8 k=2",
                 {"gather_gemm a_experts", "grouped_gemm a_experts", "reduce y_slots", "swiglu g",
                  "swiglu u"}},
        SlipCase{"moe-tp-router t=48 h=64 f=64 experts=8 k=2",
                 {"gather_gemm a_experts", "grouped_gemm a_experts", "gemm x", "reduce y_slots"}}),
    [](const auto& tested) {
      std::string name(tested.param.op);
      name.resize(name.find(' '));
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace stretto
