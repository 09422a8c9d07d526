#include "client/jobs/webhook.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/jobs/url_file.h"
#include "nlohmann/json.hpp"

namespace upscaled::client {

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

absl::Status SendWebhook(const std::string& url, const std::string& secret, const std::string& job,
                         JobState state, const std::string& report, absl::Time now,
                         const AllowedPlaces& allowed, std::stop_token stop) {
  const nlohmann::json event = {
      {"type", absl::StrCat("upscale.job.", JobStateName(state))},
      {"timestamp", absl::FormatTime(absl::RFC3339_sec, now, absl::UTCTimeZone())},
      {"data", {{"job", job}, {"report", nlohmann::json::parse(report, nullptr, false)}}}};
  const std::string body = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const int64_t unix_s = absl::ToUnixSeconds(now);
  std::vector<std::string> fields = {"Content-Type: application/json",
                                     absl::StrCat("webhook-id: ", job),
                                     absl::StrCat("webhook-timestamp: ", unix_s)};
  if (!secret.empty()) {
    fields.push_back(
        absl::StrCat("webhook-signature: ", WebhookSignature(secret, job, unix_s, body)));
  }
  return Post(url, fields, body, &allowed, std::move(stop));
}

}  // namespace upscaled::client
