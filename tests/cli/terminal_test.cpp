// What is said fits the terminal, and has colours only where they are seen.
#include "cli/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

#include "cli/command.h"
#include "cli/table.h"
#include "stretto/error.h"

namespace stretto {
namespace {

using cli::Colour;
using cli::Style;

class Columns {
 public:
  explicit Columns(const char* columns) { ::setenv("COLUMNS", columns, 1); }
  ~Columns() { ::unsetenv("COLUMNS"); }
};

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, cli::display_width(line));
  }
  return widest;
}

TEST(Terminal, WidthIsWhatColumnsSays) {
  const Columns columns("123");
  EXPECT_EQ(cli::terminal_columns(), 123);
  ::setenv("COLUMNS", "7", 1);
  EXPECT_EQ(cli::terminal_columns(), cli::kLeastColumns);
  ::setenv("COLUMNS", "wide", 1);
  EXPECT_EQ(cli::terminal_columns(), 80);
}

TEST(Terminal, EscapesTakeNoColumns) {
  cli::set_colour(Colour::always, false);
  const std::string painted = cli::paint(Style::bad, "NO");
  cli::set_colour(Colour::never, false);
  EXPECT_NE(painted, "NO");
  EXPECT_EQ(cli::display_width(painted), 2u);
  EXPECT_EQ(cli::display_width("▲ µs"), 4u);
  EXPECT_EQ(cli::paint(Style::bad, "NO"), "NO");
}

TEST(Terminal, ColoursOfAWordThatIsNone) {
  EXPECT_THROW(cli::colour_from("blue"), UsageError);
  EXPECT_EQ(cli::colour_from(""), Colour::automatic);
}

TEST(Terminal, TableGoesOnBelowWhereItIsTooWide) {
  cli::Table table({"name", "first number", "second number", "third number"});
  table.add({"one", "1", "2", "3"});
  table.add_remark("two", "cannot be");
  const Columns columns("40");
  EXPECT_EQ(table.print(),
            "name first number second number\n"
            "one             1             2\n"
            "two  cannot be\n"
            "\n"
            "name third number\n"
            "one             3\n");
}

TEST(Terminal, HelpAndTablesFit) {
  for (const char* width : {"76", "80", "132"}) {
    const Columns columns(width);
    for (const char* verb : {"run", "simulate", "bench", "explore", "compile"}) {
      EXPECT_LE(widest_line(stretto_says({verb, "--help"}).out), std::stoul(width)) << verb;
    }
    EXPECT_LE(widest_line(stretto_says({"--help"}).out), std::stoul(width));
    for (const char* verb : {"strategies", "model", "explore", "env", "machines"}) {
      EXPECT_LE(widest_line(stretto_says({verb}).out), std::stoul(width)) << verb;
    }
    const Said run =
        stretto_says(std::vector<std::string>{"run", "--strategy", "all"} + small_operator());
    EXPECT_LE(widest_line(run.out), std::stoul(width)) << run.out;
  }
}

TEST(Terminal, ColoursAreForWhoAsksAndForNoFile) {
  const std::vector<std::string> check = std::vector<std::string>{"check"} + small_operator();
  EXPECT_THAT(stretto_says(check).out, testing::Not(testing::HasSubstr("\x1b[")));
  const std::vector<std::string> always = {"--color", "always"};
  EXPECT_THAT(stretto_says(check + always).out, testing::HasSubstr("\x1b[32mclean"));
  EXPECT_THAT(stretto_says(check + always + std::vector<std::string>{"--json"}).out,
              testing::Not(testing::HasSubstr("\x1b[")));
}

}  // namespace
}  // namespace stretto
