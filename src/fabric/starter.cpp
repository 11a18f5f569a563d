#include "fabric/starter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace stretto::fabric {
namespace {

std::string content_of(int pid, const char* name) {
  std::ifstream file(fmt::format("/proc/{}/{}", pid, name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Ancestor {
  int parent = 0;
  std::string started;  // in ticks since the machine came up
};

// "12 (a name) S 1 ...": the parent is the second field behind the name, the start the twentieth.
std::optional<Ancestor> look_at(int pid) {
  const std::string text = content_of(pid, "stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  Ancestor found;
  fields >> state >> found.parent;
  constexpr int kBetween = 17;
  for (int i = 0; i <= kBetween; ++i) fields >> found.started;
  if (!fields) return std::nullopt;
  return found;
}

// What it was started with. Another user's cannot be read: that user did not start it for this job.
bool was_given(int pid, const char* variable) {
  const std::string all = '\0' + content_of(pid, "environ");
  return all.find('\0' + std::string(variable) + '=') != std::string::npos;
}

}  // namespace

std::string starter_of(const char* variable) {
  constexpr int kMostLevels = 64;
  int pid = getppid();
  for (int level = 0; level < kMostLevels && pid > 1; ++level) {
    const auto ancestor = look_at(pid);
    if (!ancestor) return "";
    if (!was_given(pid, variable)) return fmt::format("{}-{}", pid, ancestor->started);
    pid = ancestor->parent;
  }
  return "";
}

}  // namespace stretto::fabric
