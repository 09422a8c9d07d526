// JSON documents, and a repeated key of one of their objects: a parser keeps one of the two.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace upscaled {

struct UniqueJson {
  nlohmann::json document;                  // discarded if the text is no JSON
  std::optional<std::string> repeated_key;  // the last of them
};

// Notes repeated keys while the library's own handler builds the document. A callback of parse()
// would do as well, but there each object costs a walk over all before it in its parent.
class UniqueJsonHandler : public nlohmann::detail::json_sax_dom_parser<nlohmann::json> {
 public:
  UniqueJsonHandler(UniqueJson& json, bool throws)
      : json_sax_dom_parser(json.document, throws), json_(json) {}

  bool start_object(std::size_t elements) {
    keys_.emplace_back();
    return json_sax_dom_parser::start_object(elements);
  }
  bool key(std::string& name) {
    if (!keys_.back().insert(name).second) json_.repeated_key = name;
    return json_sax_dom_parser::key(name);
  }
  bool end_object() {
    keys_.pop_back();
    return json_sax_dom_parser::end_object();
  }

 private:
  UniqueJson& json_;
  std::vector<std::set<std::string>> keys_;  // of the objects around the current value
};

// Parses `text` in time proportional to it, but for the sorting of keys. `throws`: as
// nlohmann::json::parse does for a text other than JSON.
inline UniqueJson ParseUniqueJson(std::string_view text, bool throws = false) {
  UniqueJson json;
  UniqueJsonHandler handler(json, throws);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &handler)) {
    json.document = nlohmann::json(nlohmann::json::value_t::discarded);
  }
  return json;
}

}  // namespace upscaled
