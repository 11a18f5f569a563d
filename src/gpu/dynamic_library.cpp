#include "gpu/dynamic_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <string_view>
#include <vector>

#include "core/environment.h"

namespace stretto::cuda {
namespace {

// The build id among a library's notes.
std::string find_build_id(const char* at, size_t num_bytes) {
  const auto padded = [](size_t size) { return (size + 3) / 4 * 4; };
  while (num_bytes >= sizeof(ElfW(Nhdr))) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
    const size_t name = sizeof(*note), content = name + padded(note->n_namesz);
    const size_t end = content + padded(note->n_descsz);
    if (end > num_bytes) break;
    if (note->n_type == NT_GNU_BUILD_ID &&
        std::string_view(at + name, note->n_namesz) == std::string_view(ELF_NOTE_GNU, 4)) {
      std::string text;
      for (size_t i = 0; i < note->n_descsz; ++i) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(at[content + i]));
      }
      return text;
    }
    at += end;
    num_bytes -= end;
  }
  return "";
}

}  // namespace

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

std::string DynamicLibrary::build_id(const char* symbol) const {
  struct Search {
    const void* base = nullptr;  // of the library
    std::string found;
  } search;
  Dl_info info{};
  if (void* address = find(symbol); address == nullptr || dladdr(address, &info) == 0) return "";
  search.base = info.dli_fbase;
  const auto look = [](dl_phdr_info* library, size_t, void* data) {
    Search& in = *static_cast<Search*>(data);
    const auto base = reinterpret_cast<const char*>(library->dlpi_addr);
    if (base != in.base) return 0;
    for (int i = 0; i < library->dlpi_phnum && in.found.empty(); ++i) {
      const ElfW(Phdr)& part = library->dlpi_phdr[i];
      if (part.p_type == PT_NOTE) in.found = find_build_id(base + part.p_vaddr, part.p_memsz);
    }
    return 1;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

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
