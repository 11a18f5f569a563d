#include "check/stream_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace stretto::checker {
namespace {

using cuda::StepKind;

void report(const std::string& message, const char* hint, uint64_t cause, Findings& findings) {
  findings.add(DiagnosticKind::enqueue_order, cause, [&] {
    Diagnostic d;
    d.message = message;
    d.hint = hint;
    return d;
  });
}

}  // namespace

StreamClocks::StreamClocks(const Plan& plan, size_t rank, const cuda::RankProgram& program,
                           Findings& findings)
    : num_streams_(program.streams.size()), rows_(num_streams_, 0) {
  for (const cuda::StepStream& stream : program.streams) row_of_.emplace_back(stream.steps.size());
  follow(plan, rank, program, findings);
}

void StreamClocks::follow(const Plan& plan, size_t rank, const cuda::RankProgram& program,
                          Findings& findings) {
  std::vector<uint32_t> next(num_streams_, 0);
  std::vector<size_t> row(num_streams_, 0);  // by stream: of its next step
  std::vector<std::optional<StepPlace>> recorded(program.num_events);
  for (const auto& [stream, step] : program.order) {
    if (stream >= num_streams_ || step != next[stream] || step >= row_of_[stream].size()) {
      return report(
          fmt::format("rank {} enqueues step {} of stream {} where another is the next of it", rank,
                      step, stream),
          "every step should be enqueued once, those of a stream in their order", rank, findings);
    }
    ++next[stream];
    row_of_[stream][step] = row[stream];
    const cuda::Step& made = program.streams[stream].steps[step];
    const StepPlace place{stream, step};
    if (made.kind == StepKind::record) recorded[made.index] = place;
    if (made.kind != StepKind::await) continue;
    const std::optional<StepPlace>& source = recorded[made.index];
    if (!source) {
      report(fmt::format("{} is enqueued ahead of the event's record, so it awaits that of the run "
                         "before",
                         at(plan, program, rank, place)),
             "the record should be enqueued first", uint64_t{rank} << 32 | (made.index + 1),
             findings);
      continue;
    }
    const size_t known = row[stream];
    row[stream] = rows_.size();
    for (uint32_t s = 0; s < num_streams_; ++s) {
      const uint32_t told = s == source->stream ? source->step : ended(s, *source);
      rows_.push_back(std::max(rows_[known + s], told));
    }
  }
  for (uint32_t s = 0; s < num_streams_; ++s) {
    if (next[s] == row_of_[s].size()) continue;
    return report(fmt::format("{} is never enqueued", at(plan, program, rank, {s, next[s]})),
                  "every step should be enqueued once", rank, findings);
  }
}

}  // namespace stretto::checker
