// Trace events as chrome://tracing defined them and ui.perfetto.dev reads them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/plan.h"
#include "stretto/timeline.h"

namespace stretto {
namespace {

constexpr uint32_t kLinkThread = 1'000'000, kNetworkThread = 1'000'001;  // after all lanes

// Ranks whose slices fit under the limit together: the first ones, at least one.
int ranks_that_fit(const Plan& plan, const Timeline& timeline, size_t max_slices) {
  std::vector<size_t> slices(static_cast<size_t>(plan.ranks()), 0);
  for (const Span& span : timeline.spans) ++slices[plan.lanes[span.where.lane].rank];
  for (const LinkUse& use : timeline.links) ++slices[use.rank];
  size_t sum = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    sum += slices[static_cast<size_t>(rank)];
    if (sum > max_slices) return std::max(1, rank);
  }
  return plan.ranks();
}

class Writer {
 public:
  Writer(const Plan& plan, const Timeline& timeline, const PlanLines* lines, int ranks)
      : plan_(plan), timeline_(timeline), lines_(lines), ranks_(ranks) {}

  std::string run() {
    out_ += "{\"displayTimeUnit\":\"ns\",\"otherData\":";
    nlohmann::json other{{"operator", to_string(plan_.op)}, {"schedule", plan_.schedule}};
    if (ranks_ < plan_.ranks()) {
      other["left_out"] = fmt::format("ranks {} to {}", ranks_, plan_.ranks() - 1);
    }
    // Replaces what is not UTF-8 rather than refuse a plan for a name.
    out_ += other.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out_ += ",\"traceEvents\":[\n";
    write_names();
    write_spans();
    write_links();
    write_arrows();
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    if (!first_) out_ += ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  bool shown(const Lane& lane) const { return lane.rank < ranks_; }

  void name(std::string_view what, int rank, uint32_t thread, std::string_view text) {
    event(R"({{"ph":"M","name":"{}_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})", what, rank,
          thread, text);
    event(R"({{"ph":"M","name":"{}_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
          what, rank, thread, what == "process" ? static_cast<uint32_t>(rank) : thread);
  }

  void write_names() {
    for (int rank = 0; rank < ranks_; ++rank) {
      name("process", rank, 0, fmt::format("rank {}", rank));
    }
    for (uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      const Lane& of_plan = plan_.lanes[lane];
      if (!shown(of_plan)) continue;
      name("thread", of_plan.rank, lane,
           fmt::format("{} {}", to_string(of_plan.kind), of_plan.index));
    }
    std::vector<bool> named(static_cast<size_t>(ranks_) * 2, false);
    for (const LinkUse& use : timeline_.links) {
      const size_t index = size_t{use.rank} * 2 + use.network;
      if (use.rank >= ranks_ || named[index]) continue;
      named[index] = true;
      name("thread", use.rank, use.network ? kNetworkThread : kLinkThread,
           use.network ? "network out" : "link out");
    }
  }

  std::string title(const Instr& instr) const {
    switch (instr.form()) {
      case OpForm::wait:
        return fmt::format("wait {} >= {}", describe(plan_, instr.signal), instr.amount);
      case OpForm::collective:
        return fmt::format("{} {}", to_string(instr.collective), instr.id);
      case OpForm::notify:
      case OpForm::boundary:
      case OpForm::task_kind:
      case OpForm::deliver:
        break;
    }
    return instr.tile < 0 ? std::string(to_string(instr.op))
                          : fmt::format("{} {}", to_string(instr.op), instr.tile);
  }

  // To the nanosecond that is written: with a duration that is rounded by itself a slice may reach
  // into the next one, and viewers leave out what overlaps.
  static double rounded(double us) { return std::round(us * 1e3) / 1e3; }
  static double duration(double start_us, double end_us) {
    return rounded(end_us) - rounded(start_us);
  }

  void write_spans() {
    for (const Span& span : timeline_.spans) {
      const Lane& lane = plan_.lanes[span.where.lane];
      if (!shown(lane)) continue;
      const Instr& instr = lane.instrs[span.where.pos];
      const std::string line =
          lines_ == nullptr ? "" : fmt::format(R"(,"line":{})", lines_->of(span.where));
      event(R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)"
            R"("args":{{"instruction":{}{}}}}})",
            title(instr), to_string(instr.op), lane.rank, span.where.lane, rounded(span.start_us),
            duration(span.start_us, span.end_us), span.where.pos, line);
    }
  }

  void write_links() {
    for (const LinkUse& use : timeline_.links) {
      if (use.rank >= ranks_) continue;
      event(R"({{"ph":"X","name":"send","cat":"link","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
            use.rank, use.network ? kNetworkThread : kLinkThread, rounded(use.start_us),
            duration(use.start_us, use.end_us));
    }
  }

  // An arrow leaves the last slice before the notify, since a notify takes no time of its own.
  void write_arrows() {
    std::vector<std::vector<uint32_t>> by_lane(plan_.lanes.size());
    for (uint32_t i = 0; i < timeline_.spans.size(); ++i) {
      by_lane[timeline_.spans[i].where.lane].push_back(i);
    }
    uint32_t id = 0;
    for (const Span& span : timeline_.spans) {
      if (span.released_by.lane == kNoLane) continue;
      const Lane& to = plan_.lanes[span.where.lane];
      const Lane& from = plan_.lanes[span.released_by.lane];
      if (!shown(to) || !shown(from)) continue;
      const auto& candidates = by_lane[span.released_by.lane];
      const auto next =
          std::partition_point(candidates.begin(), candidates.end(), [&](uint32_t candidate) {
            return timeline_.spans[candidate].where.pos < span.released_by.pos;
          });
      if (next == candidates.begin()) continue;
      const Span& source = timeline_.spans[next[-1]];
      ++id;
      event(R"({{"ph":"s","name":"signal","cat":"signal","id":{},"pid":{},"tid":{},"ts":{:.3f}}})",
            id, from.rank, span.released_by.lane, inside(source));
      event(R"({{"ph":"f","bp":"e","name":"signal","cat":"signal","id":{},"pid":{},"tid":{},)"
            R"("ts":{:.3f}}})",
            id, to.rank, span.where.lane, inside(span));
    }
  }

  // Viewers tie an arrow to the slice around its time.
  static double inside(const Span& span) {
    return std::max(span.start_us,
                    span.end_us - std::min(0.002, (span.end_us - span.start_us) / 2));
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const PlanLines* const lines_;  // null: not known
  const int ranks_;
  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string to_perfetto(const Plan& plan, const Timeline& timeline, const PlanLines* lines,
                        size_t max_slices) {
  return Writer(plan, timeline, lines, ranks_that_fit(plan, timeline, max_slices)).run();
}

}  // namespace stretto
