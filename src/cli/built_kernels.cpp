#include "cli/built_kernels.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "cli/child.h"
#include "cli/kernel_headers.h"
#include "core/compile_errors.h"
#include "core/embedded_text.h"
#include "core/file.h"
#include "core/text.h"
#include "plan/kernel_calls.h"
#include "stretto/error.h"
#include "stretto/fibre/edge_kernels.h"

namespace stretto::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompiler = "c++";
constexpr size_t kMostSaidBytes = size_t{1} << 26;  // of what the compiler says

// A new folder that only this user can enter. It goes with what is in it.
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

void build(const EdgeKernel& kernel) {
  if (!kernel.source) throw UsageError(why_no_header(kernel));
  Child child;  // a signal that comes meanwhile ends the command when the folder is gone
  const Folder folder;
  for (const EmbeddedText& header : device_sources()) {
    folder.write(std::string("include/") + header.name, header.text);
  }
  for (const EmbeddedText& header : emulator_headers()) {
    folder.write(std::string("include/") + header.name, header.text);
  }
  // The compiler names the user's files, and lines in them.
  folder.write("kernel.cpp", fmt::format("#include \"stretto/fibre/edge_kernels.h\"\n"
                                         "#line 1 \"{}\"\n{}\n"
                                         "#line 1 \"the graph's kernel {}\"\n"
                                         "using namespace stretto::device; "
                                         "STRETTO_EDGE_KERNEL({})\n",
                                         kernel.header, *kernel.source, kernel.name, kernel.name));
  const std::string library = folder.at("kernel.so"), said = folder.at("said.txt");
  const int status =
      child.run({kCompiler, "-std=c++20", "-O1", "-fPIC", "-shared", "-w",
                 "-I" + folder.at("include"), "-o", library, folder.at("kernel.cpp")},
                said);
  if (status < 0) {
    throw UsageError(fmt::format(
        "a kernel of the graph's own is compiled to be executed, and there is no C++ compiler {} "
        "on PATH: install one for C++20, or link the kernel to a program of your own "
        "(docs/device-language.md)",
        kCompiler));
  }
  if (status != 0) {
    throw UsageError(fmt::format(
        "kernel {} of {} does not compile for the emulator: {}", kernel.name, quote(kernel.header),
        with_advice(first_compile_error(read_file(said, kMostSaidBytes), folder.at("include/")))));
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
