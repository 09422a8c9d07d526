// JSON that others have written.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace upscaled {

// Ends a text that is nested too deep while the library's own handler builds the document. A
// callback of parse() would do as well, but there each object costs a walk over all before it.
template <typename Json>
class ShallowJsonHandler : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  static constexpr int kMaxDepth = 64;

  explicit ShallowJsonHandler(Json& document) : Base(document, /*allow_exceptions=*/false) {}

  bool start_object(std::size_t elements) {
    return ++depth_ <= kMaxDepth && Base::start_object(elements);
  }
  bool end_object() {
    --depth_;
    return Base::end_object();
  }
  bool start_array(std::size_t elements) {
    return ++depth_ <= kMaxDepth && Base::start_array(elements);
  }
  bool end_array() {
    --depth_;
    return Base::end_array();
  }

 private:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  int depth_ = 0;
};

// Discarded if the text is no JSON, or nested more than 64 deep: copies and dump() recurse. Takes
// time in proportion to the text.
template <typename Json = nlohmann::json>
Json ParseShallow(std::string_view text) {
  Json document;
  ShallowJsonHandler<Json> handler(document);
  if (!Json::sax_parse(text.begin(), text.end(), &handler)) {
    document = Json(Json::value_t::discarded);
  }
  return document;
}

// The text of a field; "" if `value` is no object, lacks the field, or has another type there.
template <typename Json>
std::string TextOf(const Json& value, const char* name) {
  const auto field = value.find(name);
  return field != value.end() && field->is_string() ? field->template get<std::string>() : "";
}

// The texts of a list; other values in it are left out.
template <typename Json>
std::vector<std::string> TextsIn(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& text : list) {
    if (text.is_string()) texts.push_back(text.template get<std::string>());
  }
  return texts;
}

// TextsIn of a field; empty if `value` is no object or lacks the field.
template <typename Json>
std::vector<std::string> TextsOf(const Json& value, const char* name) {
  const auto field = value.find(name);
  return field != value.end() ? TextsIn(*field) : std::vector<std::string>();
}

}  // namespace upscaled
