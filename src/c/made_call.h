// A call that may come again: which tensors it takes, and how it is run with them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "c/given_tensors.h"
#include "stretto/c_repeats.h"

namespace stretto::c {

// A call that was made. It has what makes its outputs, and drops that where the language's lock is
// held: so does whoever lets go of it last.
struct Made {
  static constexpr uint64_t kAlignment = 16;

  Made(const stretto_objects& given, const stretto_repeat& call, std::vector<Kind> of_inputs,
       std::vector<Kind> of_outputs)
      : objects(given), asked(call), inputs(std::move(of_inputs)), outputs(std::move(of_outputs)) {}
  ~Made() {
    if (!is_kept) return;
    objects.drop(asked.make);
    objects.drop(asked.arguments);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  void keep() {
    objects.keep(asked.make);
    objects.keep(asked.arguments);
    is_kept = true;
  }

  const stretto_objects& objects;
  stretto_repeat asked;
  std::vector<std::string> names;
  std::vector<stretto_call_tensor> tensors;
  std::vector<int32_t> places;  // by input
  std::vector<Kind> inputs, outputs;
  bool is_kept = false;

  bool takes(const Tensors& given) const {
    if (!given.are(inputs)) return false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint64_t at = given[i].address();
      if (places[i] >= 0 && at % kAlignment != 0) return false;
      if (places[i] == STRETTO_BEHIND && at != given[i - 1].address() + inputs[i - 1].num_bytes) {
        return false;
      }
    }
    return true;
  }

  // Whether the results can be written there.
  bool writes(const Tensors& given, const Tensors& results) const {
    if (!results.are(outputs)) return false;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const uint64_t at = results[i].address();
      const auto overlaps = [&](const DlTensor& other, const Kind& kind) {
        return at < other.address() + kind.num_bytes && other.address() < at + outputs[i].num_bytes;
      };
      if (at % kAlignment != 0) return false;
      for (size_t j = 0; j < inputs.size(); ++j) {
        if (overlaps(given[j], inputs[j])) return false;
      }
      for (size_t j = 0; j < i; ++j) {
        if (overlaps(results[j], outputs[j])) return false;
      }
    }
    return true;
  }

  int run(const Tensors& given, const Tensors& results, void* stream) const {
    std::vector<stretto_call_tensor> at = tensors;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (places[i] >= 0) at[static_cast<size_t>(places[i])].address = given[i].address();
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      at[at.size() - outputs.size() + i].address = results[i].address();
    }
    return asked.run(asked.operation, asked.rows, at.data(), at.size(), stream);
  }
};

}  // namespace stretto::c
