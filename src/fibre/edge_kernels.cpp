#include "stretto/fibre/edge_kernels.h"

#include <map>
#include <mutex>

namespace stretto::fibre {
namespace {

// Filled while a program starts, before anything of this file is sure to be there.
struct Registry {
  std::mutex mutex;
  std::map<std::string, EdgeKernelFunction, std::less<>> kernels;
};

Registry& registry() {
  static Registry* const all = new Registry;  // programs may look until they end
  return *all;
}

}  // namespace

EdgeKernelFunction find_edge_kernel(std::string_view name) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().kernels.find(name);
  return found == registry().kernels.end() ? nullptr : found->second;
}

void register_edge_kernel(const std::string& name, EdgeKernelFunction kernel) {
  const std::lock_guard lock(registry().mutex);
  registry().kernels[name] = kernel;
}

}  // namespace stretto::fibre
