#include "gpu/memory_owner.h"

#include <fmt/format.h>

namespace stretto::cuda {
namespace {

struct Owner {
  unsigned kind = 0;  // of memory; 0: the driver does not know it
  int managed = 0, device = 0;
};

Owner owner_of(DevicePtr at) {
  Owner owner;
  int which[] = {kPointerMemoryKind, kPointerIsManaged, kPointerDevice};
  void* answers[] = {&owner.kind, &owner.managed, &owner.device};
  check(driver().pointer_attributes(3, which, answers, at), "ask whose memory an address is");
  return owner;
}

}  // namespace

std::string why_not_memory_of(const Device& device, DevicePtr at) {
  const Owner owner = owner_of(at);
  if (owner.managed != 0) return "";
  if (owner.kind == 0) return "no memory that CUDA knows, so perhaps the host's";
  if (owner.kind == kMemoryHost) return "the host's memory";
  return owner.device == device.id() ? "" : fmt::format("memory of GPU {}", owner.device);
}

Piece piece_at(DevicePtr at) {
  Piece piece;
  size_t num_bytes = 0;
  if (driver().address_range(&piece.begin, &num_bytes, at) != kSuccess) return {};
  piece.end = piece.begin + num_bytes;
  return piece;
}

bool reaches(DevicePtr at) { return owner_of(at).kind != 0; }

}  // namespace stretto::cuda
