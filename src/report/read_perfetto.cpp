// A trace that to_perfetto() wrote, read again.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "stretto/error.h"
#include "stretto/report.h"

namespace stretto {

TracedRun read_perfetto(std::string_view text, std::string_view file_name) {
  const nlohmann::json trace = nlohmann::json::parse(text, nullptr, false);
  const auto fail = [&](std::string_view what) {
    throw UsageError(
        fmt::format("{}: {}; take a trace that `stretto run --target cuda --perfetto "
                    "FILE` wrote",
                    file_name, what));
  };
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array()) {
    fail("it is no trace");
  }
  const auto place = [&](const nlohmann::json& number, uint32_t most) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() > most) fail("a slice has no place");
    return static_cast<uint32_t>(number.get<uint64_t>());
  };
  TracedRun run;
  try {
    const nlohmann::json& other = trace.at("otherData");
    run.operator_text = other.at("operator").get<std::string>();
    if (!other.contains("schedule")) fail("it has several timelines");
    run.schedule = other.at("schedule").get<std::string>();
    run.is_measured = other.value("timeline", "") == "measured";
    if (other.contains("left_out")) fail("ranks are left out of it");
    for (const nlohmann::json& event : trace["traceEvents"]) {
      if (event.value("ph", "") != "X" || event.value("cat", "") == "critical") continue;
      const double start = event.at("ts").get<double>();
      const double end = start + event.at("dur").get<double>();
      if (!(start >= 0 && end >= start && end < 1e12)) fail("a slice has no time");
      run.timeline.total_us = std::max(run.timeline.total_us, end);
      if (event.value("cat", "") == "link") {
        const auto rank = static_cast<uint16_t>(place(event.at("pid"), UINT16_MAX));
        const bool is_network = place(event.at("tid"), UINT32_MAX) > 1'000'000;
        run.timeline.links.push_back({rank, is_network, start, end});
        continue;
      }
      Span span;
      span.where = {place(event.at("tid"), UINT32_MAX),
                    place(event.at("args").at("instruction"), UINT32_MAX)};
      span.start_us = start;
      span.end_us = end;
      run.timeline.spans.push_back(span);
    }
    // A measured run ends behind its last slice: no slice is for the end of a kernel.
    const double total = other.value("total_us", 0.0);
    if (!(total >= 0 && total < 1e12)) fail("its end is no time");
    run.timeline.total_us = std::max(run.timeline.total_us, total);
  } catch (const nlohmann::json::exception&) {
    fail("it is no trace of Stretto's");
  }
  return run;
}

void require_same(const TracedRun& run, const Plan& plan, std::string_view file_name) {
  const auto fits = [&](const Span& span) {
    return span.where.lane < plan.lanes.size() &&
           span.where.pos < plan.lanes[span.where.lane].instrs.size();
  };
  if (run.operator_text == to_string(plan.op) && run.schedule == plan.schedule) {
    if (std::all_of(run.timeline.spans.begin(), run.timeline.spans.end(), fits)) return;
    throw UsageError(fmt::format(
        "{} names an instruction that the plan does not have: take a trace of this version",
        file_name));
  }
  throw UsageError(
      fmt::format("{} is a trace of another plan, {} by {}: name its operator and its schedule",
                  file_name, quote(run.operator_text, 100), quote(run.schedule, 400)));
}

}  // namespace stretto
