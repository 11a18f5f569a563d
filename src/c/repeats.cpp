// Calls that come again: objects are compared with those of calls before, and the run is enqueued.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "c/given_tensors.h"
#include "c/made_call.h"
#include "c/sized.h"
#include "stretto/c_repeats.h"

using namespace stretto;
using c::guarded, c::require, c::Made, c::Tensors;

struct stretto_repeats {
  explicit stretto_repeats(const stretto_objects& given) : objects(given) {}
  stretto_repeats(const stretto_repeats&) = delete;
  stretto_repeats& operator=(const stretto_repeats&) = delete;

  bool look(void* list, Tensors& tensors) const;
  std::vector<c::Kind> kinds_of(void* list, const char* what) const;
  void add(const stretto_repeat& asked);
  std::shared_ptr<const Made> find(const Tensors& given) const;
  void* call(void* input_list, void* output_list, void* stream) const;
  void* new_outputs(const Made& one) const;

  stretto_objects objects;
  // By the hash of inputs. Shared with calls: while one runs, or makes its outputs, other threads
  // have the language's lock, and may add another in its place.
  std::unordered_multimap<uint64_t, std::shared_ptr<const Made>> made;
};

// False: something in the list is no tensor of the types given.
bool stretto_repeats::look(void* list, Tensors& tensors) const {
  const ptrdiff_t length = objects.length(list);
  for (ptrdiff_t i = 0; i < length; ++i) {
    void* object = objects.item(list, i);
    void* type = objects.type(object);
    objects.drop(type);
    if (tensors.is_full() || (type != objects.types[0] && type != objects.types[1])) return false;
    c::DlTensor tensor{};
    if (objects.view(object, &tensor) != 0) {
      objects.clear();
      return false;
    }
    tensors.add(tensor);
  }
  if (length < 0) objects.clear();
  return length >= 0;
}

std::vector<c::Kind> stretto_repeats::kinds_of(void* list, const char* what) const {
  Tensors tensors;
  if (!look(list, tensors)) {
    throw UsageError(
        fmt::format("{}: what is no tensor of the types given is among them, or more "
                    "than {} are",
                    what, c::kMostTensors));
  }
  std::vector<c::Kind> kinds;
  for (const c::DlTensor& tensor : tensors.all()) {
    if (!c::is_contiguous(tensor)) {
      throw UsageError(fmt::format("{}: number {} is not contiguous", what, kinds.size()));
    }
    kinds.emplace_back(tensor);
  }
  return kinds;
}

void stretto_repeats::add(const stretto_repeat& asked) {
  const auto made_one = std::make_shared<Made>(objects, asked, kinds_of(asked.inputs, "inputs"),
                                               kinds_of(asked.outputs, "outputs"));
  Made& one = *made_one;
  require(asked.run, "repeat.run");
  one.names.reserve(asked.count);  // names stay where they are
  for (size_t i = 0; i < asked.count; ++i) {
    stretto_call_tensor tensor =
        c::sized(&require(asked.tensors, "repeat.tensors") + i, "repeat.tensors",
                 {"stretto_call_tensor", sizeof(stretto_call_tensor)});
    tensor.name = one.names.emplace_back(c::text_of(tensor.name, "repeat.tensors.name")).c_str();
    one.tensors.push_back(tensor);
  }
  if (one.outputs.size() > asked.count) throw UsageError("there are more outputs than tensors");
  if (asked.make == nullptr) c::refuse_null("repeat.make");
  if (asked.arguments == nullptr) c::refuse_null("repeat.arguments");
  if (objects.length(asked.arguments) != static_cast<ptrdiff_t>(one.outputs.size())) {
    objects.clear();
    throw UsageError("repeat.arguments has another length than repeat.outputs: one for each");
  }
  const auto most = static_cast<int64_t>(asked.count - one.outputs.size());
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const int32_t place = (&require(asked.places, "repeat.places"))[i];
    if (place >= most || place < STRETTO_ADDED || (i == 0 && place == STRETTO_BEHIND)) {
      throw UsageError(fmt::format(
          "input {} has place {}; 0 to {}, or what says why there is none, was expected", i, place,
          most - 1));
    }
    one.places.push_back(place);
  }
  Tensors given;
  look(asked.inputs, given);
  const uint64_t hash = given.hash();
  one.keep();
  std::shared_ptr<const Made> before;  // which goes when nothing here is half done
  const auto [begin, end] = made.equal_range(hash);
  for (auto at = begin; at != end && !before; ++at) {
    if (given.are(at->second->inputs)) before = std::exchange(at->second, made_one);
  }
  if (!before) made.emplace(hash, made_one);
}

std::shared_ptr<const Made> stretto_repeats::find(const Tensors& given) const {
  const auto [begin, end] = made.equal_range(given.hash());
  for (auto at = begin; at != end; ++at) {
    if (at->second->takes(given)) return at->second;
  }
  return nullptr;
}

void* stretto_repeats::new_outputs(const Made& one) const {
  const auto length = static_cast<ptrdiff_t>(one.outputs.size());
  void* list = objects.list(length);
  for (ptrdiff_t i = 0; list != nullptr && i < length; ++i) {
    void* output = objects.call(one.asked.make, objects.item(one.asked.arguments, i), nullptr);
    if (output == nullptr) {
      objects.drop(list);
      return nullptr;
    }
    objects.put(list, i, output);
  }
  return list;
}

void* stretto_repeats::call(void* input_list, void* output_list, void* stream) const {
  const auto otherwise = [&] {
    objects.keep(objects.none);
    return objects.none;
  };
  Tensors given, results;
  const auto one = look(input_list, given) ? find(given) : nullptr;
  if (one == nullptr) return otherwise();
  if (output_list == objects.none) {
    output_list = new_outputs(*one);
  } else {
    objects.keep(output_list);
  }
  if (output_list == nullptr) return nullptr;
  if (!look(output_list, results) || !one->writes(given, results)) {
    objects.drop(output_list);
    return otherwise();
  }
  void* unlocked = objects.unlock();
  int status = STRETTO_GOOD;
  if (const int failed = guarded([&] { status = one->run(given, results, stream); })) {
    status = failed;
  }
  objects.lock(unlocked);
  if (status == STRETTO_GOOD) return output_list;
  objects.drop(output_list);
  objects.fail(status == STRETTO_BAD_USAGE ? objects.usage_error : objects.system_fault,
               stretto_last_error());
  return nullptr;
}

int stretto_repeats_make(const stretto_objects* objects, stretto_repeats** repeats) {
  return guarded([&] {
    auto*& made = require(repeats, "repeats");
    made = nullptr;
    made = new stretto_repeats(
        c::sized(objects, "objects",
                 {"stretto_objects", offsetof(stretto_objects, system_fault) + sizeof(void*)}));
  });
}

int stretto_repeats_close(stretto_repeats* repeats) {
  return guarded([&] { delete repeats; });
}

int stretto_repeats_add(stretto_repeats* repeats, const stretto_repeat* repeat) {
  return guarded([&] {
    require(repeats, "repeats")
        .add(c::sized(
            repeat, "repeat",
            {"stretto_repeat", offsetof(stretto_repeat, arguments) + sizeof(repeat->arguments)}));
  });
}

int stretto_repeats_takes(const stretto_repeats* repeats, void* inputs) {
  Tensors given;
  return repeats->look(inputs, given) && repeats->find(given) != nullptr ? 1 : 0;
}

void* stretto_repeats_call(const stretto_repeats* repeats, void* inputs, void* outputs,
                           void* stream) {
  return repeats->call(inputs, outputs, stream);
}
