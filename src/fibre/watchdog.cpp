#include "fibre/watchdog.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace stretto::fibre {
namespace {

thread_local void (*tick)() = nullptr;

int tick_signal() { return SIGRTMIN + 7; }

void on_signal(int) {
  const int error = errno;
  if (tick != nullptr) tick();
  errno = error;
}

bool install_handler() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  // A tick may leave by a switch of stacks, and the signal is not to stay blocked then.
  action.sa_flags = SA_RESTART | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  return sigaction(tick_signal(), &action, nullptr) == 0;
}

// The timer of one OS thread.
class Timer {
 public:
  Timer() {
    static const bool is_installed = install_handler();
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = tick_signal();
    event.sigev_notify_thread_id = static_cast<int>(syscall(SYS_gettid));
    is_made_ = is_installed && timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
  }
  ~Timer() {
    if (is_made_) timer_delete(timer_);
  }
  Timer(const Timer&) = delete;

  void set(double seconds) {
    const timespec period{0, static_cast<long>(seconds * 1e9)};
    const itimerspec times{period, period};
    if (is_made_) timer_settime(timer_, 0, &times, nullptr);
  }

 private:
  timer_t timer_ = {};
  bool is_made_ = false;
};

Timer& timer() {
  thread_local Timer timer;
  return timer;
}

}  // namespace

Ticks::Ticks(void (*on_tick)()) {
  tick = on_tick;
  timer().set(kSeconds);
}

Ticks::~Ticks() {
  timer().set(0);
  tick = nullptr;
}

}  // namespace stretto::fibre
