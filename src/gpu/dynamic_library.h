// Shared libraries found at run time, so that one binary serves machines with and without a GPU.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace stretto::cuda {

class DynamicLibrary {
 public:
  // The first of `names` that loads, looked for as the system does and then in `folders`.
  static std::optional<DynamicLibrary> open(std::span<const std::string> names,
                                            std::span<const std::string> folders);

  // The symbol's address, or nullptr.
  void* find(const char* symbol) const;
  const std::string& path() const { return path_; }
  // What its linker called exactly this build, in hexadecimal digits; empty where it called it
  // nothing. `symbol` is one of the library's own.
  std::string build_id(const char* symbol) const;

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;      // never closed: drivers do not survive being unloaded
  std::string path_;  // the name it was opened by
};

// Folders in which CUDA toolkits keep their libraries, the user's own choice first.
std::span<const std::string> toolkit_folders();

// Fills a table of function pointers; returns the first missing symbol, or nullptr.
struct Import {
  const char* symbol;
  void** function;
};
const char* import_all(const DynamicLibrary& library, std::span<const Import> imports);

}  // namespace stretto::cuda
