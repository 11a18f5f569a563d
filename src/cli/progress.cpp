#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace stretto::cli {
namespace {

constexpr auto kFirstDraw = std::chrono::milliseconds(300);  // short work shows nothing
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kBarWidth = 30;

}  // namespace

Progress::Progress() : begin_(std::chrono::steady_clock::now()) {
  if (::isatty(STDERR_FILENO) != 1) return;
  try {
    drawer_ = std::thread(&Progress::keep_drawing, this);
  } catch (const std::system_error&) {  // no more threads: the work matters more
  }
}

Progress::~Progress() {
  if (!drawer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_one();
  drawer_.join();
  if (!drawn_.empty()) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(const std::string& doing, double share) {
  const std::lock_guard lock(mutex_);
  doing_ = doing;
  share_ = std::clamp(share, 0.0, 1.0);
}

void Progress::keep_drawing() {
  std::unique_lock lock(mutex_);
  auto next = begin_ + kFirstDraw;
  while (!ended_.wait_until(lock, next, [this] { return is_ended_; })) {
    if (!doing_.empty()) draw();
    next = std::chrono::steady_clock::now() + kRedraw;
  }
}

void Progress::draw() {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin_)
          .count();
  const int filled = static_cast<int>(share_ * kBarWidth);
  std::string line = fmt::format("\r\x1b[K[{:#<{}}{:.<{}}] {:3.0f}%  {}  {} s", "", filled, "",
                                 kBarWidth - filled, 100 * share_, doing_, seconds);
  if (line == drawn_) return;
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  drawn_ = std::move(line);
}

}  // namespace stretto::cli
