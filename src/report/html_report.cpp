// The data of a report, and the page that shows them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "report/columns.h"
#include "report/page.h"
#include "stretto/error.h"
#include "stretto/report.h"
#include "stretto/version.h"
#include "trace/task_facts.h"

namespace stretto {

namespace {

using Json = nlohmann::ordered_json;

int64_t nanoseconds(double us) { return std::llround(us * 1e3); }

// Texts by number: most come again and again.
class Names {
 public:
  int64_t operator[](const std::string& text) {
    const auto [at, is_new] = numbers_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return static_cast<int64_t>(at->second);
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<std::string> texts_;
};

// Columns: lane, start, duration (ns), position, name, who ended it (lane + 1, position), row,
// rows, column, columns, buffer, depth, bytes, bytes between ranks, to, from. Lane by lane in time
// order; waits that took no time are left out.
Json pack_spans(const Plan& plan, const Timeline& timeline, Names& names) {
  std::vector<std::vector<const Span*>> by_lane(plan.lanes.size());
  for (const Span& span : timeline.spans) {
    const Instr& instr = plan.lanes[span.where.lane].instrs[span.where.pos];
    const bool took = nanoseconds(span.end_us) > nanoseconds(span.start_us);
    if (took || !instr.is_sync()) by_lane[span.where.lane].push_back(&span);
  }
  Columns columns(17);
  for (size_t number = 0; number < by_lane.size(); ++number) {
    auto& spans = by_lane[number];
    std::stable_sort(spans.begin(), spans.end(),
                     [](const Span* a, const Span* b) { return a->start_us < b->start_us; });
    const Lane& lane = plan.lanes[number];
    for (const Span* span : spans) {
      const Instr& instr = lane.instrs[span->where.pos];
      const TaskFacts facts = facts_of(plan, lane, instr);
      const bool ended = span->released_by.lane != kNoLane;
      const Region& result = facts.result;
      const std::string buffer = result.empty() ? "" : plan.buffers[result.buffer].name;
      const int64_t start = nanoseconds(span->start_us);
      columns.add({static_cast<int64_t>(number), start, nanoseconds(span->end_us) - start,
                   span->where.pos, names[std::string(to_string(instr.op))],
                   ended ? int64_t{span->released_by.lane} + 1 : 0,
                   ended ? int64_t{span->released_by.pos} : 0, result.row0, result.rows(),
                   result.col0, result.cols(), names[buffer], facts.depth, facts.bytes,
                   facts.bytes_between, names[list_of(facts.to)], names[list_of(facts.from)]});
    }
  }
  Columns links(4);
  for (const LinkUse& use : timeline.links) {
    const int64_t start = nanoseconds(use.start_us);
    links.add({use.rank, use.network, start, nanoseconds(use.end_us) - start});
  }
  return {{"total_us", timeline.total_us},
          {"count", columns.records()},
          {"spans", columns.pack()},
          {"link_count", links.records()},
          {"links", links.pack()}};
}

Json pack_lanes(const Plan& plan, const PlanLines& lines) {
  Columns columns(5);
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    const Lane& lane = plan.lanes[i];
    columns.add({static_cast<int64_t>(lane.kind), lane.rank, lane.index, lines.lanes[i].head,
                 static_cast<int64_t>(lane.instrs.size())});
  }
  return {{"count", columns.records()}, {"data", columns.pack()}};
}

// In time order; starts are cut where steps of one path overlap.
Json path_of(const Plan& plan, const Simulation& simulation) {
  Json path = Json::array();
  for (size_t i = simulation.critical_path.size(); i-- > 0;) {
    const CriticalStep& step = simulation.critical_path[i];
    const Instr& instr = plan.lanes[step.where.lane].instrs[step.where.pos];
    path.push_back({step.where.lane, step.where.pos, nanoseconds(step.start_us),
                    nanoseconds(step.end_us), to_string(instr.op), step.why});
  }
  return path;
}

Json verdict_of(const CheckReport& check, const PlanLines& lines) {
  constexpr size_t kMostShown = 50;
  Json problems = Json::array();
  for (const Diagnostic& found : check.diagnostics) {
    if (problems.size() == kMostShown) break;
    Json problem = {
        {"kind", to_string(found.kind)}, {"message", found.message}, {"hint", found.hint}};
    for (const auto& [key, where] : {std::pair{"line", found.where}, {"other", found.other}}) {
      if (where) problem[key] = lines.of(*where);
    }
    problems.push_back(std::move(problem));
  }
  return {{"clean", check.clean()},
          {"count", check.diagnostics.size()},
          {"truncated", check.truncated},
          {"tasks", check.tasks},
          {"waits", check.waits},
          {"notifies", check.notifies},
          {"pairs_proved", check.pairs_proved},
          {"problems", std::move(problems)}};
}

}  // namespace

class HtmlReport::Writer {
 public:
  Writer(const Operator& op, const Machine& machine) : title_(to_string(op)) {
    data_ = {{"stretto", STRETTO_VERSION},
             {"operator", title_},
             {"ranks", op.ranks},
             {"machine",
              {{"name", machine.name},
               {"description", machine.description},
               {"tflops", op.dtype == DType::fp32 ? machine.fp32_tflops : machine.gemm_tflops},
               {"link_gb_per_s", machine.link_gb_per_s}}},
             {"flops_per_rank", flops_per_rank(op)},
             {"link_bytes", link_bytes(op)},
             {"lane_kinds", Json::array()},
             {"runs", Json::array()}};
    for (const LaneKind kind :
         {LaneKind::compute, LaneKind::comm, LaneKind::copy, LaneKind::nccl}) {
      data_["lane_kinds"].push_back(to_string(kind));
    }
  }

  void add(const ReportedRun& about, const Plan& plan, const Simulation& simulation,
           const CheckReport& check, const MeasuredRun& measured, std::optional<PlanText> given) {
    PlanLines own_lines;
    std::string printed;
    if (!given) {
      printed = print(plan);
      parse_plan(printed, "plan", &own_lines);
    }
    const PlanLines& lines = given ? *given->lines : own_lines;
    Names names;
    Json run = {{"name", about.name}, {"schedule", plan.schedule}};
    if (!about.reason.empty()) run["reason"] = about.reason;
    run["gemm_us"] = simulation.compute_us;
    run["communication_us"] = simulation.communication_us;
    run["exposed_us"] = simulation.exposed_us;
    run["floor_us"] = simulation.floor_us;
    run["efficiency"] = simulation.efficiency;
    run["lanes"] = pack_lanes(plan, lines);
    run["predicted"] = pack_spans(plan, simulation, names);
    if (measured.timeline) run["measured"] = pack_spans(plan, *measured.timeline, names);
    if (measured.us) run["measured_us"] = *measured.us;
    if (!measured.source.empty()) run["measured_source"] = measured.source;
    run["names"] = names.texts();
    run["path"] = path_of(plan, simulation);
    run["check"] = verdict_of(check, lines);
    texts_.push_back(base64(deflate(given ? given->text : printed)));
    data_["runs"].push_back(std::move(run));
  }

  void add_refused(const std::string& name, const std::vector<std::string>& reasons) {
    data_["refused"].push_back({{"name", name}, {"reasons", reasons}});
  }

  void set_weighed(const std::vector<Weighed>& weighed) {
    for (const Weighed& one : weighed) {
      data_["weighed"].push_back({{"product", one.product},
                                  {"schedule", one.schedule},
                                  {"us", one.us},
                                  {"measured", one.is_measured},
                                  {"chosen", one.is_chosen}});
    }
  }

  void set_sequential_us(double us) { data_["sequential_us"] = us; }

  std::string finish(size_t most_text_bytes) {
    add_texts(most_text_bytes);
    return fill_page("report.html",
                     {"page.js", "data.js", "timeline.js", "timeline_ground.js", "timeline_rows.js",
                      "timeline_tip.js", "timeline_input.js", "tables.js", "plan.js", "report.js"},
                     title_, data_.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  void add_texts(size_t most_bytes) {
    size_t bytes = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      const auto same = std::find(texts_.begin(), texts_.begin() + static_cast<long>(i), texts_[i]);
      if (const auto at = static_cast<size_t>(same - texts_.begin()); at < i) {
        data_["runs"][i]["text_of"] = at;
        continue;
      }
      if (bytes + texts_[i].size() > most_bytes) continue;
      bytes += texts_[i].size();
      data_["runs"][i]["text"] = texts_[i];
    }
  }

  const std::string title_;
  Json data_;
  std::vector<std::string> texts_;  // of the plans, packed: they are large
};

HtmlReport::HtmlReport(const Operator& op, const Machine& machine)
    : writer_(std::make_unique<Writer>(op, machine)) {}
HtmlReport::~HtmlReport() = default;

void HtmlReport::add(const ReportedRun& run, const Plan& plan, const Simulation& simulation,
                     const CheckReport& check, const MeasuredRun& measured,
                     std::optional<PlanText> text) {
  writer_->add(run, plan, simulation, check, measured, text);
}
void HtmlReport::add_refused(const std::string& name, const std::vector<std::string>& reasons) {
  writer_->add_refused(name, reasons);
}
void HtmlReport::set_weighed(std::vector<Weighed> weighed) { writer_->set_weighed(weighed); }
void HtmlReport::set_sequential_us(double us) { writer_->set_sequential_us(us); }
std::string HtmlReport::finish(size_t most_text_bytes) { return writer_->finish(most_text_bytes); }

}  // namespace stretto
