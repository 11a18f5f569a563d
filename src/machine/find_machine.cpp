#include "machine/find_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "core/embedded_text.h"
#include "core/environment.h"
#include "core/file.h"
#include "core/json_path.h"
#include "core/text.h"
#include "machine/figures.h"
#include "stretto/error.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

// The user's folders; the shipped machines are inside the binary.
std::vector<fs::path> folders() {
  std::vector<fs::path> found;
  for (std::string_view folder : split(environment().machine_path, ':')) {
    if (!folder.empty()) found.emplace_back(folder);
  }
  return found;
}

// A folder that cannot be read holds no machines.
void add_names(const fs::path& folder, std::vector<std::string>& names) {
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const fs::path& path = it->path();
    if (path.extension() == ".json" && is_machine_name(path.stem().string())) {
      names.push_back(path.stem().string());
    }
  }
}

// What may be why a machine is not known.
std::string no_folders() {
  std::string said;
  std::error_code ignored;
  for (const fs::path& folder : folders()) {
    if (fs::is_directory(folder, ignored)) continue;
    said += fmt::format("; STRETTO_MACHINE_PATH names {}, which is no folder",
                        quote(folder.string(), 200));
  }
  return said;
}

// Empty: it is in none.
std::string file_in_folders(std::string_view name) {
  if (!is_machine_name(name)) return "";
  for (const fs::path& folder : folders()) {
    const std::string path = (folder / fmt::format("{}.json", name)).string();
    std::error_code ignored;  // a link that leads nowhere is there: reading says what is wrong
    if (fs::exists(fs::symlink_status(path, ignored))) return path;
  }
  return "";
}

}  // namespace

bool is_machine_name(std::string_view name) {
  if (name.empty() || name.size() > 64 || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

std::string machine_file_of(std::string_view name) {
  return is_json_path(name) ? std::string(name) : file_in_folders(name);
}

MachineFile read_machine_file(std::string_view name) {
  if (!is_json_path(name)) return read_machine_named(name);
  const std::string path(name);
  return {read_regular_file(path, kMostMachineBytes), path};
}

MachineFile read_machine_named(std::string_view name) {
  const std::string path = file_in_folders(name);
  if (!path.empty()) return {read_regular_file(path, kMostMachineBytes), path};
  const std::string file_name = fmt::format("{}.json", name);
  for (const EmbeddedText& shipped : shipped_machines()) {
    if (is_machine_name(name) && shipped.name == file_name) return {shipped.text, file_name};
  }
  const std::vector<std::string> names = machine_names();
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw UsageError(unknown_word("machine", name, known) + no_folders());
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const fs::path& folder : folders()) add_names(folder, names);
  for (const EmbeddedText& shipped : shipped_machines()) {
    names.push_back(fs::path(shipped.name).stem().string());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Machine load_machine(std::string_view name) {
  const MachineFile file = read_machine_file(name);
  return load_machine_text(file.text, file.name);
}

Machine default_machine(int ranks) {
  Machine machine = load_machine(ranks <= 8 ? "h200x8" : "h200x16");
  if (ranks > machine.ranks()) {
    machine.nodes = (ranks + machine.ranks_per_node - 1) / machine.ranks_per_node;
    machine.name = fmt::format("h200x{}", machine.ranks());
    machine.description = fmt::format("{} nodes of 8 x H200, as h200x16", machine.nodes);
  }
  return machine;
}

}  // namespace stretto
