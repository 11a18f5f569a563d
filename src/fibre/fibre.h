// A function with its own stack that can be left in the middle and resumed.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>

namespace stretto::fibre {

// Stacks are kept for the next fibres of this host thread.
class StackPool {
 public:
  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack);
};

class Fibre {
 public:
  explicit Fibre(std::function<void()> body);
  ~Fibre();
  Fibre(const Fibre&) = delete;

  // Runs it until it yields or ends. The body must let no exception out.
  void resume();
  // Called inside the running fibre: goes back to whoever resumed it.
  void yield();
  bool done() const { return done_; }
  bool has_begun() const { return has_begun_; }
  // It is resumed no more, nor unwound, wherever it stands. Its stack is lost.
  void leave();

 private:
  // AddressSanitizer must know which stack the code runs on.
  void before_switch(void** fake_stack, const void* bottom, size_t num_bytes);
  void after_switch(void* fake_stack, const void** bottom, size_t* num_bytes);

  std::function<void()> body_;
  boost::context::stack_context stack_;
  boost::context::fiber fibre_;
  boost::context::fiber caller_;
  const void* caller_bottom_ = nullptr;
  size_t caller_bytes_ = 0;
  bool done_ = false;
  bool has_begun_ = false;
  bool is_left_ = false;
};

}  // namespace stretto::fibre
