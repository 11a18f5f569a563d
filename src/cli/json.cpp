#include "cli/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "stretto/plan_counts.h"
#include "stretto/version.h"

namespace stretto::cli {
namespace {

Json declaration(const std::string& name, const std::vector<uint32_t>* lines, uint16_t number) {
  Json json = {{"name", name}};
  if (lines != nullptr) json["line"] = (*lines)[number];
  return json;
}

}  // namespace

Json json_header(std::string_view verb) {
  return {{"stretto", STRETTO_VERSION}, {"schema", kJsonSchema}, {"verb", verb}};
}

Json to_json(const Operator& op) {
  Json json = {{"kind", op.name()}};
  for (const auto& [size, value] : op.sizes) json[size] = value;
  json["ranks"] = op.ranks;
  json["dtype"] = to_string(op.dtype);
  return json;
}

Json to_json(const InstrRef& where, const Plan& plan, const PlanLines* lines) {
  Json json = {{"lane", describe(plan.lanes[where.lane])}, {"position", where.pos}};
  if (lines != nullptr) json["line"] = lines->of(where);
  return json;
}

Json to_json(const CheckReport& report, const Plan& plan, const PlanLines* lines) {
  const auto place = [&](const InstrRef& where) { return to_json(where, plan, lines); };
  Json diagnostics = Json::array();
  for (const Diagnostic& found : report.diagnostics) {
    Json entry = {{"kind", to_string(found.kind)}, {"where", nullptr}};
    if (found.where) entry["where"] = place(*found.where);
    if (found.other) entry["other"] = place(*found.other);
    for (const InstrRef& also : found.also) entry["also"].push_back(place(also));
    if (found.buffer) {
      entry["buffer"] = declaration(plan.buffers[*found.buffer].name,
                                    lines == nullptr ? nullptr : &lines->buffers, *found.buffer);
    }
    if (found.signals) {
      entry["signals"] = declaration(plan.signals[*found.signals].name,
                                     lines == nullptr ? nullptr : &lines->signals, *found.signals);
    }
    if (found.tile >= 0) entry["tile"] = found.tile;
    if (!found.signal.empty()) entry["signal"] = found.signal;
    entry["message"] = found.message;
    entry["hint"] = found.hint;
    diagnostics.push_back(std::move(entry));
  }
  return {{"clean", report.clean()},
          {"truncated", report.truncated},
          {"tasks", report.tasks},
          {"waits", report.waits},
          {"notifies", report.notifies},
          {"pairs_proved", report.pairs_proved},
          {"epochs", report.epochs},
          {"diagnostics", std::move(diagnostics)},
          {"no_program", report.no_program.empty() ? Json() : Json(report.no_program)}};
}

Json to_json(const EmulateResult& result, uint64_t seed, const PlanFile* file) {
  Json stuck = Json::array(), faults = Json::array();
  for (const StuckLane& lane : result.stuck) {
    stuck.push_back({{"lane", lane.lane},
                     {"position", lane.where.pos},
                     {"signal", lane.signal},
                     {"expected", lane.expected},
                     {"seen", lane.seen}});
    if (file != nullptr) stuck.back()["line"] = file->lines.of(lane.where);
  }
  for (const EmulateFault& fault : result.faults) {
    faults.push_back(place(file, fault.where) + fault.text);
  }
  return {{"seed", seed},
          {"finished", result.finished},
          {"verified", result.verified},
          {"wrong_elements", result.wrong_elements},
          {"worst_error", result.worst_error},
          {"first_wrong", result.first_wrong},
          {"stuck", std::move(stuck)},
          {"faults", std::move(faults)},
          {"ranks_agree", result.ranks_agree},
          {"bad_ids", result.bad_ids},
          {"output_hash", fmt::format("{:016x}", result.output_hash)},
          {"gemm_flops", result.gemm_flops},
          {"seconds", result.seconds}};
}

Json to_json(const Simulation& simulation) {
  return {{"total_us", simulation.total_us},
          {"compute_us", simulation.compute_us},
          {"communication_us", simulation.communication_us},
          {"exposed_us", simulation.exposed_us},
          {"floor_us", simulation.floor_us},
          {"efficiency", simulation.efficiency},
          {"compute_occupancy", simulation.compute_occupancy}};
}

Json plan_counts(const Plan& plan) {
  const PlanCounts counts = count(plan);
  return {{"lanes", plan.lanes.size()},    {"instructions", plan.num_instrs()},
          {"tasks", counts.tasks},         {"waits", counts.waits},
          {"notifies", counts.notifies},   {"buffers", plan.buffers.size()},
          {"signals", plan.signals.size()}};
}

std::string dump(const Json& json) {
  // File names and texts from outside may not be UTF-8; output stays valid JSON all the same.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stretto::cli
