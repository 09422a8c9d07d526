#include "server/rest/docs_page.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

namespace upscaled::server {
namespace {

using Json = nlohmann::ordered_json;

// Lists instead of tables, and text with breaks anywhere, fit a phone.
constexpr char kStyle[] =
    ":root{color-scheme:light dark;background:Canvas}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:1rem auto;padding:0 1rem;"
    "overflow-wrap:anywhere}"
    "code,pre{font-family:ui-monospace,monospace;font-size:.9em}"
    "pre{white-space:pre-wrap;padding:.6rem;margin:.5rem 0;background:#8882}"
    "h2{margin-top:2.5rem}nav ul{columns:16rem;padding-left:1.2rem}"
    "dt{margin-top:.8rem}dd{margin-left:1.2rem}:target{outline:2px solid;outline-offset:.2rem}"
    "a{color:LinkText}";

constexpr char kOptionsPath[] = "/v1/upscale";
constexpr char kShortFor[] = "Short for `";

// Text for HTML; text between backticks is code.
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

std::string Code(absl::string_view text) { return absl::StrCat("<code>", Html(text), "</code>"); }

std::string Link(absl::string_view id, absl::string_view html) {
  return absl::StrCat("<a href=\"#", Html(id), "\">", html, "</a>");
}

std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// A text as it is, another value as JSON.
std::string Value(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

class Page {
 public:
  explicit Page(std::string_view openapi_json) : document_(Json::parse(openapi_json)) {}

  std::string Render() {
    const Json& info = document_["info"];
    const std::string title = Html(Text(info, "title"));
    Add("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">",
        "<meta name=\"viewport\" content=\"width=device-width\"><title>", title, "</title><style>",
        kStyle, "</style>\n<header><h1>", title, "</h1>\n<p>", Html(Text(info, "summary")), " ",
        Html(Text(info, "description")), "</p>\n<p><a href=\"openapi.json\">openapi.json</a></p>",
        "</header>\n");
    AddContents();
    Add("<main>\n");
    AddOptions();
    EachCall([this](const std::string& path, const std::string& method, const Json& operation) {
      AddCall(path, method, operation);
    });
    AddReasons();
    AddObjects();
    Add("</main>\n</html>\n");
    return std::move(html_);
  }

 private:
  template <typename... Parts>
  void Add(const Parts&... parts) {
    absl::StrAppend(&html_, parts...);
  }

  void AddHeading(absl::string_view id, absl::string_view html) {
    Add("<h2 id=\"", Html(id), "\">", html, "</h2>\n");
  }

  // The object behind a reference of `object`, or itself.
  const Json& Resolve(const Json& object) const {
    const std::string reference = Text(object, "$ref");
    return reference.empty() ? object : document_.at(Json::json_pointer(reference.substr(1)));
  }

  // Calls `visit` with path, method and operation of each call.
  template <typename Visit>
  void EachCall(const Visit& visit) const {
    for (const auto& [path, item] : document_["paths"].items()) {
      for (const auto& [method, operation] : item.items()) {
        if (method != "parameters" && method != "servers") {
          visit(path, absl::AsciiStrToUpper(method), operation);
        }
      }
    }
  }

  void AddContents() {
    Add("<nav aria-label=\"Contents\">\n<ul>\n<li>", Link("options", "Options"), "\n");
    EachCall([this](const std::string& path, const std::string& method, const Json& operation) {
      Add("<li>", Link(Text(operation, "operationId"), Code(absl::StrCat(method, " ", path))),
          "\n");
    });
    Add("<li>", Link("reasons", "Reasons of errors"), "\n<li>", Link("objects", "Objects"),
        "\n</ul></nav>\n");
  }

  // The parameters of POST /v1/upscale, in its query or its form.
  void AddOptions() {
    const Json& parameters = document_["paths"][kOptionsPath]["parameters"];
    std::map<std::string, std::string> short_names;  // by the long one
    for (const Json& entry : parameters) {
      const std::string text = Text(Resolve(entry), "description");
      absl::string_view description = text;
      if (!absl::ConsumePrefix(&description, kShortFor)) continue;
      short_names[std::string(description.substr(0, description.find('`')))] =
          Text(Resolve(entry), "name");
    }
    AddHeading("options", "Options");
    Add("<p>Of ", Link("upscale", Code("POST /v1/upscale")),
        ", in the query or as fields of a form. An unknown one is refused by name.</p>\n<dl>\n");
    for (const Json& entry : parameters) {
      const Json& parameter = Resolve(entry);
      const std::string name = Text(parameter, "name");
      if (Text(parameter, "in") != "query" ||
          absl::StartsWith(Text(parameter, "description"), kShortFor)) {
        continue;
      }
      const auto other = short_names.find(name);
      AddParameter(parameter, absl::StrCat("option-", name),
                   other == short_names.end() ? "" : other->second);
    }
    Add("</dl>\n");
  }

  // `id`: of an option. It is on the page once.
  void AddParameter(const Json& parameter, const std::string& id = "",
                    const std::string& short_name = "") {
    const std::string name = Text(parameter, "name");
    Add("<dt", id.empty() ? "" : absl::StrCat(" id=\"", Html(id), "\""), ">", Code(name),
        short_name.empty() ? "" : absl::StrCat(" or ", Code(short_name)), ": ",
        Type(parameter["schema"]), "<dd>", Html(Text(parameter, "description")));
    if (parameter.contains("example")) {
      const bool is_field = Text(parameter, "in") == "header";
      Add(" Example: ",
          Code(absl::StrCat(name, is_field ? ": " : "=", Value(parameter["example"]))));
    }
    Add("\n");
  }

  void AddCall(const std::string& path, const std::string& method, const Json& operation) {
    AddHeading(Text(operation, "operationId"), Code(absl::StrCat(method, " ", path)));
    Add("<p>", Html(Text(operation, "summary")), " ", Html(Text(operation, "description")),
        "</p>\n");
    const Json& item = document_["paths"][path];
    for (const Json& server : item.value("servers", Json::array())) {
      Add("<p>", Html(Text(server, "description")), "</p>\n");
    }
    for (const Json& sample : operation.value("x-codeSamples", Json::array())) {
      Add("<pre><code>", Html(Text(sample, "source")), "</code></pre>\n");
    }
    std::vector<const Json*> parameters;
    for (const Json* list : {&item, &operation}) {
      if (!list->contains("parameters")) continue;
      for (const Json& entry : list->at("parameters")) {
        const Json& parameter = Resolve(entry);
        const bool is_option =
            list == &item && path == kOptionsPath && Text(parameter, "in") == "query";
        if (!is_option) parameters.push_back(&parameter);
      }
    }
    if (path == kOptionsPath) Add("<p>Takes the ", Link("options", "options"), ".</p>\n");
    if (!parameters.empty()) {
      Add("<h3>Parameters</h3>\n<dl>\n");
      for (const Json* const parameter : parameters) AddParameter(*parameter);
      Add("</dl>\n");
    }
    AddResponses(operation["responses"]);
  }

  void AddResponses(const Json& responses) {
    Add("<h3>Answers</h3>\n<dl>\n");
    for (const auto& [status, entry] : responses.items()) {
      const Json& response = Resolve(entry);
      Add("<dt>", Code(status), "<dd>", Html(Text(response, "description")), "\n");
      const Json contents = response.value("content", Json::object());
      std::vector<std::string> types;
      for (const auto& [type, content] : contents.items()) {
        const Json schema = content.value("schema", Json::object());
        types.push_back(absl::StrCat(Code(type), schema.contains("$ref") ? ": " : "",
                                     schema.contains("$ref") ? Type(schema) : ""));
      }
      Add(types.empty() ? "" : "<br>", absl::StrJoin(types, ", "), "\n");
      AddHeaders(response.value("headers", Json::object()));
    }
    Add("</dl>\n");
  }

  void AddHeaders(const Json& headers) {
    if (headers.empty()) return;
    Add("<dl>\n");
    for (const auto& [name, header] : headers.items()) {
      Add("<dt>", Code(name), "<dd>", Html(Text(Resolve(header), "description")), "\n");
    }
    Add("</dl>\n");
  }

  void AddReasons() {
    AddHeading("reasons", "Reasons of errors");
    Add("<p>Every error is a ", Link("Problem", "Problem"), "; programs act on its ",
        Code("reason"), ". Wait for ", Code("Retry-After"), " after 429 and 503. ",
        Code("UNSPECIFIED"),
        " comes with 404 and 405: there is no such route, method, job or result.</p>\n<dl>\n");
    for (const auto& [name, reason] : document_["x-reasons"].items()) {
      Add("<dt id=\"reason-", Html(name), "\">", Code(name), ": ", reason["status"].dump(), "<dd>",
          Html(Text(reason, "description")), " ", Html(Text(reason, "remedy")), "\n");
    }
    Add("</dl>\n");
  }

  void AddObjects() {
    AddHeading("objects", "Objects");
    for (const auto& [name, schema] : document_["components"]["schemas"].items()) {
      Add("<h3 id=\"", Html(name), "\">", Html(name), "</h3>\n<p>",
          Html(Text(schema, "description")), "</p>\n<dl>\n");
      const Json properties = schema.value("properties", Json::object());
      for (const auto& [field, property] : properties.items()) {
        Add("<dt>", Code(field), ": ", Type(property), "<dd>",
            Html(Text(Resolve(property), "description")), "\n");
      }
      Add("</dl>\n");
    }
  }

  // "integer", "string or null".
  static std::string TypeName(const Json& schema) {
    const auto type = schema.find("type");
    if (type == schema.end() || !type->is_array()) return Html(Text(schema, "type"));
    return Html(absl::StrJoin(type->get<std::vector<std::string>>(), " or "));
  }

  // "integer, from 0, to 9", "array of Model", "string: auto", ..., in HTML.
  std::string Type(const Json& schema) const {
    const std::string reference = Text(schema, "$ref");
    if (!reference.empty()) {
      const std::string name = reference.substr(reference.rfind('/') + 1);
      return Link(name, Html(name));
    }
    if (schema.contains("anyOf")) {
      std::vector<std::string> types;
      for (const Json& type : schema["anyOf"]) types.push_back(Type(type));
      return absl::StrJoin(types, ", or ");
    }
    std::string type = TypeName(schema);
    if (type == "array")
      absl::StrAppend(&type, " of ", Type(schema.value("items", Json::object())));
    for (const auto& [key, word] :
         {std::pair("minimum", "from"), {"exclusiveMinimum", "above"}, {"maximum", "to"}}) {
      if (schema.contains(key)) absl::StrAppend(&type, ", ", word, " ", schema[key].dump());
    }
    if (schema.contains("enum")) {
      type.clear();
      for (const Json& value : schema["enum"]) {
        absl::StrAppend(&type, type.empty() ? "" : ", ", Code(Value(value)));
      }
    }
    if (schema.contains("default")) {
      absl::StrAppend(&type, "; default ", Code(Value(schema["default"])));
    }
    return type;
  }

  const Json document_;
  std::string html_;
};

}  // namespace

std::string DocsPage(std::string_view openapi_json) { return Page(openapi_json).Render(); }

}  // namespace upscaled::server
