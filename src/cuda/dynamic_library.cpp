#include "cuda/dynamic_library.h"

#include <dlfcn.h>

#include <vector>

#include "core/environment.h"

namespace stretto::cuda {

std::optional<DynamicLibrary> DynamicLibrary::open(std::span<const std::string> names,
                                                   std::span<const std::string> folders) {
  const auto try_open = [](const std::string& path) { return dlopen(path.c_str(), RTLD_NOW); };
  for (const std::string& name : names) {
    if (void* handle = try_open(name)) return DynamicLibrary(handle, name);
  }
  for (const std::string& folder : folders) {
    for (const std::string& name : names) {
      const std::string path = folder + "/" + name;
      if (void* handle = try_open(path)) return DynamicLibrary(handle, path);
    }
  }
  return std::nullopt;
}

void* DynamicLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

std::span<const std::string> toolkit_folders() {
  static const std::vector<std::string> folders = [] {
    std::vector<std::string> found;
    for (const std::string& root : {environment().cuda_home, std::string("/usr/local/cuda")}) {
      if (root.empty()) continue;
      found.push_back(root + "/lib64");
      found.push_back(root + "/lib");
    }
    return found;
  }();
  return folders;
}

const char* import_all(const DynamicLibrary& library, std::span<const Import> imports) {
  for (const Import& import : imports) {
    *import.function = library.find(import.symbol);
    if (*import.function == nullptr) return import.symbol;
  }
  return nullptr;
}

}  // namespace stretto::cuda
