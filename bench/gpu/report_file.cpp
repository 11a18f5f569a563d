#include "report_file.h"

#include <utility>

#include "core/file.h"

namespace stretto::bench {

ReportFile::ReportFile(std::string benchmark, Arguments& arguments)
    : benchmark_(std::move(benchmark)) {
  arguments.add("--out", path_, "JSON file for the results");
  arguments.add("--commit", commit_, "recorded with the results");
  arguments.add("--date", date_, "recorded with the results");
}

void ReportFile::check_writable() const {
  if (is_wanted()) stretto::check_writable(path_);
}

void ReportFile::write_text(const std::string& text) const {
  if (is_wanted()) write_file(path_, text);
}

}  // namespace stretto::bench
