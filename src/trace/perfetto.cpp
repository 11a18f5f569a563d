// Trace events as chrome://tracing defined them and ui.perfetto.dev reads them.
#include "stretto/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/version.h"
#include "trace/bins.h"
#include "trace/task_facts.h"

namespace stretto {
namespace {

constexpr uint32_t kLinkThread = 1'000'000, kNetworkThread = 1'000'001;  // after all lanes
constexpr size_t kCounterColumns = 400;

// To the nanosecond that is written: with a duration that is rounded by itself a slice may reach
// into the next one, and viewers leave out what overlaps.
double rounded(double us) { return std::round(us * 1e3) / 1e3; }
double duration(double start_us, double end_us) { return rounded(end_us) - rounded(start_us); }

// A wait for what has come already took no time, and its arrow says nothing.
bool is_seen(const Plan& plan, const Span& span) {
  const Instr& instr = plan.lanes[span.where.lane].instrs[span.where.pos];
  return instr.op != Opcode::wait || duration(span.start_us, span.end_us) > 0;
}

// Ranks whose slices fit under the limit together: the first ones, at least one.
int ranks_that_fit(const Plan& plan, const Timeline& timeline, size_t max_slices) {
  std::vector<size_t> slices(static_cast<size_t>(plan.ranks()), 0);
  for (const Span& span : timeline.spans) {
    slices[plan.lanes[span.where.lane].rank] += is_seen(plan, span);
  }
  for (const LinkUse& use : timeline.links) ++slices[use.rank];
  size_t sum = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    sum += slices[static_cast<size_t>(rank)];
    if (sum > max_slices) return std::max(1, rank);
  }
  return plan.ranks();
}

// A text as a JSON string; what is not UTF-8 is replaced rather than refused for a name.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

class PerfettoTrace::Writer {
 public:
  explicit Writer(PerfettoOptions options) : options_(std::move(options)) {
    other_ = {{"stretto", STRETTO_VERSION}};
    if (!options_.machine.empty()) other_["machine"] = options_.machine;
  }

  void add(const Plan& plan, const Timeline& timeline, const Simulation* predicted,
           const PlanLines* lines, const std::string& name) {
    plan_ = &plan;
    timeline_ = &timeline;
    lines_ = lines;
    prefix_ = name.empty() ? "" : name + ": ";
    slices_ = std::min(slices_, options_.max_slices);
    ranks_ = ranks_that_fit(plan, timeline, options_.max_slices - slices_);
    describe_run(predicted, name);
    write_names();
    write_spans();
    write_links();
    write_arrows();
    write_counters();
    if (predicted != nullptr) write_critical_path(*predicted);
    first_pid_ += plan.ranks() + 1;
  }

  std::string finish() {
    std::string out = "{\"displayTimeUnit\":\"ns\",\"otherData\":";
    out += other_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return out + ",\"traceEvents\":[\n" + events_ + "\n]}\n";
  }

 private:
  // What viewers show beside the trace: of one timeline by itself, of several by name.
  void describe_run(const Simulation* predicted, const std::string& name) {
    nlohmann::json run = {{"schedule", plan_->schedule},
                          {"timeline", predicted != nullptr ? "predicted" : "measured"},
                          {"total_us", timeline_->total_us}};
    if (predicted != nullptr) {
      run["gemm_us"] = predicted->compute_us;
      run["exposed_us"] = predicted->exposed_us;
      run["floor_us"] = predicted->floor_us;
    }
    if (ranks_ < plan_->ranks()) {
      run["left_out"] = fmt::format("ranks {} to {}", ranks_, plan_->ranks() - 1);
    }
    other_["operator"] = to_string(plan_->op);
    if (name.empty()) {
      other_.update(run);
    } else {
      other_[name] = std::move(run);
    }
  }

  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    if (!events_.empty()) events_ += ",\n";
    fmt::format_to(std::back_inserter(events_), format, std::forward<Args>(args)...);
  }

  bool shown(const Lane& lane) const { return lane.rank < ranks_; }
  int pid(int rank) const { return first_pid_ + rank; }
  int all_ranks() const { return first_pid_ + plan_->ranks(); }

  void name(std::string_view what, int process, uint32_t thread, std::string_view text) {
    event(R"({{"ph":"M","name":"{}_name","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process,
          thread, json_text(std::string(text)));
    event(R"({{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
          what, process, thread, what == "process" ? static_cast<uint32_t>(process) : thread);
  }

  void write_names() {
    for (int rank = 0; rank < ranks_; ++rank) {
      name("process", pid(rank), 0, fmt::format("{}rank {}", prefix_, rank));
    }
    for (uint32_t lane = 0; lane < plan_->lanes.size(); ++lane) {
      const Lane& of_plan = plan_->lanes[lane];
      if (!shown(of_plan)) continue;
      name("thread", pid(of_plan.rank), lane,
           fmt::format("{} {}", to_string(of_plan.kind), of_plan.index));
    }
    std::vector<bool> named(static_cast<size_t>(ranks_) * 2, false);
    for (const LinkUse& use : timeline_->links) {
      const size_t index = size_t{use.rank} * 2 + use.network;
      if (use.rank >= ranks_ || named[index]) continue;
      named[index] = true;
      name("thread", pid(use.rank), use.network ? kNetworkThread : kLinkThread,
           use.network ? "network out" : "link out");
    }
  }

  // What is known of an instruction beyond its title, as the rest of "args".
  std::string args_of(const Lane& lane, const Instr& instr) const {
    const TaskFacts facts = facts_of(*plan_, lane, instr);
    std::string args;
    const auto add = [&](std::string_view key, const auto& value) {
      fmt::format_to(std::back_inserter(args), R"(,"{}":{})", key, value);
    };
    if (!facts.result.empty()) {
      const auto range = [](int first, int end) { return fmt::format("\"{}:{}\"", first, end); };
      add("buffer", json_text(plan_->buffers[facts.result.buffer].name));
      add("rows", range(facts.result.row0, facts.result.row1));
      add("columns", range(facts.result.col0, facts.result.col1));
    }
    if (facts.depth > 0) add("k", facts.depth);
    if (facts.bytes > 0) add("bytes", facts.bytes);
    if (facts.bytes_between > 0) add("bytes_between_ranks", facts.bytes_between);
    if (!facts.to.empty()) add("to_rank", fmt::format("\"{}\"", list_of(facts.to)));
    if (!facts.from.empty()) add("from_rank", fmt::format("\"{}\"", list_of(facts.from)));
    return args;
  }

  void write_spans() {
    for (const Span& span : timeline_->spans) {
      const Lane& lane = plan_->lanes[span.where.lane];
      if (!shown(lane) || !is_seen(*plan_, span)) continue;
      ++slices_;
      const Instr& instr = lane.instrs[span.where.pos];
      std::string args = args_of(lane, instr);
      if (lines_ != nullptr) args += fmt::format(R"(,"line":{})", lines_->of(span.where));
      if (span.released_by.lane != kNoLane) {
        args += fmt::format(R"(,"ended_by":"{}, instruction {}")",
                            describe(plan_->lanes[span.released_by.lane]), span.released_by.pos);
      }
      event(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
            R"("args":{{"instruction":{}{}}}}})",
            json_text(title_of(*plan_, instr)), to_string(instr.op), pid(lane.rank),
            span.where.lane, rounded(span.start_us), duration(span.start_us, span.end_us),
            span.where.pos, args);
    }
  }

  void write_links() {
    for (const LinkUse& use : timeline_->links) {
      if (use.rank >= ranks_) continue;
      ++slices_;
      event(R"({{"ph":"X","name":"send","cat":"link","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
            pid(use.rank), use.network ? kNetworkThread : kLinkThread, rounded(use.start_us),
            duration(use.start_us, use.end_us));
    }
  }

  // An arrow leaves the last slice before the notify, since a notify takes no time of its own.
  void write_arrows() {
    std::vector<std::vector<uint32_t>> by_lane(plan_->lanes.size());
    for (uint32_t i = 0; i < timeline_->spans.size(); ++i) {
      const Span& span = timeline_->spans[i];
      if (is_seen(*plan_, span)) by_lane[span.where.lane].push_back(i);
    }
    for (const Span& span : timeline_->spans) {
      if (span.released_by.lane == kNoLane || !is_seen(*plan_, span)) continue;
      const Lane& to = plan_->lanes[span.where.lane];
      const Lane& from = plan_->lanes[span.released_by.lane];
      if (!shown(to) || !shown(from)) continue;
      const auto& candidates = by_lane[span.released_by.lane];
      const auto next =
          std::partition_point(candidates.begin(), candidates.end(), [&](uint32_t candidate) {
            return timeline_->spans[candidate].where.pos < span.released_by.pos;
          });
      if (next == candidates.begin()) continue;
      const Span& source = timeline_->spans[next[-1]];
      ++arrows_;
      event(R"({{"ph":"s","name":"signal","cat":"signal","id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
            arrows_, pid(from.rank), span.released_by.lane, inside(source));
      event(R"({{"ph":"f","bp":"e","name":"signal","cat":"signal","id":{},"pid":{},"tid":{},)"
            R"("ts":{:.3f}}})",
            arrows_, pid(to.rank), span.where.lane, inside(span));
    }
  }

  // Viewers tie an arrow to the slice around its time.
  static double inside(const Span& span) {
    return std::max(span.start_us,
                    span.end_us - std::min(0.002, (span.end_us - span.start_us) / 2));
  }

  // A counter holds until its next event, so only changes are written.
  void write_counter(std::string_view name, int process, const std::vector<double>& percent) {
    std::optional<int> before;
    for (size_t i = 0; i <= percent.size(); ++i) {
      const int value = i < percent.size() ? static_cast<int>(std::lround(percent[i])) : 0;
      if (before == value) continue;
      before = value;
      const double at = timeline_->total_us / static_cast<double>(kCounterColumns);
      event(R"({{"ph":"C","name":"{}","pid":{},"ts":{:.3f},"args":{{"%":{}}}}})", name, process,
            static_cast<double>(i) * at, value);
    }
  }

  void write_counters() {
    if (!(timeline_->total_us > 0)) return;
    const auto ranks = static_cast<size_t>(plan_->ranks());
    const Bins empty(kCounterColumns, timeline_->total_us);
    std::vector<Bins> tiles(ranks, empty), links(ranks, empty), networks(ranks, empty);
    std::vector<int> lanes(ranks, 0);
    std::vector<bool> known(ranks, false), sends(ranks, false), sends_far(ranks, false);
    for (const Lane& lane : plan_->lanes) lanes[lane.rank] += lane.kind == LaneKind::compute;
    for (const Span& span : timeline_->spans) {
      const Lane& lane = plan_->lanes[span.where.lane];
      known[lane.rank] = true;
      if (lane.kind != LaneKind::compute || !multiplies(lane.instrs[span.where.pos].op)) continue;
      tiles[lane.rank].add(span.start_us, span.end_us);
    }
    for (const LinkUse& use : timeline_->links) {
      (use.network ? networks : links)[use.rank].add(use.start_us, use.end_us);
      (use.network ? sends_far : sends)[use.rank] = true;
    }
    std::vector<double> busy(kCounterColumns, 0), percent(kCounterColumns, 0);
    int computing = 0;  // ranks
    for (size_t rank = 0; rank < ranks; ++rank) {
      const auto counter = [&](std::string_view name, const Bins& bins, int of) {
        for (size_t i = 0; i < kCounterColumns; ++i) percent[i] = 100 * bins.share(i, of);
        if (static_cast<int>(rank) < ranks_) write_counter(name, pid(int(rank)), percent);
      };
      if (known[rank] && lanes[rank] > 0) {
        counter("compute lanes in tiles", tiles[rank], lanes[rank]);
        for (size_t i = 0; i < kCounterColumns; ++i) busy[i] += percent[i];
        ++computing;
      }
      if (sends[rank]) counter("link out busy", links[rank], 1);
      if (sends_far[rank]) counter("network out busy", networks[rank], 1);
    }
    if (computing == 0) return;
    name("process", all_ranks(), 0, prefix_ + "all ranks");
    for (double& share : busy) share /= computing;
    write_counter("compute lanes in tiles", all_ranks(), busy);
    for (double& share : busy) share = 100 - share;
    write_counter("exposed", all_ranks(), busy);
  }

  // Its steps follow each other; what took no time is an instant of the step before.
  void write_critical_path(const Simulation& predicted) {
    if (predicted.critical_path.empty()) return;
    name("thread", all_ranks(), 0, "critical path");
    double end = 0;
    for (size_t i = predicted.critical_path.size(); i-- > 0;) {
      const CriticalStep& step = predicted.critical_path[i];
      const double start = std::max(end, step.start_us);
      if (duration(start, step.end_us) <= 0) continue;
      end = step.end_us;
      const Lane& lane = plan_->lanes[step.where.lane];
      const std::string line =
          lines_ == nullptr ? "" : fmt::format(R"(,"line":{})", lines_->of(step.where));
      event(R"({{"ph":"X","name":{},"cat":"critical","pid":{},"tid":0,"ts":{:.3f},"dur":{:.3f},)"
            R"("args":{{"lane":"{}","instruction":{},"because_of":{}{}}}}})",
            json_text(title_of(*plan_, lane.instrs[step.where.pos])), all_ranks(), rounded(start),
            duration(start, end), describe(lane), step.where.pos, json_text(step.why), line);
    }
  }

  const PerfettoOptions options_;
  nlohmann::ordered_json other_;
  std::string events_;
  size_t slices_ = 0;
  uint32_t arrows_ = 0;
  int first_pid_ = 0;
  // Of what is being added.
  const Plan* plan_ = nullptr;
  const Timeline* timeline_ = nullptr;
  const PlanLines* lines_ = nullptr;  // null: not known
  std::string prefix_;
  int ranks_ = 0;
};

PerfettoTrace::PerfettoTrace(PerfettoOptions options)
    : writer_(std::make_unique<Writer>(std::move(options))) {}
PerfettoTrace::~PerfettoTrace() = default;

void PerfettoTrace::add(const Plan& plan, const Timeline& measured, const PlanLines* lines,
                        const std::string& name) {
  writer_->add(plan, measured, nullptr, lines, name);
}

void PerfettoTrace::add(const Plan& plan, const Simulation& predicted, const PlanLines* lines,
                        const std::string& name) {
  writer_->add(plan, predicted, &predicted, lines, name);
}

std::string PerfettoTrace::finish() { return writer_->finish(); }

std::string to_perfetto(const Plan& plan, const Timeline& measured, const PlanLines* lines,
                        PerfettoOptions options) {
  PerfettoTrace trace(std::move(options));
  trace.add(plan, measured, lines);
  return trace.finish();
}

std::string to_perfetto(const Plan& plan, const Simulation& predicted, const PlanLines* lines,
                        PerfettoOptions options) {
  PerfettoTrace trace(std::move(options));
  trace.add(plan, predicted, lines);
  return trace.finish();
}

}  // namespace stretto
