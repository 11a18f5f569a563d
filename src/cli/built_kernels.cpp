#include "cli/built_kernels.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <vector>

#include "cli/kernel_headers.h"
#include "core/embedded_text.h"
#include "core/file.h"
#include "core/text.h"
#include "plan/kernel_calls.h"
#include "stretto/error.h"
#include "stretto/fibre/edge_kernels.h"

extern char** environ;

namespace stretto::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompiler = "c++";
constexpr size_t kMostSaid = 500, kMostSaidBytes = size_t{1} << 26;  // of what the compiler says

// A new folder that only this user can enter. It goes with what is in it, unless a signal ends the
// command before.
class Folder {
 public:
  Folder() {
    std::error_code error;
    const fs::path temporary = fs::temp_directory_path(error);
    if (error) throw SystemError("there is no folder for temporary files: TMPDIR names none");
    std::string name = (temporary / "stretto-kernels-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw SystemError(fmt::format("cannot make a folder {}: {}", name, std::strerror(errno)));
    }
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string at(const std::string& name) const { return (path_ / name).string(); }
  void write(const std::string& name, std::string_view text) const {
    fs::create_directories((path_ / name).parent_path());
    write_file(at(name), text);
  }

 private:
  fs::path path_;
};

// The status that it ended with, its words in `said`. Nothing is passed through a shell.
int run(const std::vector<std::string>& words, const std::string& said) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, said.c_str(),
                                   O_CREAT | O_WRONLY | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == ENOENT || failed == EACCES) {
    throw UsageError(fmt::format(
        "a kernel of the graph's own is compiled to be executed, and there is no C++ compiler {} "
        "on PATH: install one for C++20, or link the kernel to a program of your own "
        "(docs/device-language.md)",
        words[0]));
  }
  if (failed != 0) {
    throw SystemError(fmt::format("cannot start {}: {}", words[0], std::strerror(failed)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      throw SystemError(fmt::format("cannot wait for {}: {}", words[0], std::strerror(errno)));
    }
  }
  return status;
}

// A header includes nothing but Stretto's and the standard's: it lies alone.
std::string last_name(const EdgeKernel& kernel) {
  return fs::path(kernel.header).filename().string();
}

// The first of the compiler's errors, its place as the user knows it, and how many there are.
std::string first_error(const std::string& said, const std::string& folder) {
  constexpr std::string_view kError = "error:";
  std::string first;
  int count = 0;
  for (std::string_view line : split(said, '\n')) {
    if (line.find(kError) == std::string_view::npos || count++ > 0) continue;
    if (line.starts_with(folder)) line.remove_prefix(folder.size());
    first = line.substr(0, kMostSaid);
  }
  if (count == 0) return "its compiler ended without saying why";
  return count == 1 ? first : fmt::format("{} (and {} more)", first, count - 1);
}

void build(const EdgeKernel& kernel) {
  if (!kernel.source) throw UsageError(why_no_header(kernel));
  const Folder folder;
  for (const EmbeddedText& header : device_sources()) {
    folder.write(std::string("include/") + header.name, header.text);
  }
  for (const EmbeddedText& header : emulator_headers()) {
    folder.write(std::string("include/") + header.name, header.text);
  }
  folder.write("kernel/" + last_name(kernel), *kernel.source);
  folder.write("kernel.cpp",
               fmt::format("#include \"stretto/fibre/edge_kernels.h\"\n#include \"{}\"\n"
                           "using namespace stretto::device;\nSTRETTO_EDGE_KERNEL({})\n",
                           last_name(kernel), kernel.name));
  const std::string library = folder.at("kernel.so"), said = folder.at("said.txt");
  const int status =
      run({kCompiler, "-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-I" + folder.at("include"),
           "-I" + folder.at("kernel"), "-o", library, folder.at("kernel.cpp")},
          said);
  if (status != 0) {
    throw UsageError(fmt::format(
        "kernel {} of {} does not compile for the emulator: {}", kernel.name, quote(kernel.header),
        first_error(read_file(said, kMostSaidBytes), folder.at("kernel/"))));
  }
  // It stays, and registers the kernel while it is loaded.
  if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    throw SystemError(fmt::format("cannot load kernel {}: {}", kernel.name, dlerror()));
  }
}

}  // namespace

void build_kernels(const Plan& plan) {
  if (!any_kernel_calls(plan)) return;
  std::set<size_t> called;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) called.insert(instr.kernel());
  }
  called.erase(0);
  for (const size_t number : called) {
    const EdgeKernel& kernel = plan.op.kernels.at(number - 1);
    if (fibre::find_edge_kernel(kernel.name) == nullptr) build(kernel);
  }
}

}  // namespace stretto::cli
