#include "fibre/fibre.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "stretto/error.h"

#if defined(__SANITIZE_ADDRESS__)
#define STRETTO_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STRETTO_ASAN 1
#endif
#endif
#ifdef STRETTO_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace stretto::fibre {
namespace {

namespace context = boost::context;

#ifdef STRETTO_ASAN
constexpr size_t kStackBytes = 256 << 10;  // its frames are larger
#else
constexpr size_t kStackBytes = 64 << 10;
#endif

// Below a stack lies a page that nobody may touch: a kernel that needs more ends the process there
// instead of writing into another thread's memory. Each costs the process two of its 65530
// mappings, so a world of very many threads has some without.
constexpr int kMostGuards = 8192;
std::atomic<int> all_guards = 0;

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

struct FreeStacks {
  std::vector<context::stack_context> stacks;
  int guards = 0;

  context::stack_context make() {
    const size_t guard = page_bytes();
    void* const base = mmap(nullptr, guard + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    if (all_guards < kMostGuards && mprotect(base, guard, PROT_NONE) == 0) {
      ++guards;
      ++all_guards;
    }
    context::stack_context stack;
    stack.size = kStackBytes;
    stack.sp = static_cast<char*>(base) + guard + kStackBytes;
    return stack;
  }
  ~FreeStacks() {
    for (const auto& stack : stacks) {
      const size_t num_bytes = page_bytes() + stack.size;
      munmap(static_cast<char*>(stack.sp) - num_bytes, num_bytes);
    }
    all_guards -= guards;
  }
};

FreeStacks& free_stacks() {
  thread_local FreeStacks stacks;
  return stacks;
}

// Gives boost a stack that the Fibre owns.
struct Borrowed {
  context::stack_context stack;
  context::stack_context allocate() { return stack; }
  void deallocate(context::stack_context&) {}
};

}  // namespace

context::stack_context StackPool::allocate() {
  FreeStacks& free = free_stacks();
  if (free.stacks.empty()) return free.make();
  auto stack = free.stacks.back();
  free.stacks.pop_back();
  return stack;
}

void StackPool::deallocate(context::stack_context& stack) { free_stacks().stacks.push_back(stack); }

Fibre::Fibre(std::function<void()> body) : body_(std::move(body)), stack_(StackPool().allocate()) {
  fibre_ = context::fiber(std::allocator_arg, Borrowed{stack_}, [this](context::fiber&& caller) {
    caller_ = std::move(caller);
    after_switch(nullptr, &caller_bottom_, &caller_bytes_);
    body_();
    done_ = true;
    before_switch(nullptr, caller_bottom_, caller_bytes_);
    return std::move(caller_);
  });
}

Fibre::~Fibre() {
  if (!is_left_) StackPool().deallocate(stack_);
}

void Fibre::leave() {
  // boost would unwind what nobody holds.
  static std::mutex mutex;
  static auto& left = *new std::vector<context::fiber>;
  const std::lock_guard lock(mutex);
  left.push_back(std::move(fibre_));
  is_left_ = true;
}

void Fibre::resume() {
  has_begun_ = true;
  void* fake_stack = nullptr;
  const char* bottom = static_cast<const char*>(stack_.sp) - stack_.size;
  before_switch(&fake_stack, bottom, stack_.size);
  fibre_ = std::move(fibre_).resume();
  after_switch(fake_stack, nullptr, nullptr);
}

void Fibre::yield() {
  void* fake_stack = nullptr;
  before_switch(&fake_stack, caller_bottom_, caller_bytes_);
  caller_ = std::move(caller_).resume();
  after_switch(fake_stack, &caller_bottom_, &caller_bytes_);
}

#ifdef STRETTO_ASAN
void Fibre::before_switch(void** fake_stack, const void* bottom, size_t num_bytes) {
  __sanitizer_start_switch_fiber(fake_stack, bottom, num_bytes);
}
void Fibre::after_switch(void* fake_stack, const void** bottom, size_t* num_bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, bottom, num_bytes);
}
#else
void Fibre::before_switch(void**, const void*, size_t) {}
void Fibre::after_switch(void*, const void**, size_t*) {}
#endif

}  // namespace stretto::fibre
