#include "server/rest/page_routes.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/rest/docs_page.h"
#include "server/rest/embedded_files.h"
#include "server/rest/entity_tags.h"

namespace upscaled::server {
namespace {

constexpr std::string_view kDescription = "openapi.json";

// The page shows images from memory.
constexpr char kPagePolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
constexpr char kDocsPolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

std::string MediaTypeOf(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  if (name.ends_with(".json")) return "application/json";
  return "application/octet-stream";
}

// Whether the client has the file of this name.
bool Has(const HttpRequest& request, const std::string& name) {
  const std::vector<std::string> tags = ParseTags(request.AllFields("If-None-Match"));
  return std::any_of(tags.begin(), tags.end(),
                     [&](const std::string& tag) { return tag == name || tag == "*"; });
}

struct StaticFile {
  std::string body;
  std::string name;  // of its bytes, in its tag
  std::vector<HttpField> fields;
};

// A file for browsers to keep, and to ask about each time they use it.
HttpRoute FileRoute(std::string path, std::string description, StaticFile file,
                    const Cors* cors = nullptr) {
  file.fields.push_back({"ETag", QuotedTag(file.name)});
  file.fields.push_back({"Cache-Control", "no-cache"});
  file.fields.push_back({"X-Content-Type-Options", "nosniff"});
  file.fields.push_back({"Referrer-Policy", "no-referrer"});
  return {.method = "GET",
          .path = std::move(path),
          .description = std::move(description),
          .handler =
              [file = std::move(file), cors](const HttpRequest& request,
                                             std::unique_ptr<HttpResponseWriter> writer) {
                HttpResponse response{.status = 200, .fields = file.fields};
                if (cors != nullptr) {
                  for (HttpField& field : cors->Fields(request)) {
                    response.fields.push_back(std::move(field));
                  }
                }
                if (Has(request, file.name)) {
                  response.status = 304;
                } else {
                  response.body = file.body;
                }
                writer->Send(std::move(response));
              },
          .role = std::nullopt};
}

const EmbeddedFile& DescriptionFile() {
  const std::span<const EmbeddedFile> files = EmbeddedFiles();
  return *std::find_if(files.begin(), files.end(),
                       [](const EmbeddedFile& file) { return file.name == kDescription; });
}

StaticFile FileOf(const EmbeddedFile& file) {
  return {.body = std::string(file.bytes),
          .name = std::string(file.sha256.substr(0, 32)),
          .fields = {{"Content-Type", MediaTypeOf(file.name)}}};
}

}  // namespace

std::vector<HttpRoute> DescriptionRoutes(const Cors& cors) {
  return {FileRoute("/openapi.json", "this service in the terms of OpenAPI 3.1",
                    FileOf(DescriptionFile()), &cors)};
}

std::vector<HttpRoute> PageRoutes() {
  std::vector<HttpRoute> routes;
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name == kDescription) continue;
    StaticFile content = FileOf(file);
    content.fields.push_back({"Content-Security-Policy", kPagePolicy});
    const bool start = file.name == "index.html";
    routes.push_back(FileRoute(start ? "/" : absl::StrCat("/", ToAbsl(file.name)),
                               start ? "a page to drop images on" : "", std::move(content)));
  }
  const EmbeddedFile& description = DescriptionFile();
  StaticFile docs = FileOf(description);
  docs.body = DocsPage(description.bytes);
  docs.fields = {{"Content-Type", "text/html; charset=utf-8"},
                 {"Content-Security-Policy", kDocsPolicy}};
  routes.push_back(FileRoute("/docs", "the same, to be read", std::move(docs)));
  return routes;
}

}  // namespace upscaled::server
