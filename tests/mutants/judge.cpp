#include "mutants/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "../../examples/ring_sum.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/fibre/edge_kernels.h"
#include "stretto/lower.h"

STRETTO_EDGE_KERNEL(ring_sum)

namespace stretto::mutants {
namespace {

constexpr const char* kPoints[] = {
    "sequential,tile=8x16",
    "two-chunk,tile=8x16",
    "decomposed,tile=8x16",
    "decomposed,tile=8x16,reuse=ack",
    "decomposed,tile=8x16,sync=flag",
    "waves,tile=8x16",
    "tiles,tile=8x16,comm-sms=2",
    "tiles,tile=8x16,comm-sms=2,reuse=ack",
    "tiles,tile=8x16,comm-sms=2,sync=counter,start=wave",
    "tiles,tile=8x16,comm-sms=2,split-k=2",
    "tiles,tile=8x16,comm-sms=2,k-phases=2",
    "tiles,tile=8x16,comm-sms=2,cluster=2",
    "slices,tile=8x16,comm-sms=2",
    "slices,tile=8x16,comm-sms=2,reduction=one-shot",
    "decomposed,tile=8x16,mover=epilogue,sync=counter,reduction=two-shot",
    "low-latency,tile=8x16",
};

// Operators of several stages: what joins products, norms, gathers and exchanges.
struct Graph {
  const char* name;
  Sizes sizes;
};
const Graph kGraphs[] = {
    {"mlp", {{"m", 17}, {"h", 16}, {"f", 32}}},
    {"gemm-ar-norm", {{"m", 17}, {"n", 16}, {"k", 64}}},
    {"gemm-rs-norm-ag", {{"m", 17}, {"n", 16}, {"k", 64}}},
    {"gemm-a2a", {{"m", 17}, {"n", 32}, {"k", 32}}},
    {"a2a-gemm", {{"m", 17}, {"n", 32}, {"k", 32}}},
    {"a2a-gemm", {{"m", 17}, {"n", 32}, {"k", 128}}},  // in phases
    {"layer", {{"m", 13}, {"h", 16}, {"f", 32}, {"heads", 4}, {"kv-heads", 2}, {"head-dim", 4}}},
    {"embedding-a2a", {{"bags", 17}, {"tables", 4}, {"rows", 7}, {"dim", 8}, {"pool", 3}}},
    {"mlp-ar", {{"m", 17}, {"h", 16}, {"f", 32}}},
    {"mlp-gelu", {{"m", 17}, {"h", 16}, {"f", 32}}},
    {"moe-tp", {{"t", 9}, {"h", 16}, {"f", 16}, {"experts", 3}, {"k", 2}}},
    {"moe-ep", {{"t", 9}, {"h", 16}, {"f", 16}, {"experts", 4}, {"k", 2}}},
};
constexpr const char* kGraphPresets[] = {"sequential", "decomposed", "tiles",      "slices",
                                         "waves",      "library",    "low-latency"};

// Products that share nothing but the plan.
constexpr const char* kMixed[] = {
    "tiles,tile=8x16/down:library,tile=16x16",
    "library,tile=16x16/down:tiles,tile=8x16,comm-sms=0",
    "tiles,tile=8x32,comm-sms=2/down:low-latency,tile=16x8",
};

// Whose parts take places in what all parts have.
const Graph kInParts[] = {
    {"embedding-a2a", {{"bags", 9}, {"tables", 4}, {"rows", 7}, {"dim", 8}, {"pool", 3}}},
    {"moe-tp-up", {{"t", 9}, {"h", 16}, {"f", 16}, {"experts", 3}, {"k", 2}}},
};

void add_parts(std::vector<Subject>& found, const Machine& machine) {
  for (const Graph& graph : kInParts) {
    const Operator op = make_operator(graph.name, graph.sizes, 2, DType::fp32);
    OperatorSchedule point = parse_schedules("split=2/tiles,tile=8x16", op, machine);
    point.products[0].comm_sms = std::min(point.products[0].comm_sms, 2);
    found.push_back({to_string(op) + " split=2/tiles", lower(op, point, machine)});
  }
}

// A gather and sums in two teams of two ranks.
constexpr char kTeams[] =
    "graph teams m h f\n"
    "team pairs 2\n"
    "input x [m, h] rows\n"
    "input w [f, h] rows of pairs\n"
    "input v [h, f] cols of pairs\n"
    "a = gemm x w\n"
    "y = gemm a v\n"
    "output y rows\n";

void add_teams(std::vector<Subject>& found) {
  Machine machine = default_machine(4);
  machine.sms = 7;
  const Operator op =
      make_graph(parse_graph(kTeams), {{"m", 8}, {"h", 16}, {"f", 32}}, 4, DType::fp32);
  for (const char* text :
       {"tiles,tile=8x16", "slices,tile=8x16,comm-sms=2", "split=2/tiles,tile=8x16"}) {
    found.push_back(
        {to_string(op) + " " + text, lower(op, parse_schedules(text, op, machine), machine)});
  }
}

// An all-reduce by a kernel of the graph's, between two products.
constexpr char kByKernel[] =
    "graph by-kernel m h f\n"
    "kernel ring_sum all-reduce \"ring_sum.h\" slots=2*ranks signals=16\n"
    "input x [m, f] cols\n"
    "input w [h, f] cols\n"
    "input v [f, h] rows\n"
    "y = gemm x w\n"
    "z = gemm y v\n"
    "output z cols\n";

void add_kernels(std::vector<Subject>& found, const Machine& machine) {
  const Operator op =
      make_graph(parse_graph(kByKernel), {{"m", 9}, {"h", 16}, {"f", 32}}, 2, DType::fp32);
  constexpr const char* kText = "sequential,tile=8x16,kernel=ring_sum";
  found.push_back(
      {to_string(op) + " " + kText, lower(op, parse_schedules(kText, op, machine), machine)});
}

void add_graphs(std::vector<Subject>& found) {
  Machine machine = default_machine(2);
  machine.sms = 7;
  for (const Graph& graph : kGraphs) {
    const Operator op = make_operator(graph.name, graph.sizes, 2, DType::fp32);
    for (const char* preset : kGraphPresets) {
      try {
        const OperatorSchedule point =
            parse_schedules(std::string(preset) + ",tile=8x16", op, machine);
        if (!legal(op, point, machine).empty()) continue;
        found.push_back({to_string(op) + " " + preset, lower(op, point, machine)});
      } catch (const UsageError&) {
        continue;  // a coordinate that this operator does not have
      }
    }
  }
  const Operator mlp = make_operator(kGraphs[0].name, kGraphs[0].sizes, 2, DType::fp32);
  for (const char* text : kMixed) {
    const OperatorSchedule point = parse_schedules(text, mlp, machine);
    found.push_back({to_string(mlp) + " " + text, lower(mlp, point, machine)});
  }
  add_parts(found, machine);
  add_teams(found);
  add_kernels(found, machine);
}

}  // namespace

Verdict Judge::judge(const Plan& plan) {
  CheckOptions first_one;
  first_one.max_diagnostics = 1;
  try {
    if (!check(plan, first_one).clean()) return Verdict::reported;
  } catch (const UsageError&) {
    return Verdict::refused;
  }
  return emulate_all(plan);
}

// Other seeds each time.
Verdict Judge::emulate_all(const Plan& plan) {
  Verdict verdict = Verdict::harmless;
  uint64_t hash = 0;
  for (uint64_t i = 0; i < seeds_; ++i) {
    const uint64_t seed = first_seed_ + i;
    EmulateResult result;
    try {
      result =
          emulate(plan, {.seed = seed, .fill = Fill::integers, .runs = 4, .reference = reference_});
    } catch (const UsageError&) {
      return Verdict::refused;
    }
    if (i == 0) hash = result.output_hash;
    if (result.finished && result.faults.empty() && result.output_hash == hash) {
      if (!result.verified) verdict = Verdict::other;
      continue;
    }
    story_ = fmt::format("seed {}: {}\n{}", seed,
                         !result.finished ? "stuck: " + result.stuck.at(0).lane
                         : result.faults.empty()
                             ? "other bits than under seed " + std::to_string(first_seed_)
                             : result.faults[0].text,
                         print(plan));
    return Verdict::missed;
  }
  first_seed_ += seeds_;
  return verdict;
}

std::vector<Subject> subjects() {
  std::vector<Subject> found;
  for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
    for (const int ranks : {2, 3}) {
      const int64_t n = kind == kAgGemm ? 16 * ranks : 20;
      const Segment op{kind,  9 * ranks - 1, n, 128 * (kind == kAgGemm ? 1 : ranks),
                       ranks, DType::fp32};
      Machine machine = default_machine(ranks);
      machine.sms = 7;  // a few lanes with several tiles each
      for (const char* text : kPoints) {
        try {
          const Schedule point = parse_schedule(text, op, machine);
          if (!legal(op, point, machine).empty()) continue;
          found.push_back({to_string(op) + " " + text, lower(op, point, machine)});
          if (ranks > 2) continue;
          OperatorSchedule split = point;
          split.split = 2;
          if (!legal(op, split, machine).empty()) continue;
          found.push_back({to_string(op) + " split=2/" + text, lower(op, split, machine)});
        } catch (const UsageError&) {
          continue;  // a coordinate that this operator does not have
        }
      }
    }
  }
  add_graphs(found);
  return found;
}

bool wants_all() {
  const char* all = std::getenv("STRETTO_EVERY_MUTANT");
  return all != nullptr && std::string(all) == "1";
}

}  // namespace stretto::mutants
