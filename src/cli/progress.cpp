#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace stretto::cli {
namespace {

constexpr auto kFirstDraw = std::chrono::milliseconds(300);  // short work shows nothing
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kBarWidth = 30;

}  // namespace

Progress::Progress()
    : enabled_(::isatty(STDERR_FILENO) == 1),
      next_draw_(std::chrono::steady_clock::now() + kFirstDraw) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(const std::string& doing, double share) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedraw;
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  const std::string line =
      fmt::format("\r\x1b[K[{:#<{}}{:.<{}}] {:3.0f}%  {}", "", filled, "", kBarWidth - filled,
                  100 * std::clamp(share, 0.0, 1.0), doing);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace stretto::cli
