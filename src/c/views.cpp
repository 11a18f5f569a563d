// Looks at plans that come as text.
#include <nlohmann/json.hpp>

#include "c/boundary.h"
#include "core/text.h"
#include "stretto/c_views.h"
#include "stretto/check.h"
#include "stretto/lower.h"
#include "stretto/plan_counts.h"
#include "stretto/report.h"
#include "stretto/simulate.h"
#include "trace/task_facts.h"

using namespace stretto;
using c::guarded, c::keep, c::require, c::text_of;

namespace {

using Json = nlohmann::ordered_json;

struct Read {
  Plan plan;
  PlanLines lines;
};

Read read(const char* text, std::string_view name = "plan") {
  Read found;
  found.plan = parse_plan(text_of(text, "plan"), name, &found.lines);
  return found;
}

Machine machine_of(const char* name, int ranks) {
  return name == nullptr ? default_machine(ranks) : load_machine(name);
}

const char* kept(const Json& json) {
  return keep(0, json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json counts_of(const Plan& plan) {
  const PlanCounts counts = count(plan);
  return {{"operator", to_string(plan.op)},
          {"schedule", plan.schedule},
          {"ranks", plan.ranks()},
          {"lanes", plan.lanes.size()},
          {"instructions", plan.num_instrs()},
          {"tasks", counts.tasks},
          {"waits", counts.waits},
          {"notifies", counts.notifies}};
}

Json spans_of(const Read& read, const Simulation& simulation) {
  const Plan& plan = read.plan;
  Json lane, position, line, op, tile, start, end, bytes, between, by_lane, by_position;
  for (Json* column : {&lane, &position, &line, &op, &tile, &start, &end, &bytes, &between,
                       &by_lane, &by_position}) {
    *column = Json::array();
  }
  for (const Span& span : simulation.spans) {
    const Lane& of = plan.lanes[span.where.lane];
    const Instr& instr = of.instrs[span.where.pos];
    // A wait for what had come took no time.
    if (instr.is_sync() && span.end_us <= span.start_us) continue;
    const TaskFacts facts = facts_of(plan, of, instr);
    const bool ended = span.released_by.lane != kNoLane;
    lane.push_back(span.where.lane);
    position.push_back(span.where.pos);
    line.push_back(read.lines.of(span.where));
    op.push_back(to_string(instr.op));
    tile.push_back(instr.tile);
    start.push_back(span.start_us);
    end.push_back(span.end_us);
    bytes.push_back(facts.bytes);
    between.push_back(facts.bytes_between);
    by_lane.push_back(ended ? int64_t{span.released_by.lane} : -1);
    by_position.push_back(ended ? int64_t{span.released_by.pos} : -1);
  }
  return {{"lane", lane},
          {"position", position},
          {"line", line},
          {"op", op},
          {"tile", tile},
          {"start_us", start},
          {"end_us", end},
          {"bytes", bytes},
          {"bytes_between_ranks", between},
          {"released_by_lane", by_lane},
          {"released_by_position", by_position}};
}

Json lanes_of(const Plan& plan) {
  Json kind = Json::array(), rank = Json::array(), index = Json::array();
  for (const Lane& lane : plan.lanes) {
    kind.push_back(to_string(lane.kind));
    rank.push_back(lane.rank);
    index.push_back(lane.index);
  }
  return {{"kind", kind}, {"rank", rank}, {"index", index}};
}

Json links_of(const Simulation& simulation) {
  Json rank = Json::array(), network = Json::array(), start = Json::array(), end = Json::array();
  for (const LinkUse& use : simulation.links) {
    rank.push_back(use.rank);
    network.push_back(use.network);
    start.push_back(use.start_us);
    end.push_back(use.end_us);
  }
  return {{"rank", rank}, {"network", network}, {"start_us", start}, {"end_us", end}};
}

Json path_of(const Read& read, const Simulation& simulation) {
  Json path = Json::array();
  for (const CriticalStep& step : simulation.critical_path) {
    path.push_back({{"lane", describe(read.plan.lanes[step.where.lane])},
                    {"position", step.where.pos},
                    {"line", read.lines.of(step.where)},
                    {"start_us", step.start_us},
                    {"end_us", step.end_us},
                    {"why", step.why}});
  }
  return path;
}

}  // namespace

int stretto_text_read(const char* plan, const char* name, const char** json) {
  return guarded(
      [&] { require(json, "json") = kept(counts_of(read(plan, text_of(name, "name")).plan)); });
}

int stretto_text_check(const char* plan, const char** json) {
  return guarded([&] {
    const Read found = read(plan);
    const CheckReport report = check(found.plan);
    Json problems = Json::array();
    for (const Diagnostic& one : report.diagnostics) {
      const auto line = [&](const auto& where) {
        return where ? Json(found.lines.of(*where)) : Json();
      };
      problems.push_back({{"kind", to_string(one.kind)},
                          {"message", one.message},
                          {"hint", one.hint},
                          {"line", line(one.where)},
                          {"other_line", line(one.other)}});
    }
    require(json, "json") =
        kept({{"clean", report.clean()}, {"truncated", report.truncated}, {"problems", problems}});
  });
}

int stretto_text_simulate(const char* plan, const char* machine, const char** json) {
  return guarded([&] {
    const Read found = read(plan);
    const Simulation simulation = simulate(found.plan, machine_of(machine, found.plan.ranks()));
    require(json, "json") = kept({{"total_us", simulation.total_us},
                                  {"gemm_us", simulation.compute_us},
                                  {"communication_us", simulation.communication_us},
                                  {"exposed_us", simulation.exposed_us},
                                  {"floor_us", simulation.floor_us},
                                  {"efficiency", simulation.efficiency},
                                  {"lanes", lanes_of(found.plan)},
                                  {"spans", spans_of(found, simulation)},
                                  {"links", links_of(simulation)},
                                  {"critical_path", path_of(found, simulation)}});
  });
}

int stretto_text_report(const char* const* names, const char* const* plans, size_t count,
                        const char* machine, const char** html) {
  return guarded([&] {
    if (count == 0) throw UsageError("a report on no plans; give one or more");
    const char* const* const all_names = &require(names, "names");
    const char* const* const all_plans = &require(plans, "plans");
    std::optional<HtmlReport> report;
    std::optional<Operator> op;
    for (size_t i = 0; i < count; ++i) {
      const std::string name(text_of(all_names[i], "name"));
      const Read found = read(all_plans[i], name);
      const Machine on = machine_of(machine, found.plan.ranks());
      if (!op) {
        op = found.plan.op;
        report.emplace(*op, on);
      }
      if (!(*op == found.plan.op)) {
        throw UsageError(
            fmt::format("{} is of {}, the plans before it of {}; a report is on one "
                        "operator",
                        quote(name), to_string(found.plan.op), to_string(*op)));
      }
      report->add({name, ""}, found.plan, simulate(found.plan, on), check(found.plan), {},
                  HtmlReport::PlanText{all_plans[i], &found.lines});
    }
    require(html, "html") = keep(0, report->finish());
  });
}
