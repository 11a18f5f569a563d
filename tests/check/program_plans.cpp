#include "check/program_plans.h"

#include <fmt/format.h>

#include "emu/small_plans.h"

namespace stretto {
namespace {

// Ragged rows, in columns that kernels take; experts that ranks have unequally many choices of.
constexpr const char* kOperators[] = {
    "ag-gemm m=37 n=192 k=64",
    "gemm-rs m=37 n=64 k=192",
    "gemm-ar m=37 n=64 k=192",
    "gemv-ar m=3 n=64 k=192",
    "col-gemm m=37 n=192 k=64",
    "gemm-ar-norm m=37 n=64 k=192",
    "gemm-rs-norm m=37 n=64 k=192",
    "gemm-rs-norm-ag m=37 n=64 k=192",
    "mlp m=37 h=64 f=192",
    "mlp-ar m=3 h=64 f=192",
    "mlp-gelu m=37 h=64 f=192",
    "layer m=37 h=64 f=192 heads=24 kv-heads=24 head-dim=8",
    "moe-tp t=37 h=128 f=960 experts=24 k=2",
    "moe-tp-up t=37 h=128 f=960 experts=24 k=2",
    "moe-tp-down t=37 h=128 f=960 experts=24 k=2",
    "moe-tp-down-ar t=37 h=128 f=960 experts=24 k=2",
    "moe-ep t=37 h=128 f=128 experts=24 k=2",
    "moe-ep-shared t=37 h=128 f=128 s=64 experts=24 k=2",
    "moe-ep-router t=37 h=128 f=128 experts=24 k=2",
    "moe-tp-router t=37 h=128 f=960 experts=24 k=2",
    "dispatch t=37 h=64 experts=24 k=2",
    "combine t=37 h=64 experts=24 k=2",
    "dispatch-combine t=37 h=64 experts=24 k=2",
    "gemm-a2a m=37 n=192 k=64",
    "a2a-gemm m=37 n=64 k=192",
    "embedding-a2a bags=37 tables=24 rows=7 dim=16 pool=3",
};

// Of nobody that is shipped: products with an edge on both sides.
constexpr const char* kGraphs[] = {
    "input x [m, k] rows\ninput w [n, k] cols\ny = gemm x w\noutput y rows\n",
    "input x [m, k] cols\ninput w [n, k] whole\ny = gemm x w\noutput y cols\n",
    "input x [m, k] rows\ninput w [n, k] rows\ny = gemm x w\noutput y rows\n",
    "input x [m, k] rows\ninput i [m, 2] rows i32\ninput s [m, 2] rows fp32\n"
    "input w [24, n, k] experts\nd = grouped x w i\ny = weigh d i s\noutput y rows\n",
};

void visit_all(const Operator& op, const std::vector<OperatorSchedule>& schedules,
               const Machine& machine,
               const std::function<void(const std::string& name, const Plan& plan)>& visit) {
  for (const OperatorSchedule& schedule : schedules) {
    visit(to_string(op) + " " + to_string(schedule), lower(op, schedule, machine));
  }
}

}  // namespace

void for_each_program_plan(
    int ranks, const std::function<void(const std::string& name, const Plan& plan)>& visit) {
  const Machine machine = small_machine(ranks);
  const auto visit_presets = [&](const Operator& op) {
    visit_all(op, small_presets(op, machine), machine, visit);
    // As they are on a whole GPU: tiles of the usual sizes, movers as passes and partitions.
    std::vector<OperatorSchedule> usual;
    const Machine large = default_machine(ranks);
    for (const Preset& preset : presets()) {
      usual.push_back(schedule_of(preset, op, large));
      if (!legal(op, usual.back(), large).empty()) usual.pop_back();
    }
    visit_all(op, usual, large, visit);
  };
  for (const char* text : kOperators) {
    visit_presets(parse_operator(fmt::format("{} ranks={} dtype=bf16", text, ranks)));
  }
  for (const char* lines : kGraphs) {
    const auto graph = parse_graph(std::string("graph own m n k\n") + lines);
    visit_presets(make_graph(graph, {{"m", 37}, {"n", 192}, {"k", 128}}, ranks, DType::bf16));
  }
}

}  // namespace stretto
