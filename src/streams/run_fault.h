// Why runs of a plan did not end as they should.
#pragma once

#include <optional>
#include <string>

#include "stretto/error.h"
#include "stretto/plan.h"

namespace stretto::runtime {

class RunFault : public SystemError {
 public:
  explicit RunFault(const std::string& text, const std::optional<InstrRef>& where = std::nullopt)
      : SystemError(text), where_(where) {}

  // The instruction that the text is about, where one is known: what plans are read from has a line
  // for it.
  const std::optional<InstrRef>& where() const { return where_; }

 private:
  std::optional<InstrRef> where_;
};

}  // namespace stretto::runtime
