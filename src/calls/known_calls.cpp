#include "calls/known_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "op/call_rows.h"
#include "stretto/error.h"

namespace stretto::runtime {
void KnownCalls::require_on_gpu(const std::string& tensor, cuda::DevicePtr begin,
                                cuda::DevicePtr end, const cuda::Device& device) {
  constexpr size_t kMostPieces = 32;
  for (const cuda::DevicePtr at : {begin, end - 1}) {
    if (std::ranges::any_of(pieces_, [&](const cuda::Piece& piece) { return piece.has(at); })) {
      continue;
    }
    const std::string why = cuda::why_not_memory_of(device, at);
    if (!why.empty()) {
      throw UsageError(fmt::format(
          "tensor {} of {} bytes at {:#x}: {} {}; give memory of GPU {}, on which the rank runs",
          tensor, end - begin, begin, at == begin ? "it is" : "its end is", why, device.index()));
    }
    const cuda::Piece piece = cuda::piece_at(at);
    if (!piece.has(at)) continue;
    if (pieces_.size() == kMostPieces) pieces_.clear();
    pieces_.push_back(piece);
  }
}

void KnownCalls::require_good(const CallTensors& tensors, const cuda::Device& device, int rank,
                              cuda::CallPlaces places, cuda::DevicePtr rows_at) {
  const cuda::CallPlaces own = places.first(tensors.all().size());
  uint64_t sum = rows_at;
  const auto add = [&](uint64_t number) { sum = (sum ^ number) * 0x9e3779b97f4a7c15; };
  for (const cuda::CallPlace& place : own) {
    add(place.address);
    add(place.row_bytes);
    add(static_cast<uint64_t>(place.rows));
  }
  Key& known = known_[sum >> 56];
  const auto is_known = [&] {
    if (known.size() != own.size() * 3 + 1 || known.back() != rows_at) return false;
    for (size_t i = 0; i < own.size(); ++i) {
      if (known[3 * i] != own[i].address || known[3 * i + 1] != own[i].row_bytes ||
          known[3 * i + 2] != static_cast<uint64_t>(own[i].rows)) {
        return false;
      }
    }
    return true;
  };
  if (is_known()) return;
  std::vector<PlacedTensor> all;
  for (size_t i = 0; i < own.size(); ++i) {
    const CallTensors::Tensor& tensor = tensors.all()[i];
    const CallRows rows{own[i].address, own[i].row_bytes, tensors.row_bytes(i, rank), own[i].rows};
    all.push_back({tensor.name, rows, tensor.is_output});
    if (!rows.empty()) require_on_gpu(tensor.name, rows.begin, rows.end(), device);
  }
  require_apart(all);
  if (rows_at != 0 && !cuda::reaches(rows_at)) {
    throw UsageError(fmt::format(
        "a run's rows at {:#x}: no GPU reaches that memory; give an int32 in GPU memory", rows_at));
  }
  known.clear();
  for (const cuda::CallPlace& place : own) {
    known.insert(known.end(), {place.address, place.row_bytes, static_cast<uint64_t>(place.rows)});
  }
  known.push_back(rows_at);
}

}  // namespace stretto::runtime
