// The server's routes and those of its description are the same.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/base/error.h"
#include "server/rest/docs_page.h"
#include "server/rest/embedded_files.h"
#include "server/rest/problem.h"
#include "server/rest/upscale_parameters.h"
#include "tests/server/rest/field_of.h"
#include "tests/server/rest/rest_environment.h"

namespace upscaled::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string_view FileText(std::string_view name) {
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name == name) return file.bytes;
  }
  ADD_FAILURE() << "no " << name;
  return "";
}

json Description() { return json::parse(FileText("openapi.json")); }

// The names of the options among an operation's parameters.
std::set<std::string> QueryNames(const json& parameters, const json& description) {
  std::set<std::string> names;
  for (const json& reference : parameters) {
    const json& parameter =
        description.at(json::json_pointer(reference["$ref"].get<std::string>().substr(1)));
    if (parameter["in"] == "query") names.insert(parameter["name"]);
  }
  return names;
}

class KeptWriter final : public HttpResponseWriter {
 public:
  explicit KeptWriter(HttpResponse& response) : response_(response) {}
  void Send(HttpResponse response) override { response_ = std::move(response); }

 private:
  HttpResponse& response_;
};

HttpResponse Get(const std::vector<HttpRoute>& routes, const std::string& path,
                 std::vector<HttpField> fields = {}, const std::string& parameter = "",
                 const std::string& method = "GET") {
  HttpResponse response{.status = 0};
  for (const HttpRoute& route : routes) {
    if (route.path != path || route.method != method || route.handler == nullptr) continue;
    route.handler({.method = method, .path = path, .fields = fields, .parameter = parameter},
                  std::make_unique<KeptWriter>(response));
    return response;
  }
  return response;
}

TEST(OpenApiTest, HasEveryRouteAndNoOther) {
  RestEnvironment env({}, {.web = false});
  std::set<std::string> routes, described;
  for (const HttpRoute& route : env.routes()) {
    routes.insert(route.method + " " + route.path);
    if (route.path == "/v1/upscale") routes.insert("HEAD " + route.path);  // a call of its own
  }
  routes.insert("GET " + env.usage_route().path);  // the operators' port has it
  const json description = Description();
  for (const auto& [path, item] : description["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      if (method == "parameters" || method == "servers") continue;
      std::string name = method;
      for (char& c : name) c = static_cast<char>(std::toupper(c));
      described.insert(name + " " + path);
    }
  }
  EXPECT_EQ(routes, described);
}

TEST(OpenApiTest, HasEveryOptionAndNoOther) {
  const json description = Description();
  const auto names = ParameterNames();
  const std::set<std::string> options(names.begin(), names.end());
  const json& item = description["paths"]["/v1/upscale"];
  EXPECT_EQ(QueryNames(item["parameters"], description), options);
  std::set<std::string> fields;
  const json& form = item["post"]["requestBody"]["content"]["multipart/form-data"]["schema"];
  for (const auto& [name, property] : form["properties"].items()) fields.insert(name);
  EXPECT_EQ(fields.erase("image"), 1u);
  EXPECT_EQ(fields.erase("file"), 1u);
  EXPECT_EQ(fields, options);
}

TEST(OpenApiTest, HasEveryFieldOfModels) {
  RestEnvironment env;
  const json models = json::parse(Get(env.routes(), "/v1/models").body)["models"];
  const json description = Description();
  const json& described = description["components"]["schemas"]["Model"]["properties"];
  ASSERT_FALSE(models.empty());
  for (const auto& [name, value] : models[0].items()) EXPECT_TRUE(described.contains(name)) << name;
}

TEST(InfoRoutesTest, AnswerFromMemoryAndAreCounted) {
  RestEnvironment env;
  EXPECT_THAT(Get(env.routes(), "/v1/models").body, HasSubstr("\"name\":\"general-2x\""));
  const json model = json::parse(Get(env.routes(), "/v1/models/{name}", {}, "fast-2x").body);
  EXPECT_EQ(model["model"]["name"], "fast-2x");
  EXPECT_EQ(model["model"]["is_default"], false);
  const HttpResponse none = Get(env.routes(), "/v1/models/{name}", {}, "best");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(json::parse(none.body)["reason"], "UNKNOWN_MODEL");
  EXPECT_EQ(json::parse(Get(env.routes(), "/v1/info").body)["version"], "test");
  ASSERT_EQ(env.records().size(), 4u);
  EXPECT_EQ(env.records()[2].method, "GetModel");
  EXPECT_EQ(env.records()[2].code, absl::StatusCode::kNotFound);
}

TEST(ProgressRouteTest, RefusesWhatIsNoRequestId) {
  RestEnvironment env;
  for (const std::string id : {"a\r\nSet-Cookie: b=c", "a b", "\xFF"}) {
    const auto client = env.Call("GET", {.path = "/v1/progress/{request_id}", .parameter = id});
    EXPECT_EQ(client->status(), 400);
    EXPECT_EQ(json::parse(client->body())["reason"], "INVALID_OPTION");
    EXPECT_EQ(client->Field("X-Request-Id"), "");
  }
}

TEST(PageRoutesTest, AreStrictAndKnownByTheirTags) {
  RestEnvironment env;
  const HttpResponse page = Get(env.routes(), "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(FieldOf(page, "Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(FieldOf(page, "Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(FieldOf(Get(env.routes(), "/app.js"), "Content-Type"),
            "text/javascript; charset=utf-8");
  const std::string etag = FieldOf(page, "ETag");
  const HttpResponse known = Get(env.routes(), "/", {{"If-None-Match", "W/\"x\", " + etag}});
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.body, "");
  EXPECT_EQ(FieldOf(known, "ETag"), etag);
}

TEST(PageRoutesTest, CanBeSwitchedOff) {
  RestEnvironment env({}, {.web = false});
  EXPECT_EQ(Get(env.routes(), "/").status, 0);
  EXPECT_EQ(Get(env.routes(), "/docs").status, 0);
  EXPECT_EQ(Get(env.routes(), "/openapi.json").status, 200);
}

TEST(PreflightTest, IsAnsweredWhereOriginsAreAllowed) {
  RestEnvironment env({}, {.cors_origins = {"https://a.example"}});
  const HttpResponse response =
      Get(env.routes(), "/v1/upscale", {{"Origin", "https://a.example"}}, "", "OPTIONS");
  EXPECT_EQ(response.status, 204);
  EXPECT_THAT(FieldOf(response, "Access-Control-Allow-Methods"), HasSubstr("POST"));
  EXPECT_EQ(FieldOf(Get(env.routes(), "/v1/models", {{"Origin", "https://a.example"}}),
                    "Access-Control-Allow-Origin"),
            "https://a.example");
}

// The texts between `before` and `after`, each.
std::vector<std::string> Between(const std::string& text, const std::string& before,
                                 const std::string& after) {
  std::vector<std::string> found;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at)) {
    at += before.size();
    found.push_back(text.substr(at, text.find(after, at) - at));
  }
  return found;
}

TEST(OpenApiTest, HasEveryReasonWithItsStatus) {
  std::map<std::string, int> reasons, described;
  const auto& values = *upscale::v1::ErrorReason_descriptor();
  for (int i = 0; i < values.value_count(); ++i) {
    const auto reason = static_cast<ErrorReason>(values.value(i)->number());
    if (reason == ErrorReason::kUnspecified) continue;
    reasons[std::string(ErrorReasonName(reason))] =
        HttpStatusOf(MakeError(absl::StatusCode::kInternal, reason, ""));
  }
  const json description = Description();
  for (const auto& [name, reason] : description["x-reasons"].items()) {
    described[name] = reason["status"];
  }
  EXPECT_EQ(described, reasons);
}

// A signed URL computes as POST does. HEAD only judges.
TEST(OpenApiTest, EveryMethodOfUpscaleHasTheFaultsOfAll) {
  const json upscale = Description()["paths"]["/v1/upscale"];
  for (const auto& [status, response] : upscale["post"]["responses"].items()) {
    if (status < "400") continue;
    EXPECT_TRUE(upscale["get"]["responses"].contains(status)) << status;
    EXPECT_TRUE(upscale["head"]["responses"].contains(status)) << status;
  }
}

TEST(DocsPageTest, TellsEverythingWithoutAssets) {
  const std::string page = DocsPage(FileText("openapi.json"));
  for (const std::string_view name : ParameterNames()) {
    EXPECT_THAT(page, HasSubstr("<code>" + std::string(name) + "</code>"));
  }
  EXPECT_THAT(page, HasSubstr("POST /v1/upscale"));
  EXPECT_THAT(page, HasSubstr("<code>progress</code>: object or null"));
  EXPECT_THAT(page, HasSubstr("retry_after_seconds"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
}

TEST(DocsPageTest, LinksLeadSomewhereOnIt) {
  const std::string page = DocsPage(FileText("openapi.json"));
  const std::vector<std::string> ids = Between(page, " id=\"", "\"");
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size()) << "an id is there twice";
  const std::vector<std::string> links = Between(page, " href=\"", "\"");
  EXPECT_GT(links.size(), 15u);
  for (const std::string& link : links) {
    if (link == "openapi.json") continue;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), link.substr(1)), 1) << link;
  }
}

TEST(DocsPageTest, HasOptionsBeforeCallsAndACommandForEach) {
  const std::string page = DocsPage(FileText("openapi.json"));
  EXPECT_LT(page.find("<code>scale</code>"), page.find("<code>200</code>"));
  EXPECT_LT(page.find("href=\"#upscale\""), page.find("id=\"options\""));
  const json description = Description();
  for (const auto& [path, item] : description["paths"].items()) {
    for (const auto& [method, operation] : item.items()) {
      if (method == "parameters" || method == "servers") continue;
      const std::string section =
          page.substr(page.find("<h2 id=\"" + operation["operationId"].get<std::string>() + "\""));
      EXPECT_THAT(section.substr(0, section.find("<h2", 1)), HasSubstr("<pre><code>curl "))
          << method << path;
    }
  }
}

}  // namespace
}  // namespace upscaled::server
