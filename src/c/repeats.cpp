// Calls that come again: objects are compared with those of the first, and the run is enqueued.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "c/sized.h"
#include "stretto/c_repeats.h"

namespace stretto::c {
namespace {

constexpr uint64_t kAlignment = 16;

// DLPack's, of version 1.
struct DlTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t num_dims;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t* shape;
  const int64_t* strides;  // null: contiguous
  uint64_t byte_offset;

  uint64_t address() const { return reinterpret_cast<uint64_t>(data) + byte_offset; }
};

bool is_contiguous(const DlTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t step = 1;
  for (int32_t i = tensor.num_dims; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != step) return false;
    step *= tensor.shape[i];
  }
  return true;
}

// What a tensor of every call is, wherever it lies.
struct Kind {
  explicit Kind(const DlTensor& tensor)
      : first(tensor), shape(tensor.shape, tensor.shape + tensor.num_dims) {
    num_bytes = uint64_t{tensor.bits} * tensor.lanes / 8;
    for (const int64_t size : shape) num_bytes *= static_cast<uint64_t>(size);
  }

  bool is_of(const DlTensor& tensor) const {
    return tensor.device_type == first.device_type && tensor.device_id == first.device_id &&
           tensor.code == first.code && tensor.bits == first.bits && tensor.lanes == first.lanes &&
           std::equal(shape.begin(), shape.end(), tensor.shape, tensor.shape + tensor.num_dims) &&
           is_contiguous(tensor);
  }

  DlTensor first;  // but for what it points to
  std::vector<int64_t> shape;
  uint64_t num_bytes;
};

struct Piece {
  uint64_t begin, end;

  bool overlaps(const Piece& other) const { return begin < other.end && other.begin < end; }
};

}  // namespace
}  // namespace stretto::c

struct stretto_repeat {
  explicit stretto_repeat(const stretto_repeat_request& asked);

  // Where inputs, or outputs, lie; nothing: they are not as they were. `kinds` of them.
  bool look(void* list, const std::vector<stretto::c::Kind>& kinds,
            std::vector<stretto::c::Piece>& pieces) const;
  bool takes(void* list, std::vector<stretto::c::Piece>& pieces) const;
  int run(void* input_list, void* output_list, void* stream) const;

 private:
  std::optional<stretto::c::DlTensor> view(void* list, size_t index) const;
  std::vector<stretto::c::Kind> kinds_of(void* list, size_t count, const char* what) const;
  // Those that the run is given, at these pieces.
  std::vector<stretto_call_tensor> at(const std::vector<stretto::c::Piece>& pieces) const;

  stretto_repeat_request asked_;
  stretto_objects objects_;
  std::vector<std::string> names_;
  std::vector<stretto_call_tensor> tensors_;
  std::vector<int32_t> places_;  // by input
  std::vector<stretto::c::Kind> inputs_, outputs_;
};

using namespace stretto;
using c::guarded, c::require;

stretto_repeat::stretto_repeat(const stretto_repeat_request& asked)
    : asked_(asked),
      objects_(c::sized(
          asked.objects, "request.objects",
          {"stretto_objects", offsetof(stretto_objects, types) + sizeof(asked.objects->types)})) {
  require(asked.run, "request.run");
  names_.reserve(asked.count);
  for (size_t i = 0; i < asked.count; ++i) {
    stretto_call_tensor one =
        c::sized(&require(asked.tensors, "request.tensors") + i, "request.tensors",
                 {"stretto_call_tensor", sizeof(stretto_call_tensor)});
    one.name = names_.emplace_back(c::text_of(one.name, "request.tensors.name")).c_str();
    tensors_.push_back(one);
  }
  inputs_ = kinds_of(asked.inputs, asked.num_inputs, "input");
  outputs_ = kinds_of(asked.outputs, asked.num_outputs, "output");
  if (outputs_.size() > tensors_.size()) throw UsageError("there are more outputs than tensors");
  const auto most = static_cast<int64_t>(tensors_.size() - outputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const int32_t place = (&require(asked.places, "request.places"))[i];
    if (place >= most || place < STRETTO_ADDED || (i == 0 && place == STRETTO_BEHIND)) {
      throw UsageError(
          fmt::format("input {} has place {}; 0 to {}, or what says why there is none, "
                      "was expected",
                      i, place, most - 1));
    }
    places_.push_back(place);
  }
}

std::vector<c::Kind> stretto_repeat::kinds_of(void* list, size_t count, const char* what) const {
  std::vector<c::Kind> kinds;
  for (size_t i = 0; i < count; ++i) {
    const auto tensor = view(list, i);
    if (!tensor || !c::is_contiguous(*tensor)) {
      throw UsageError(fmt::format("{} {} is no contiguous tensor of the types given", what, i));
    }
    kinds.emplace_back(*tensor);
  }
  return kinds;
}

std::optional<c::DlTensor> stretto_repeat::view(void* list, size_t index) const {
  void* object = objects_.item(list, static_cast<ptrdiff_t>(index));
  if (object == nullptr) {
    objects_.clear();
    return std::nullopt;
  }
  void* type = objects_.type(object);
  objects_.drop(type);
  if (type != objects_.types[0] && type != objects_.types[1]) return std::nullopt;
  c::DlTensor tensor{};
  if (objects_.view(object, &tensor) == 0) return tensor;
  objects_.clear();
  return std::nullopt;
}

bool stretto_repeat::look(void* list, const std::vector<c::Kind>& kinds,
                          std::vector<c::Piece>& pieces) const {
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto tensor = view(list, i);
    if (!tensor || !kinds[i].is_of(*tensor)) return false;
    pieces.push_back({tensor->address(), tensor->address() + kinds[i].num_bytes});
  }
  return true;
}

bool stretto_repeat::takes(void* list, std::vector<c::Piece>& pieces) const {
  if (!look(list, inputs_, pieces)) return false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (places_[i] >= 0 && pieces[i].begin % c::kAlignment != 0) return false;
    if (places_[i] == STRETTO_BEHIND && pieces[i].begin != pieces[i - 1].end) return false;
  }
  return true;
}

std::vector<stretto_call_tensor> stretto_repeat::at(const std::vector<c::Piece>& pieces) const {
  std::vector<stretto_call_tensor> tensors = tensors_;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (places_[i] >= 0) tensors[static_cast<size_t>(places_[i])].address = pieces[i].begin;
  }
  const size_t first = tensors.size() - outputs_.size();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    tensors[first + i].address = pieces[inputs_.size() + i].begin;
  }
  return tensors;
}

int stretto_repeat::run(void* input_list, void* output_list, void* stream) const {
  std::vector<c::Piece> pieces;
  pieces.reserve(inputs_.size() + outputs_.size());
  if (!takes(input_list, pieces) || !look(output_list, outputs_, pieces)) return STRETTO_OTHERWISE;
  for (size_t i = inputs_.size(); i < pieces.size(); ++i) {
    if (pieces[i].begin % c::kAlignment != 0) return STRETTO_OTHERWISE;
    for (size_t other = 0; other < i; ++other) {
      if (pieces[i].overlaps(pieces[other])) return STRETTO_OTHERWISE;
    }
  }
  const std::vector<stretto_call_tensor> tensors = at(pieces);
  void* unlocked = objects_.unlock();
  const int status =
      asked_.run(asked_.operation, asked_.rows, tensors.data(), tensors.size(), stream);
  objects_.lock(unlocked);
  return status;
}

int stretto_repeat_make(const stretto_repeat_request* request, stretto_repeat** repeat) {
  return guarded([&] {
    auto*& made = require(repeat, "repeat");
    made = nullptr;
    made = new stretto_repeat(
        c::sized(request, "request",
                 {"stretto_repeat_request",
                  offsetof(stretto_repeat_request, num_outputs) + sizeof(request->num_outputs)}));
  });
}

int stretto_repeat_close(stretto_repeat* repeat) {
  return guarded([&] { delete repeat; });
}

int stretto_repeat_takes(const stretto_repeat* repeat, void* inputs) {
  bool takes = false;
  const int status = guarded([&] {
    std::vector<c::Piece> pieces;
    takes = require(repeat, "repeat").takes(inputs, pieces);
  });
  return status == STRETTO_GOOD && !takes ? STRETTO_OTHERWISE : status;
}

int stretto_repeat_run(const stretto_repeat* repeat, void* inputs, void* outputs, void* stream) {
  int ended = STRETTO_GOOD;
  const int status =
      guarded([&] { ended = require(repeat, "repeat").run(inputs, outputs, stream); });
  return status == STRETTO_GOOD ? ended : status;
}
