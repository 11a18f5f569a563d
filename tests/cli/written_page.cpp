#include "cli/written_page.h"

#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace stretto {
namespace {

std::vector<std::string> places_of_lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) all.push_back(places_of(line));
  return all;
}

}  // namespace

Page parse_page(const std::string& text) {
  Page page;
  File* file = nullptr;
  bool in_fence = false, is_output = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      const size_t space = line.find(' ');
      file = nullptr;
      if (!in_fence && space != std::string::npos) {
        page.files.push_back({line.substr(space + 1), ""});
        file = &page.files.back();
      }
      in_fence = !in_fence;
    } else if (in_fence) {
      if (file != nullptr) file->content += line + "\n";
    } else if (line.starts_with("    $ ")) {
      page.steps.push_back({line.substr(6), {}});
      is_output = true;
    } else if (!line.starts_with("    ")) {
      is_output = is_output && line.empty();  // prose ends it
    } else if (is_output && line != "    ...") {
      page.steps.back().shown.push_back(line);
    }
  }
  return page;
}

std::string places_of(const std::string& line) {
  std::string out;
  bool is_apart = false;
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) continue;
    if (std::isspace(byte)) {
      is_apart = true;
      continue;
    }
    const bool is_number = std::isdigit(byte) || c == '.';
    if (is_number && !is_apart && !out.empty() && out.back() == '#') continue;
    if (is_apart && !out.empty()) out += ' ';
    is_apart = false;
    out += is_number ? '#' : c;
  }
  return out;
}

std::string not_shown(const Step& step, const std::string& said) {
  const std::vector<std::string> lines = places_of_lines(said);
  auto at = lines.begin();
  for (const std::string& shown : step.shown) {
    at = std::find(at, lines.end(), places_of(shown));
    if (at == lines.end()) return shown;
    ++at;
  }
  return "";
}

Shell::Said Shell::run(const std::string& command) const {
  const std::string folder = scratch_.path("");
  const std::string programs = std::filesystem::path(STRETTO_BINARY).parent_path().string();
  const std::string script = scratch_.file(
      "command.sh", "cd '" + folder + "' && PATH='" + programs + "':\"$PATH\" HOME='" + folder +
                        "' COLUMNS=80 && export PATH HOME COLUMNS && unset STRETTO_TUNING_FILE "
                        "XDG_DATA_HOME\n" +
                        preamble_ + command + "\n");
  const std::string output = scratch_.path("said");
  const std::string line = "sh '" + script + "' >'" + output + "' 2>&1 </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(output)};
}

}  // namespace stretto
