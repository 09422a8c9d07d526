#include "client/worker/webhook.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/worker/url_file.h"
#include "nlohmann/json.hpp"
#include "proto/json/shallow_json.h"
#include "server/jobs/job_failure.h"
#include "server/jobs/job_place.h"
#include "server/jobs/task.h"

namespace upscaled::client {
namespace {

using nlohmann::json;

std::string Shown(const std::string& shown, const std::string& place) {
  return server::WithoutSecrets(shown.empty() ? place : shown);
}

// The report as the receiver may know it; an object.
json ToldReport(const server::Task& task, const server::EndedJob& ended) {
  if (ended.state == server::JobState::kFailed && !task.shown_output.empty()) {
    const server::JobFailure failure = server::ReadFailure(ended.report);
    return {{"code", failure.code}, {"reason", failure.reason}, {"message", failure.message}};
  }
  json object = ParseShallow(ended.report);
  return object.is_object() ? object : json::object();
}

}  // namespace

absl::StatusOr<std::string> ParseWebhookSecret(const std::string& text) {
  constexpr size_t kMinBytes = 24;
  absl::string_view encoded = text;
  std::string secret;
  if (absl::ConsumePrefix(&encoded, "whsec_") && absl::Base64Unescape(encoded, &secret) &&
      secret.size() >= kMinBytes) {
    return secret;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the secret of webhooks must be whsec_ and at least ", kMinBytes, " bytes in Base64"));
}

std::string WebhookSignature(const std::string& secret, const std::string& id, int64_t unix_s,
                             const std::string& body) {
  const std::string signed_text = absl::StrCat(id, ".", unix_s, ".", body);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(signed_text.data()), signed_text.size(),
       digest.data(), &size);
  return absl::StrCat("v1,",
                      absl::Base64Escape({reinterpret_cast<const char*>(digest.data()), size}));
}

std::string WebhookBody(const server::EndedJob& ended, const server::Task& task, absl::Time now) {
  const json told = ToldReport(task, ended);
  const std::string state(server::JobStateName(ended.state));
  json data = {{"job", ended.id},
               {"state", state},
               {"source", Shown(task.shown_source, task.source)},
               {"report", told}};
  if (!task.reference.empty()) data["reference"] = task.reference;
  if (const std::string output = Shown(task.shown_output, task.output); !output.empty()) {
    data["output"] = output;
  }
  if (told.contains("width_px")) {
    data["size"] = json::object();
    for (const char* name : {"width_px", "height_px", "bytes"}) {
      if (told.contains(name)) data["size"][name] = told[name];
    }
  }
  if (told.contains("warnings")) data["warnings"] = told["warnings"];
  const json event = {{"type", absl::StrCat("upscale.job.", state)},
                      {"timestamp", absl::FormatTime(absl::RFC3339_sec, now, absl::UTCTimeZone())},
                      {"data", std::move(data)}};
  return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

WebhookTry SendWebhook(const std::string& secret, const server::EndedJob& ended,
                       const server::Task& task, absl::Time now, const AllowedPlaces& allowed,
                       std::stop_token stop) {
  const std::string body = WebhookBody(ended, task, now);
  const int64_t unix_s = absl::ToUnixSeconds(now);
  std::vector<std::string> fields = {"Content-Type: application/json",
                                     absl::StrCat("webhook-id: ", ended.id),
                                     absl::StrCat("webhook-timestamp: ", unix_s)};
  if (!secret.empty()) {
    fields.push_back(
        absl::StrCat("webhook-signature: ", WebhookSignature(secret, ended.id, unix_s, body)));
  }
  server::Telling telling{.tries = 1};
  const absl::Status posted =
      Post(task.webhook, fields, body, &allowed, std::move(stop), telling.answer);
  telling.told = posted.ok();
  telling.error = std::string(posted.message());
  const bool refused_here =
      telling.answer == 0 && (absl::IsPermissionDenied(posted) || absl::IsInvalidArgument(posted));
  constexpr int kGone = 410;
  const bool may_pass = !posted.ok() && !refused_here && telling.answer != kGone;
  return {.telling = std::move(telling), .may_pass = may_pass};
}

}  // namespace upscaled::client
