#include "fibre/fibre.h"

#include <boost/context/fixedsize_stack.hpp>
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

struct FreeStacks {
  std::vector<context::stack_context> stacks;
  context::fixedsize_stack make{kStackBytes};
  ~FreeStacks() {
    for (auto& stack : stacks) make.deallocate(stack);
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
  if (free.stacks.empty()) return free.make.allocate();
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

Fibre::~Fibre() { StackPool().deallocate(stack_); }

void Fibre::resume() {
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
