#include "schedule/short_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/text.h"
#include "schedule/row_parts.h"

namespace stretto {

std::string short_text(const Schedule& schedule, const Segment& op, const Machine& machine) {
  const std::string whole = to_string(schedule);
  const std::vector<std::string_view> coordinates = split(whole, ',');
  std::optional<std::string> best;
  size_t fewest = 0;
  for (const Preset& preset : presets()) {
    const Schedule made = preset.make(op, machine);
    // Changes leave out what canonical texts leave out.
    if (made.gemm != GemmBy::tiles && made.gemm != schedule.gemm) continue;
    if (made.collectives != CollectivesBy::nccl && made.collectives != schedule.collectives) {
      continue;
    }
    const std::string base = to_string(made);
    const std::vector<std::string_view> known = split(base, ',');
    std::string text(preset.name);
    size_t changes = 0;
    for (const std::string_view coordinate : coordinates) {
      if (std::find(known.begin(), known.end(), coordinate) != known.end()) continue;
      text += ',';
      text += coordinate;
      ++changes;
    }
    if (best && changes >= fewest) continue;
    best = std::move(text);
    fewest = changes;
  }
  return best.value_or(whole);
}

std::string short_text(const OperatorSchedule& schedule, const Operator& op,
                       const Machine& machine) {
  const std::string split = schedule.split > 1 ? fmt::format("split={}/", schedule.split) : "";
  const Operator of_part = equal_part(op, schedule.split);
  std::string text;
  size_t next = 0;
  for (const OperatorSegment& segment : of_part.segments) {
    if (!segment.product) continue;
    if (!text.empty()) text += "/";
    if (schedule.products.size() > 1) text += segment.name + ":";
    text += short_text(schedule.products.at(next++), *segment.product, machine);
  }
  OperatorSchedule edges;
  edges.edges = schedule.edges;
  return split + text + (schedule.edges.empty() ? "" : "/" + to_string(edges));
}

}  // namespace stretto
