#include "server/rest/docs_page.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace upscaled::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kStyle[] =
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color-scheme:light dark}"
    "table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}"
    "th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #8884}"
    "code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{overflow:auto;padding:.6rem;"
    "background:#8882}";

// Text for HTML; what stands between backticks is code.
std::string Html(absl::string_view text) {
  std::string html;
  bool code = false;
  for (const absl::string_view part : absl::StrSplit(text, '`')) {
    absl::StrAppend(
        &html, code ? "<code>" : "",
        absl::StrReplaceAll(part, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}}),
        code ? "</code>" : "");
    code = !code;
  }
  return html;
}

class Page {
 public:
  explicit Page(std::string_view openapi_json) : document_(Json::parse(openapi_json)) {}

  std::string Render() {
    const std::string title = Html(Text(document_["info"], "title"));
    absl::StrAppend(&html_, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">",
                    "<meta name=\"viewport\" content=\"width=device-width\"><title>", title,
                    "</title><style>", kStyle, "</style>\n<h1>", title, "</h1>\n<p>",
                    Html(Text(document_["info"], "description")),
                    "</p>\n<p><a href=\"openapi.json\">openapi.json</a></p>\n");
    for (const auto& [path, item] : document_["paths"].items()) AddPath(path, item);
    html_.append("<h2>Objects</h2>\n");
    for (const auto& [name, schema] : document_["components"]["schemas"].items()) {
      absl::StrAppend(&html_, "<h3 id=\"", Html(name), "\">", Html(name), "</h3>\n<p>",
                      Html(Text(schema, "description")), "</p>\n");
      AddProperties(schema);
    }
    html_.append("</html>\n");
    return std::move(html_);
  }

 private:
  static std::string Text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  }

  // The object that `object` refers to, or itself.
  const Json& Resolve(const Json& object) const {
    const std::string reference = Text(object, "$ref");
    return reference.empty() ? object : document_.at(Json::json_pointer(reference.substr(1)));
  }

  void AddPath(const std::string& path, const Json& item) {
    for (const auto& [method, operation] : item.items()) {
      if (method == "parameters" || method == "servers") continue;
      absl::StrAppend(&html_, "<h2><code>", absl::AsciiStrToUpper(method), " ", Html(path),
                      "</code></h2>\n<p>", Html(Text(operation, "summary")), " ",
                      Html(Text(operation, "description")), "</p>\n");
      AddParameters(operation.value("parameters", Json::array()));
      AddResponses(operation["responses"]);
    }
    AddParameters(item.value("parameters", Json::array()));
    for (const Json& server : item.value("servers", Json::array())) {
      absl::StrAppend(&html_, "<p>", Html(Text(server, "description")), "</p>\n");
    }
  }

  void AddParameters(const Json& parameters) {
    if (parameters.empty()) return;
    html_.append("<table><tr><th>parameter<th>in<th>type<th>what it does</tr>\n");
    for (const Json& entry : parameters) {
      const Json& parameter = Resolve(entry);
      absl::StrAppend(&html_, "<tr><td><code>", Html(Text(parameter, "name")), "</code><td>",
                      Html(Text(parameter, "in")), "<td>", Html(Type(parameter["schema"])), "<td>",
                      Html(Text(parameter, "description")), "</tr>\n");
    }
    html_.append("</table>\n");
  }

  void AddResponses(const Json& responses) {
    html_.append("<table><tr><th>status<th>answer</tr>\n");
    for (const auto& [status, entry] : responses.items()) {
      const Json& response = Resolve(entry);
      absl::StrAppend(&html_, "<tr><td>", status, "<td>", Html(Text(response, "description")));
      const Json contents = response.value("content", Json::object());
      for (const auto& [type, content] : contents.items()) {
        absl::StrAppend(&html_, "<br><code>", Html(type), "</code> ",
                        Html(Type(content.value("schema", Json::object()))));
        if (content.contains("example")) {
          absl::StrAppend(&html_, "<pre>", Html(content["example"].dump(2)), "</pre>");
        }
      }
      const Json headers = response.value("headers", Json::object());
      for (const auto& [name, header] : headers.items()) {
        absl::StrAppend(&html_, "<br><code>", Html(name),
                        "</code>: ", Html(Text(Resolve(header), "description")));
      }
      html_.append("</tr>\n");
    }
    html_.append("</table>\n");
  }

  void AddProperties(const Json& schema) {
    html_.append("<table><tr><th>field<th>type<th>what it is</tr>\n");
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [name, property] : properties.items()) {
      absl::StrAppend(&html_, "<tr><td><code>", Html(name), "</code><td>", Html(Type(property)),
                      "<td>", Html(Text(Resolve(property), "description")), "</tr>\n");
    }
    html_.append("</table>\n");
  }

  // "integer", "string or null".
  static std::string TypeName(const Json& schema) {
    const auto type = schema.find("type");
    if (type == schema.end() || !type->is_array()) return Text(schema, "type");
    return absl::StrJoin(type->get<std::vector<std::string>>(), " or ");
  }

  // "integer, 0 to 9", "array of Model", ...
  std::string Type(const Json& schema) const {
    const std::string reference = Text(schema, "$ref");
    if (!reference.empty()) return reference.substr(reference.rfind('/') + 1);
    std::string type = TypeName(schema);
    if (type == "array")
      return absl::StrCat("array of ", Type(schema.value("items", Json::object())));
    if (schema.contains("minimum")) {
      absl::StrAppend(&type, ", ", schema["minimum"].dump(), " to ", schema["maximum"].dump());
    }
    if (schema.contains("enum")) {
      for (const Json& value : schema["enum"])
        absl::StrAppend(&type, " `", value.get<std::string>(), "`");
    }
    return type;
  }

  const Json document_;
  std::string html_;
};

}  // namespace

std::string DocsPage(std::string_view openapi_json) { return Page(openapi_json).Render(); }

}  // namespace upscaled::server
