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

namespace stretto {
namespace {

constexpr int kLabelWidth = 10, kShareWidth = 6, kLeastWidth = 40, kMostWidth = 1000;

struct Style {
  std::array<std::string_view, 9> bars;  // empty to full
  std::string_view line, tick, exposed;
};
constexpr Style kUnicode{{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, "─", "┬", "▲"};
constexpr Style kAscii{{" ", ".", ":", "-", "=", "+", "*", "%", "@"}, "-", "+", "^"};

// Time cut into equal columns; each collects the time that something was busy in it.
class Bins {
 public:
  Bins(int columns, double total_us)
      : width_us_(total_us / columns), busy_us_(static_cast<size_t>(columns), 0) {}

  void add(double start, double end) {
    const size_t last = busy_us_.size() - 1;
    const auto column = [&](double time) {
      return std::min(last, static_cast<size_t>(std::max(0.0, time / width_us_)));
    };
    for (size_t i = column(start); i <= column(end); ++i) {
      const double low = std::max(start, static_cast<double>(i) * width_us_);
      const double high = std::min(end, static_cast<double>(i + 1) * width_us_);
      busy_us_[i] += std::max(0.0, high - low);
    }
  }
  size_t columns() const { return busy_us_.size(); }
  // Share of the column in which `lanes` things were busy.
  double share(size_t column, int lanes) const {
    return lanes == 0 ? 0 : std::min(1.0, busy_us_[column] / (width_us_ * lanes));
  }
  double mean(int lanes) const {
    double sum = 0;
    for (size_t i = 0; i < columns(); ++i) sum += share(i, lanes);
    return sum / static_cast<double>(columns());
  }

 private:
  double width_us_;
  std::vector<double> busy_us_;
};

enum RowKind { kCompute, kReduce, kComm, kCopy, kNccl, kLink, kNetwork, kRows };
constexpr std::array<std::string_view, kRows> kRowNames{"compute", "reduce", "comm",   "copy",
                                                        "nccl",    "link",   "network"};

struct RankRows {
  std::vector<Bins> bins;
  std::array<int, kRows> lanes{};
  std::array<bool, kRows> used{};
  bool is_known() const { return std::find(used.begin(), used.end(), true) != used.end(); }
};

bool multiplies(Opcode op) {
  const TaskKind* const kind = kind_of(op);
  return kind != nullptr && kind->worker == Worker::gemm_kernel;
}

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

std::vector<RankRows> collect(const Plan& plan, const Timeline& timeline, int columns) {
  std::vector<RankRows> ranks(static_cast<size_t>(plan.ranks()));
  for (RankRows& rank : ranks) {
    rank.bins.assign(kRows, Bins(columns, timeline.total_us));
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

void draw_row(std::string& out, std::string_view name, const Bins& bins, int lanes,
              const Style& style) {
  out += fmt::format("  {:{}}", name, kLabelWidth - 2);
  for (size_t i = 0; i < bins.columns(); ++i) {
    // A little is shown as a little, not as nothing.
    const double share = bins.share(i, lanes);
    const int level = share < 1e-3 ? 0 : std::clamp(static_cast<int>(share * 8 + 0.5), 1, 8);
    out += style.bars[static_cast<size_t>(level)];
  }
  out += fmt::format("{:4.0f} %\n", 100 * bins.mean(lanes));
}

// Marks the columns in which less than half of all ranks' compute lanes are in tiles, but for ranks
// that nothing is known of. `share` is of all columns; by default that of the marked ones.
void draw_exposed(std::string& out, const std::vector<RankRows>& ranks, int columns,
                  std::optional<double> share, const Style& style) {
  out += fmt::format("{:{}}", "exposed", kLabelWidth);
  std::string marks;
  int marked = 0;
  for (size_t i = 0; i < static_cast<size_t>(columns); ++i) {
    double busy = 0;
    int with_compute = 0;
    for (const RankRows& rank : ranks) {
      busy += rank.bins[kCompute].share(i, rank.lanes[kCompute]);
      with_compute += rank.lanes[kCompute] > 0 && rank.is_known();
    }
    const bool exposed = busy < 0.5 * with_compute;
    marks += exposed ? style.exposed : " ";
    marked += exposed;
  }
  out += marks;
  out += fmt::format("{:4.0f} %\n", 100 * share.value_or(double(marked) / columns));
}

std::string summary(const Simulation& s) {
  return fmt::format(
      "total {:.1f} us = {:.1f} us of GEMM alone + {:.1f} us exposed; communication alone {:.1f}; "
      "floor {:.1f} ({:.0f} %)\n",
      s.total_us, s.compute_us, s.total_us - s.compute_us, s.communication_us, s.floor_us,
      100 * s.efficiency);
}

std::string draw(const Plan& plan, const Timeline& timeline, std::optional<double> exposed,
                 const std::string& summary, int width, int max_ranks, bool ascii) {
  if (!(timeline.total_us > 0)) return "nothing takes time\n";
  const Style& style = ascii ? kAscii : kUnicode;
  const int columns = std::clamp(width, kLeastWidth, kMostWidth) - kLabelWidth - kShareWidth;
  const std::vector<RankRows> ranks = collect(plan, timeline, columns);
  const auto shown = static_cast<size_t>(std::clamp(max_ranks, 1, plan.ranks()));
  std::string out;
  draw_axis(out, timeline.total_us, columns, style);
  for (size_t r = 0; r < shown; ++r) {
    out += fmt::format("rank {}\n", r);
    for (int row = 0; row < kRows; ++row) {
      if (!ranks[r].used[static_cast<size_t>(row)]) continue;
      draw_row(out, kRowNames[static_cast<size_t>(row)], ranks[r].bins[static_cast<size_t>(row)],
               ranks[r].lanes[static_cast<size_t>(row)], style);
    }
  }
  if (const size_t hidden = ranks.size() - shown; hidden > 0) {
    out += fmt::format("and {} more rank{}\n", hidden, hidden > 1 ? "s" : "");
  }
  draw_exposed(out, ranks, columns, exposed, style);
  out += summary;
  out += fmt::format(
      "bars: share of the lanes at work, of the time for nccl, link and network; right: mean\n"
      "{} less than half of all compute lanes are in tiles\n",
      style.exposed);
  return out;
}

}  // namespace

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
