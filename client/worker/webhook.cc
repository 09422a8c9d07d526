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
json ToldReport(const server::Task& task, server::JobState state, const std::string& report) {
  if (state == server::JobState::kFailed && !task.shown_output.empty()) {
    const server::JobFailure failure = server::ReadFailure(report);
    return {{"code", failure.code}, {"reason", failure.reason}, {"message", failure.message}};
  }
  json object = ParseShallow(report);
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

std::string WebhookBody(const std::string& job, const server::Task& task, server::JobState state,
                        const std::string& report, absl::Time now) {
  const json told = ToldReport(task, state, report);
  json data = {{"job", job},
               {"state", std::string(server::JobStateName(state))},
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
  const json event = {{"type", absl::StrCat("upscale.job.", server::JobStateName(state))},
                      {"timestamp", absl::FormatTime(absl::RFC3339_sec, now, absl::UTCTimeZone())},
                      {"data", std::move(data)}};
  return event.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::Status SendWebhook(const std::string& secret, const std::string& job,
                         const server::Task& task, server::JobState state,
                         const std::string& report, absl::Time now, const AllowedPlaces& allowed,
                         std::stop_token stop) {
  const std::string body = WebhookBody(job, task, state, report, now);
  const int64_t unix_s = absl::ToUnixSeconds(now);
  std::vector<std::string> fields = {"Content-Type: application/json",
                                     absl::StrCat("webhook-id: ", job),
                                     absl::StrCat("webhook-timestamp: ", unix_s)};
  if (!secret.empty()) {
    fields.push_back(
        absl::StrCat("webhook-signature: ", WebhookSignature(secret, job, unix_s, body)));
  }
  return Post(task.webhook, fields, body, &allowed, std::move(stop));
}

}  // namespace upscaled::client
