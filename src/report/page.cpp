#include "report/page.h"

#include <algorithm>
#include <map>
#include <span>

#include "core/embedded_text.h"
#include "stretto/error.h"

namespace stretto {

std::span<const EmbeddedText> report_page();  // src/report/page

namespace {

std::string_view page_file(std::string_view name) {
  for (const EmbeddedText& file : report_page()) {
    if (file.name == name) return file.text;
  }
  STRETTO_ASSERT(false, "a page lacks a file");
  return {};
}

// Inside <script>: nothing that could end it. JSON has '<' in strings only.
std::string for_script(std::string_view json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

// The page with what stands for its places; what that says is no place again.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& places) {
  std::string out;
  for (size_t at = 0; at < page.size();) {
    const size_t place = page.find('@', at), end = page.find('@', place + 1);
    const auto found =
        end == page.npos ? places.end() : places.find(page.substr(place + 1, end - place - 1));
    const size_t next = found == places.end() ? std::min(place, page.size() - 1) + 1 : end + 1;
    if (found == places.end()) {
      out += page.substr(at, next - at);
    } else {
      out += page.substr(at, place - at);
      out += found->second;
    }
    at = next;
  }
  return out;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string fill_page(std::string_view body, std::initializer_list<std::string_view> code,
                      std::string_view title, std::string_view json) {
  std::string all;
  for (const std::string_view file : code) all += page_file(file);
  return filled(page_file("frame.html"), {{"TITLE", escaped(title)},
                                          {"STYLE", std::string(page_file("report.css"))},
                                          {"BODY", std::string(page_file(body))},
                                          {"CODE", all},
                                          {"DATA", for_script(json)}});
}

std::string model_page(std::string_view title, std::string_view json) {
  return fill_page("model.html", {"page.js", "model_charts.js", "model.js"}, title, json);
}

}  // namespace stretto
