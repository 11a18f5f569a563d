#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/table.h"
#include "core/text.h"
#include "schedule/short_text.h"

namespace stretto::cli {
namespace {

constexpr size_t kLabelWidth = 12;

// What speed-ups are over: the library path, or a strategy of the list by its name.
std::optional<double> time_against(const BenchedOperator& benched, const std::string& against) {
  if (against == kLibrary) {
    if (!benched.library.sequential) return std::nullopt;
    return benched.library.sequential->warm.median;
  }
  for (const BenchedStrategy& one : benched.strategies) {
    if (one.choice.name == against && one.timed()) return one.measured.times.warm.median;
  }
  return std::nullopt;
}

std::string us(double time) { return fmt::format("{:.1f}", time); }
std::string cold_us(const runtime::PathTimes& times) {
  return times.cold ? us(times.cold->median) : "-";
}

Json spread_json(const runtime::Spread& spread) {
  return {{"time_us", spread.median}, {"low_us", spread.low}, {"high_us", spread.high}};
}

Json path_json(const runtime::PathTimes& times) {
  Json json = spread_json(times.warm);
  if (times.cold) json["cold"] = spread_json(*times.cold);
  return json;
}

Json parts_json(const runtime::RunParts& parts) {
  return {{"waiting_us", parts.waiting_us},
          {"multiplying_us", parts.multiplying_us},
          {"adding_us", parts.adding_us},
          {"ending_us", parts.ending_us},
          {"rest_us", parts.rest_us}};
}

// Whether rows go to the experts that they choose, or come back, and nobody multiplies them.
bool only_moves(const Operator& op) {
  return std::any_of(op.segments.begin(), op.segments.end(), [](const OperatorSegment& segment) {
    return segment.product && segment.product->is_routed() && segment.product->only_moves();
  });
}

}  // namespace

std::string print(const BenchedOperator& benched, const std::string& against) {
  std::string out = to_string(benched.op) + "\n\n";
  if (!benched.problem.empty()) return out + "not measured: " + benched.problem + "\n\n";
  Table table(
      {"strategy", "time", "spread", "cold", "speed-up", "exposed", "floor", "predicted", "SMs"});
  table.add({"", "us", "us", "us", "x", "us", "/ time", "us", "gemm+comm"});
  const auto baseline = time_against(benched, against);
  const auto row = [&](const std::string& name, const runtime::PathTimes& times,
                       const std::string& predicted, const std::string& sms) {
    const double time = times.warm.median;
    table.add({name, us(time), fmt::format("{:.1f}-{:.1f}", times.warm.low, times.warm.high),
               cold_us(times), baseline ? fmt::format("{:.2f}", *baseline / time) : "-",
               us(std::max(0.0, time - benched.alone_us())),
               fmt::format("{:.2f}", benched.floor_us() / time), predicted, sms});
  };
  if (benched.library.gemm) row("cuBLAS alone", *benched.library.gemm, "-", "-");
  if (benched.library.collective) row("NCCL alone", *benched.library.collective, "-", "-");
  if (benched.library.sequential) {
    row("library path", *benched.library.sequential, "-", "-");
  } else if (!benched.library.problem.empty()) {
    table.add_remark("library path", benched.library.problem);
  }
  std::string notes;
  if (benched.look_up_floor_us > 0) {
    notes += labelled(
        "look-ups",
        fmt::format("no library has a call for them: in the library path they are a kernel of "
                    "Stretto, and NCCL sends what it made; their floor is {} us: the indices of "
                    "full bags, and the rows that they pick, each once, at {} GB/s of memory; "
                    "exposed is beyond that",
                    us(benched.look_up_floor_us), benched.machine.hbm_gb_per_s),
        kLabelWidth);
  }
  if (only_moves(benched.op)) {
    notes += labelled(
        "rows",
        fmt::format("routing {}; NCCL alone is an all-to-all that sends each token once to every "
                    "rank with an expert of its choice, of sizes that this benchmark knows and a "
                    "program would wait for; in the library path NCCL gathers all tokens, or "
                    "scatters sums, and a kernel of Stretto has the rest",
                    benched.routing),
        kLabelWidth);
  }
  if (benched.expert_floor_us > 0) {
    notes += labelled(
        "experts",
        fmt::format("routing {}; their rows are known in the GPU's memory only, and cuBLAS takes "
                    "sizes from the host: in the library path their products are a kernel of "
                    "Stretto, and NCCL gathers all tokens and scatters sums",
                    benched.routing),
        kLabelWidth);
    notes += labelled("products",
                      fmt::format("their floor is {} us: each one's multiply-adds at {} TFLOP/s or "
                                  "its weights at {} GB/s, "
                                  "the rank's that takes longest; exposed is beyond that",
                                  us(benched.expert_floor_us), benched.machine.gemm_tflops,
                                  benched.machine.hbm_gb_per_s),
                      kLabelWidth);
    if (benched.library.gemm) {
      notes += labelled("cuBLAS",
                        "alone: an expert at a time, of sizes that this benchmark knows and a "
                        "program would wait for",
                        kLabelWidth);
    }
  }
  for (const BenchedStrategy& one : benched.strategies) {
    if (!one.choice.refused.empty()) {
      table.add_remark(one.choice.name, "cannot serve this: " + join(one.choice.refused, "; "));
    } else if (!one.measured.problem.empty()) {
      table.add_remark(one.choice.name, "WRONG: " + one.measured.problem);
    } else {
      row(one.choice.name, one.measured.times, us(one.predicted_us.value_or(0)),
          fmt::format("{}+{}", one.compute_sms, one.comm_sms));
    }
    if (one.measured.parts) {
      const runtime::RunParts& parts = *one.measured.parts;
      notes += labelled(
          "fastest",
          fmt::format("{}: an SM waits {} us, multiplies {}, adds {}, is past its last tile {}; "
                      "the rest {}",
                      one.choice.name, us(parts.waiting_us), us(parts.multiplying_us),
                      us(parts.adding_us), us(parts.ending_us), us(parts.rest_us)),
          kLabelWidth);
    }
    if (!one.choice.reason.empty()) {
      notes += labelled(
          one.choice.name,
          fmt::format("{}: {}", short_text(one.choice.schedule, benched.op, benched.machine),
                      one.choice.reason),
          kLabelWidth);
    }
  }
  out += table.print();
  if (!notes.empty()) out += '\n' + notes;
  return out + '\n';
}

std::string legend(const std::string& gpu, const Options& options, const Machine& machine,
                   const runtime::BenchOptions& timing, const std::string& against) {
  std::string out;
  const auto add = [&](std::string_view label, const std::string& text) {
    out += labelled(label, text, kLabelWidth);
  };
  add("GPU", fmt::format("{}; plans for {} with {} SMs; standard normal data", gpu, machine.name,
                         machine.sms));
  add("time", fmt::format("of a run, the longest rank's: median of {} rounds in which all take "
                          "turns, each of graphs of {} runs back to back{}",
                          timing.rounds, timing.runs_per_graph,
                          timing.turn_us > 0 ? fmt::format(", {:.0f} ms or longer, the second half "
                                                           "timed",
                                                           timing.turn_us / 1e3)
                                             : ""));
  if (!options.no_cold) add("cold", "a single run, its inputs not in the L2 cache");
  add("speed-up", against == kLibrary
                      ? "over the library path: cuBLAS and NCCL in one graph, with a kernel of one "
                        "pass for what stands between"
                      : "over `" + against + "`");
  add("exposed", "time beyond the GEMMs alone by cuBLAS, or beyond what a note says of them");
  add("floor", fmt::format("the GEMMs alone by cuBLAS, or what a note says of them, or the least "
                           "bytes that leave a GPU at {} GB/s, whichever is longer",
                           machine.link_gb_per_s));
  add("fastest", "means over SMs that multiply, of runs in which kernels note the time");
  add("predicted", fmt::format("simulated on {} (docs/simulation.md)", machine.name));
  return out;
}

Json to_json(const BenchedOperator& benched) {
  if (!benched.problem.empty()) {
    return {{"operator", to_string(benched.op)},
            {"problem", benched.problem},
            {"strategies", Json::array()}};
  }
  Json json = {{"operator", to_string(benched.op)},
               {"link_floor_us", benched.link_floor_us},
               {"floor_us", benched.floor_us()},
               {"library", Json::object()}};
  if (benched.look_up_floor_us > 0) json["look_up_floor_us"] = benched.look_up_floor_us;
  if (benched.expert_floor_us > 0) json["expert_floor_us"] = benched.expert_floor_us;
  if (!benched.routing.empty()) json["routing"] = benched.routing;
  if (const auto& gemm = benched.library.gemm) {
    json["gemm_us"] = gemm->warm.median;
    json["library"]["gemm"] = path_json(*gemm);
  }
  if (const auto& nccl = benched.library.collective) {
    json["nccl_us"] = nccl->warm.median;
    json["library"]["collective"] = path_json(*nccl);
  }
  if (const auto& all = benched.library.sequential) {
    json["sequential_us"] = all->warm.median;
    json["library"]["sequential"] = path_json(*all);
  }
  if (!benched.library.problem.empty()) json["library"]["problem"] = benched.library.problem;
  json["strategies"] = Json::array();
  for (const BenchedStrategy& one : benched.strategies) {
    Json strategy = {{"strategy", one.choice.name},
                     {"schedule", to_string(one.choice.schedule)},
                     {"short", short_text(one.choice.schedule, benched.op, benched.machine)}};
    if (!one.choice.refused.empty()) {
      strategy["refused"] = one.choice.refused;
    } else if (!one.measured.problem.empty()) {
      strategy["wrong"] = one.measured.problem;
    } else {
      strategy.update(path_json(one.measured.times));
      strategy["error"] = one.measured.error;
      strategy["exposed_us"] = one.measured.times.warm.median - benched.alone_us();
      strategy["compute_sms"] = one.compute_sms;
      strategy["comm_sms"] = one.comm_sms;
    }
    if (one.measured.parts) strategy["parts"] = parts_json(*one.measured.parts);
    if (one.predicted_us) strategy["predicted_us"] = *one.predicted_us;
    if (!one.choice.reason.empty()) strategy["reason"] = one.choice.reason;
    json["strategies"].push_back(std::move(strategy));
  }
  return json;
}

}  // namespace stretto::cli
