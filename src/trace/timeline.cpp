// The terminal chart of a timeline.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/plan.h"
#include "stretto/simulate.h"
#include "trace/bins.h"

namespace stretto {
namespace {

constexpr int kLabelWidth = 10, kShareWidth = 6, kLeastWidth = 40, kMostWidth = 1000;

struct Style {
  std::array<std::string_view, 9> bars;  // empty to full
  std::string_view line, tick, exposed;
};
constexpr Style kUnicode{{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, "─", "┬", "▲"};
constexpr Style kAscii{{" ", ".", ":", "-", "=", "+", "*", "%", "@"}, "-", "+", "^"};

enum RowKind { kCompute, kReduce, kComm, kCopy, kNccl, kLink, kNetwork, kRows };
constexpr std::array<std::string_view, kRows> kRowNames{"compute", "reduce", "comm",   "copy",
                                                        "nccl",    "link",   "network"};

struct RankRows {
  std::vector<Bins> bins;
  std::array<int, kRows> lanes{};
  std::array<bool, kRows> used{};
  bool is_known() const { return std::find(used.begin(), used.end(), true) != used.end(); }
};

// Tasks of compute lanes that are no tiles have a row of their own: they are not computation.
RowKind row_of(LaneKind lane, bool is_tile) {
  switch (lane) {
    case LaneKind::compute:
      return is_tile ? kCompute : kReduce;
    case LaneKind::comm:
      return kComm;
    case LaneKind::copy:
      return kCopy;
    case LaneKind::nccl:
      return kNccl;
  }
  return kCompute;
}

std::vector<RankRows> collect(const Plan& plan, const Timeline& timeline, size_t columns,
                              double until_us) {
  std::vector<RankRows> ranks(static_cast<size_t>(plan.ranks()));
  for (RankRows& rank : ranks) {
    rank.bins.assign(kRows, Bins(columns, until_us));
    rank.lanes[kLink] = rank.lanes[kNetwork] = 1;
  }
  for (const Lane& lane : plan.lanes) {
    RankRows& rank = ranks[lane.rank];
    ++rank.lanes[row_of(lane.kind, true)];
    rank.lanes[kReduce] += lane.kind == LaneKind::compute;
  }
  for (const Span& span : timeline.spans) {
    const Lane& lane = plan.lanes[span.where.lane];
    const Instr& instr = lane.instrs[span.where.pos];
    if (instr.op == Opcode::wait || instr.op == Opcode::notify) continue;
    RankRows& rank = ranks[lane.rank];
    const RowKind row = row_of(lane.kind, multiplies(instr.op));
    rank.bins[row].add(span.start_us, span.end_us);
    rank.used[row] = true;
  }
  for (const LinkUse& use : timeline.links) {
    const RowKind row = use.network ? kNetwork : kLink;
    ranks[use.rank].bins[row].add(use.start_us, use.end_us);
    ranks[use.rank].used[row] = true;
  }
  return ranks;
}

// 1, 2 or 5 times a power of ten, so that about `ticks` fit.
double tick_step(double total_us, int ticks) {
  const double rough = total_us / std::max(1, ticks);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

void draw_axis(std::string& out, double total_us, int columns, const Style& style) {
  const double step = tick_step(total_us, columns / 12);
  std::string labels(static_cast<size_t>(columns), ' '), line;
  std::vector<bool> ticks(static_cast<size_t>(columns), false);
  for (int i = 0; i * step < total_us; ++i) {
    const auto column = static_cast<size_t>(i * step / total_us * columns);
    const std::string label = i == 0 ? "0 us" : fmt::format("{:g}", i * step);
    ticks[column] = true;
    if (column + label.size() <= labels.size()) labels.replace(column, label.size(), label);
  }
  for (const bool tick : ticks) line += tick ? style.tick : style.line;
  while (!labels.empty() && labels.back() == ' ') labels.pop_back();
  out += fmt::format("{:{}}{}\n{:{}}{}\n", "", kLabelWidth, labels, "", kLabelWidth, line);
}

// `until` of the columns are the run's; the mean is of these.
void draw_row(std::string& out, std::string_view name, const Bins& bins, int lanes, double until,
              const Style& style) {
  out += fmt::format("  {:{}}", name, kLabelWidth - 2);
  double sum = 0;
  for (size_t i = 0; i < bins.columns(); ++i) {
    // A little is shown as a little, not as nothing.
    const double share = bins.share(i, lanes);
    sum += share;
    const int level = share < 1e-3 ? 0 : std::clamp(static_cast<int>(share * 8 + 0.5), 1, 8);
    out += style.bars[static_cast<size_t>(level)];
  }
  out += fmt::format("{:4.0f} %\n", 100 * sum / until);
}

// Marks the columns in which less than half of all ranks' compute lanes are in tiles, but for ranks
// that nothing is known of. `share` is of all columns; by default that of the marked ones.
void draw_exposed(std::string& out, const std::vector<RankRows>& ranks, size_t columns,
                  double until, std::optional<double> share, const Style& style) {
  out += fmt::format("{:{}}", "exposed", kLabelWidth);
  std::string marks;
  int marked = 0;
  for (size_t i = 0; i < columns; ++i) {
    double busy = 0;
    int with_compute = 0;
    for (const RankRows& rank : ranks) {
      busy += rank.bins[kCompute].share(i, rank.lanes[kCompute]);
      with_compute += rank.lanes[kCompute] > 0 && rank.is_known();
    }
    // Of the column in which the run ends, as much as it has.
    const double in_run = std::min(1.0, until - static_cast<double>(i));
    const bool exposed = in_run > 0 && busy < 0.5 * with_compute * in_run;
    marks += exposed ? style.exposed : " ";
    marked += exposed;
  }
  out += marks;
  out += fmt::format("{:4.0f} %\n", 100 * share.value_or(double(marked) / until));
}

std::string summary(const Simulation& s) {
  return fmt::format(
      "total {:.1f} us = {:.1f} us of GEMM alone + {:.1f} us exposed\n"
      "communication alone {:.1f} us; floor {:.1f} us ({:.0f} %)\n",
      s.total_us, s.compute_us, s.total_us - s.compute_us, s.communication_us, s.floor_us,
      100 * s.efficiency);
}

int columns_of(int width) {
  return std::clamp(width, kLeastWidth, kMostWidth) - kLabelWidth - kShareWidth;
}

// The rows of one timeline, `until` of the columns long.
void draw_rows(std::string& out, const std::vector<RankRows>& ranks, int max_ranks, size_t columns,
               double until, std::optional<double> exposed, const Style& style) {
  const auto shown = static_cast<size_t>(std::clamp(max_ranks, 1, static_cast<int>(ranks.size())));
  for (size_t r = 0; r < shown; ++r) {
    out += fmt::format("rank {}\n", r);
    for (int row = 0; row < kRows; ++row) {
      const auto i = static_cast<size_t>(row);
      if (!ranks[r].used[i]) continue;
      draw_row(out, kRowNames[i], ranks[r].bins[i], ranks[r].lanes[i], until, style);
    }
  }
  if (const size_t hidden = ranks.size() - shown; hidden > 0) {
    out += fmt::format("and {} more rank{}\n", hidden, hidden > 1 ? "s" : "");
  }
  draw_exposed(out, ranks, columns, until, exposed, style);
}

std::string what_it_shows(const Style& style) {
  return fmt::format(
      "bars: share of the lanes at work; of the time for nccl, link, network\n"
      "right: the mean of the bars\n"
      "{} less than half of all compute lanes are in tiles\n",
      style.exposed);
}

std::string draw(const Plan& plan, const Timeline& timeline, std::optional<double> exposed,
                 const std::string& summary, int width, int max_ranks, bool ascii) {
  if (!(timeline.total_us > 0)) return "nothing takes time\n";
  const Style& style = ascii ? kAscii : kUnicode;
  const int columns = columns_of(width);
  const auto count = static_cast<size_t>(columns);
  std::string out;
  draw_axis(out, timeline.total_us, columns, style);
  draw_rows(out, collect(plan, timeline, count, timeline.total_us), max_ranks, count, columns,
            exposed, style);
  return out + summary + what_it_shows(style);
}

}  // namespace

// The common axis is known when the last one has been added; until then each has fine columns of
// its own.
struct Charts::One {
  std::string name, summary;
  double total_us = 0;
  std::optional<double> exposed;
  std::vector<RankRows> ranks;
};

namespace {

constexpr size_t kFineColumns = 8192;

std::vector<RankRows> on_axis(const std::vector<RankRows>& fine, size_t columns, double until_us) {
  std::vector<RankRows> ranks = fine;
  for (RankRows& rank : ranks) {
    for (Bins& bins : rank.bins) {
      Bins coarse(columns, until_us);
      coarse.add(bins);
      bins = std::move(coarse);
    }
  }
  return ranks;
}

}  // namespace

Charts::Charts() = default;
Charts::~Charts() = default;
bool Charts::empty() const { return charts_.empty(); }

void Charts::add(const std::string& name, const Plan& plan, const Simulation& simulation) {
  One one{name, summary(simulation), simulation.total_us, std::nullopt, {}};
  if (simulation.total_us > 0) {
    one.exposed = simulation.exposed_us / simulation.total_us;
    one.ranks = collect(plan, simulation, kFineColumns, simulation.total_us);
  }
  charts_.push_back(std::move(one));
}

std::string Charts::draw(int width, int max_ranks, bool ascii) const {
  double until_us = 0;
  for (const One& one : charts_) until_us = std::max(until_us, one.total_us);
  if (!(until_us > 0)) return "nothing takes time\n";
  const Style& style = ascii ? kAscii : kUnicode;
  const int columns = columns_of(width);
  const auto count = static_cast<size_t>(columns);
  std::string out;
  draw_axis(out, until_us, columns, style);
  for (const One& one : charts_) {
    out += fmt::format("{}: {}", one.name, one.summary);
    if (one.ranks.empty()) continue;
    draw_rows(out, on_axis(one.ranks, count, until_us), max_ranks, count,
              one.total_us / until_us * columns, one.exposed, style);
    out += '\n';
  }
  return out + what_it_shows(style);
}

std::string draw_timeline(const Plan& plan, const Timeline& timeline, int width, int max_ranks,
                          bool ascii) {
  return draw(plan, timeline, std::nullopt, fmt::format("total {:.1f} us\n", timeline.total_us),
              width, max_ranks, ascii);
}

std::string draw_timeline(const Plan& plan, const Simulation& simulation, int width, int max_ranks,
                          bool ascii) {
  return draw(plan, simulation, simulation.exposed_us / simulation.total_us, summary(simulation),
              width, max_ranks, ascii);
}

}  // namespace stretto
