// What the processes of a job say to each other: frames of a type and a bounded body.
//
//   to the server    hello, gather, leave
//   from the server  welcome, refused, all, failed
//
// Numbers are little endian as on every machine with an NVIDIA GPU. Whatever comes from outside is
// read through FrameReader, which knows how much there is.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "fabric/host_group.h"

namespace stretto::fabric {

inline constexpr int kMaxProcesses = 1024;
inline constexpr size_t kSecretBytes = 64;
// What one process may send in one frame, and a stranger before it has proved itself.
inline constexpr uint32_t kMaxFrameBytes = kMaxMessageBytes + 4096;
inline constexpr uint32_t kHelloBytes = kSecretBytes + 16;

inline constexpr std::string_view kWrongSecret = "wrong job secret";

enum class FrameType : uint32_t {
  hello = 0x5354'5231,
  gather,
  leave,
  welcome,
  refused,
  all,
  failed,
};

struct FrameHeader {
  FrameType type;
  uint32_t num_bytes;  // of the body
};

class FrameWriter {
 public:
  FrameWriter& number(uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  FrameWriter& text(std::string_view value) {
    number(value.size());
    bytes_ += value;
    return *this;
  }
  FrameWriter& raw(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  std::string frame(FrameType type) const {
    const FrameHeader header{type, static_cast<uint32_t>(bytes_.size())};
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + bytes_;
  }

 private:
  std::string bytes_;
};

// Reads what a writer wrote; after anything else `good` is false and all values are empty.
class FrameReader {
 public:
  explicit FrameReader(std::string_view bytes) : left_(bytes) {}

  uint64_t number() {
    const std::string_view bytes = raw(sizeof(uint64_t));
    uint64_t value = 0;
    if (good_) std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
  std::string_view text() {
    const uint64_t size = number();
    return raw(size);
  }
  std::string_view raw(uint64_t size) {
    if (size > left_.size()) good_ = false;
    if (!good_) return {};
    const std::string_view bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return bytes;
  }
  bool good() const { return good_; }
  bool at_end() const { return good_ && left_.empty(); }

 private:
  std::string_view left_;
  bool good_ = true;
};

}  // namespace stretto::fabric
