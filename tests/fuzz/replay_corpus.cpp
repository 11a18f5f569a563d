// Runs a fuzz target over the files of a corpus folder and over seeded mutations of them, for
// compilers without libFuzzer and for every run of the tests.
//   fuzz_NAME FOLDER... [--mutations COUNT]   (of each file; 100 when not said)
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t bound) { return bound == 0 ? 0 : random() % bound; }

struct Range {
  size_t begin, length;
};

Range some_range(Random& random, const std::string& text) {
  const size_t begin = below(random, text.size());
  return {begin, 1 + below(random, std::min<size_t>(text.size() - begin, 40))};
}

Range some_line(Random& random, const std::string& text) {
  size_t begin = text.rfind('\n', below(random, text.size()));
  begin = begin == std::string::npos ? 0 : begin + 1;
  const size_t end = text.find('\n', begin);
  return {begin, (end == std::string::npos ? text.size() : end + 1) - begin};
}

void replace_number(Random& random, std::string& text) {
  static const char* const kNumbers[] = {"0",
                                         "1",
                                         "-1",
                                         "255",
                                         "256",
                                         "65535",
                                         "65536",
                                         "2147483647",
                                         "2147483648",
                                         "1e308",
                                         "-0.5",
                                         "9223372036854775807",
                                         "18446744073709551616",
                                         "99999999999999999999999999",
                                         "nan"};
  size_t begin = text.find_first_of("0123456789", below(random, text.size()));
  if (begin == std::string::npos) return;
  const size_t end = text.find_first_not_of("0123456789", begin);
  text.replace(begin, (end == std::string::npos ? text.size() : end) - begin,
               kNumbers[below(random, std::size(kNumbers))]);
}

void mutate(Random& random, std::string& text) {
  if (text.empty()) return;
  switch (below(random, 9)) {
    case 0:
      text[below(random, text.size())] = static_cast<char>(random());
      break;
    case 1: {
      const Range range = some_range(random, text);
      text.erase(range.begin, range.length);
      break;
    }
    case 2: {
      const Range range = some_range(random, text);
      text.insert(below(random, text.size()), text.substr(range.begin, range.length));
      break;
    }
    case 3:
    case 4:
      replace_number(random, text);
      break;
    case 5: {
      const Range line = some_line(random, text);
      text.erase(line.begin, line.length);
      break;
    }
    case 6: {
      const Range line = some_line(random, text);
      text.insert(some_line(random, text).begin, text.substr(line.begin, line.length));
      break;
    }
    case 7: {  // exchange two pieces of the same length
      const Range a = some_range(random, text), b = some_range(random, text);
      const size_t length = std::min(a.length, b.length);
      const std::string piece = text.substr(a.begin, length);
      text.replace(a.begin, length, text.substr(b.begin, length));
      text.replace(b.begin, length, piece);
      break;
    }
    case 8:
      text.resize(below(random, text.size()));
      break;
  }
}

void run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  size_t mutations = 100;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--mutations") == 0 && i + 1 < argc) {
      mutations = std::strtoull(argv[++i], nullptr, 10);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());  // the same mutations on every file system
  Random random(1);
  // What a crash leaves behind, to be added to the corpus.
  const std::string last_input = std::filesystem::path(argv[0]).filename().string() + ".last_input";
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string original(std::istreambuf_iterator<char>(in), {});
    std::printf("%s\n", file.filename().c_str());
    std::fflush(stdout);
    run(original);
    for (size_t i = 0; i < mutations; ++i) {
      std::string text = original;
      for (size_t steps = 1 + below(random, 4); steps > 0; --steps) mutate(random, text);
      std::ofstream(last_input, std::ios::binary) << text;
      run(text);
    }
  }
  std::filesystem::remove(last_input);
  std::printf("%zu inputs, %zu mutations of each\n", files.size(), mutations);
  return files.empty() ? 1 : 0;
}
