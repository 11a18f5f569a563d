// Timelines as a picture for documents: the first rank's lanes by kind, on one axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/page.h"
#include "stretto/report.h"
#include "trace/bins.h"

namespace stretto {
namespace {

constexpr int kWidth = 860, kLeft = 96, kRight = 84, kRow = 26, kStrip = 9, kGap = 5, kHead = 26;
constexpr size_t kColumns = 680;  // one a dot
constexpr int kTop = 44, kAxis = 34;

// Beside what has a colour of its own everything takes that of the page's text.
constexpr std::string_view kStyle =
    "text{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1c2430}"
    ".title{font-size:15px;font-weight:600}.name{font-weight:600}.faint{fill:#66707d}"
    ".line{stroke:#d9dde3}.ground{fill:#eef1f5}.compute{fill:#3b7dd8}.other{fill:#d98a1f}"
    ".move{fill:#14966f}.nccl{fill:#a4569b}.link{fill:#5aa9c9}.exposed{fill:#d5452f}"
    "@media(prefers-color-scheme:dark){text{fill:#e6eaf0}.faint{fill:#98a3b1}"
    ".line{stroke:#343c48}.ground{fill:#1f2630}.compute{fill:#5b9bf0}.other{fill:#efa541}"
    ".move{fill:#35bd91}.nccl{fill:#cb82c2}.link{fill:#4c9cbd}.exposed{fill:#ff6b52}}";

struct Row {
  std::string_view name, style;
  Bins bins;
  int lanes = 0;
  bool used = false;
};

// A shape as high as the share, from left to right and back on the ground.
std::string area(const Bins& bins, int lanes, double x0, double dots_a_column, double bottom,
                 double height) {
  std::string path;
  double before = 0;
  for (size_t i = 0; i <= bins.columns(); ++i) {
    const double share = i < bins.columns() ? bins.share(i, lanes) : 0;
    const double level = std::round(share * height * 10) / 10;
    if (level == before) continue;
    const double x = x0 + static_cast<double>(i) * dots_a_column;
    if (path.empty()) {
      fmt::format_to(std::back_inserter(path), "M{:.1f} {:.1f}", x, bottom);
    } else {
      fmt::format_to(std::back_inserter(path), "H{:.1f}", x);
    }
    fmt::format_to(std::back_inserter(path), "V{:.1f}", bottom - level);
    before = level;
  }
  return path;
}

}  // namespace

struct TimelinePicture::One {
  std::string name;
  double total_us = 0, exposed_us = 0;
  std::vector<Row> rows;
  Bins tiles;  // of all ranks
  int lanes = 0;
};

TimelinePicture::TimelinePicture(std::string title) : title_(std::move(title)) {}
TimelinePicture::~TimelinePicture() = default;

void TimelinePicture::add(const std::string& name, const Plan& plan, const Simulation& simulation) {
  constexpr size_t kFine = 4096;
  const Bins empty(kFine, std::max(1e-3, simulation.total_us));
  One one{name, simulation.total_us, simulation.exposed_us, {}, empty, 0};
  one.rows = {{"tiles", "compute", empty},
              {"sums", "other", empty},
              {"copies", "move", empty},
              {"collective", "nccl", empty},
              {"link", "link", empty}};
  for (const Lane& lane : plan.lanes) {
    one.lanes += lane.kind == LaneKind::compute;
    if (lane.rank != 0) continue;
    one.rows[0].lanes += lane.kind == LaneKind::compute;
    one.rows[1].lanes = one.rows[0].lanes;
    one.rows[2].lanes += lane.kind == LaneKind::comm || lane.kind == LaneKind::copy;
    one.rows[3].lanes += lane.kind == LaneKind::nccl;
  }
  one.rows[4].lanes = 1;
  const auto add = [](Row& row, double start, double end) {
    row.bins.add(start, end);
    row.used = true;
  };
  for (const Span& span : simulation.spans) {
    const Lane& lane = plan.lanes[span.where.lane];
    const Instr& instr = lane.instrs[span.where.pos];
    if (!instr.is_task()) continue;
    const bool is_tile = lane.kind == LaneKind::compute && multiplies(instr.op);
    if (is_tile) one.tiles.add(span.start_us, span.end_us);
    if (lane.rank != 0) continue;
    const size_t row = lane.kind == LaneKind::nccl      ? 3
                       : lane.kind != LaneKind::compute ? 2
                                                        : (is_tile ? 0 : 1);
    add(one.rows[row], span.start_us, span.end_us);
  }
  for (const LinkUse& use : simulation.links) {
    if (use.rank == 0) add(one.rows[4], use.start_us, use.end_us);
  }
  timelines_.push_back(std::move(one));
}

std::string TimelinePicture::finish() const {
  double until_us = 1e-3;
  for (const One& one : timelines_) until_us = std::max(until_us, one.total_us);
  const double dots_a_us = static_cast<double>(kColumns) / until_us;
  std::string body;
  const auto put = [&](auto format, auto&&... values) {
    fmt::format_to(std::back_inserter(body), fmt::runtime(format), values...);
    body += '\n';
  };
  double y = kTop;
  for (const One& one : timelines_) {
    put(R"(<text class="name" x="{}" y="{}">{}</text>)", kLeft, y + 16, escaped(one.name));
    put(R"(<text class="faint" x="{}" y="{}" text-anchor="end">{:.0f} µs, {:.0f} µs exposed</text>)",
        kLeft + kColumns, y + 16, one.total_us, one.exposed_us);
    y += kHead;
    const auto coarse = [&](const Bins& fine) {
      Bins bins(kColumns, until_us);
      bins.add(fine);
      return bins;
    };
    const auto strip = [&](std::string_view name, std::string_view style, const Bins& bins,
                           int lanes, double height) {
      put(R"(<text class="faint" x="{}" y="{}" text-anchor="end">{}</text>)", kLeft - 8,
          y + height / 2 + 4.5, name);
      put(R"(<rect class="ground" x="{}" y="{}" width="{:.1f}" height="{}"/>)", kLeft, y,
          one.total_us * dots_a_us, height);
      put(R"(<path class="{}" d="{}"/>)", style, area(bins, lanes, kLeft, 1, y + height, height));
      y += height + kGap;
    };
    for (const Row& row : one.rows) {
      if (row.used) strip(row.name, row.style, coarse(row.bins), row.lanes, kRow);
    }
    // What is exposed: full where less than half of all compute lanes are in tiles.
    const Bins tiles = coarse(one.tiles);
    Bins exposed(kColumns, until_us);
    const double column_us = until_us / static_cast<double>(kColumns);
    for (size_t i = 0; i < kColumns; ++i) {
      const double start = static_cast<double>(i) * column_us;
      const double in_run = std::min(column_us, one.total_us - start);
      if (in_run <= 0) break;
      if (tiles.share(i, one.lanes) < 0.5 * in_run / column_us) {
        exposed.add(start, start + column_us * 0.9999);
      }
    }
    strip("exposed", "exposed", exposed, 1, kStrip);
    y += 12;
  }
  std::string axis;
  double step = std::pow(10, std::floor(std::log10(until_us / 4)));
  for (const double factor : {5.0, 2.0}) {
    if (step * factor <= until_us / 4) {
      step *= factor;
      break;
    }
  }
  for (int i = 0; i * step <= until_us; ++i) {
    const double x = kLeft + i * step * dots_a_us;
    axis += fmt::format(
        R"(<line class="line" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)"
        R"(<text class="faint" x="{0:.1f}" y="{3}" text-anchor="middle">{4:g}{5}</text>)",
        x, kTop, y, y + 18, i * step, i == 0 ? " µs" : "");
    axis += '\n';
  }
  const double height = y + kAxis;
  return fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" )"
                     R"(height="{1}" role="img">)"
                     "\n<title>{2}</title>\n<style>{3}</style>\n"
                     R"(<text class="title" x="{4}" y="24">{2}</text>)"
                     "\n{5}{6}</svg>\n",
                     kLeft + static_cast<int>(kColumns) + kRight, height, escaped(title_), kStyle,
                     kLeft, axis, body);
}

}  // namespace stretto
