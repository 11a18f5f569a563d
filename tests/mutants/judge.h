// The checker and the emulator judge one plan; they share no code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stretto/emulate.h"
#include "stretto/plan.h"

namespace stretto::mutants {

enum class Verdict : uint8_t {
  refused,   // it is no plan, or none that can be executed
  reported,  // by the checker
  harmless,  // clean, and right under every seed
  other,     // clean, and wrong: another function of the inputs, the same under every seed
  missed,    // clean, but stuck, faulty or different from seed to seed: the checker is wrong
};

class Judge {
 public:
  explicit Judge(uint64_t seeds) : seeds_(seeds) {}

  Verdict judge(const Plan& plan);
  // What went wrong with the last plan that was `missed`.
  const std::string& story() const { return story_; }

 private:
  Verdict emulate_all(const Plan& plan);

  uint64_t seeds_, first_seed_ = 0;
  std::string story_;
  std::shared_ptr<SharedReference> reference_ = make_shared_reference();
};

// Small plans of every operator and of schedules that differ in all that synchronisation hangs on.
struct Subject {
  std::string name;
  Plan plan;
};
std::vector<Subject> subjects();

// Whether every edit of every plan is wanted, not a sample.
bool wants_all();

}  // namespace stretto::mutants
