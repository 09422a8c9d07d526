#include "server/identity/issuer_keys.h"

#include <curl/curl.h>

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/base/curl_url.h"
#include "server/identity/strict_json.h"

namespace upscaled::server {
namespace {

constexpr char kConfigurationPath[] = "/.well-known/openid-configuration";
constexpr size_t kMaxConfigurationBytes = size_t{256} << 10;
constexpr long kTimeoutMs = 10'000, kOk = 200;

struct CurlDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};

struct Body {
  std::string text;
  size_t max_bytes;
};

size_t OnBody(char* bytes, size_t size, size_t count, void* body) {
  auto& [text, max_bytes] = *static_cast<Body*>(body);
  if (text.size() + size * count > max_bytes) return 0;  // an error to curl
  text.append(bytes, size * count);
  return size * count;
}

// No redirects, no proxy of the environment, no cookies.
absl::StatusOr<std::string> Get(const std::string& url, const std::filesystem::path& ca,
                                size_t max_bytes) {
  const std::unique_ptr<CURL, CurlDeleter> easy(curl_easy_init());
  if (easy == nullptr) return absl::UnavailableError("libcurl cannot be used");
  Body body{.text = "", .max_bytes = max_bytes};
  char error[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &body);
  curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, kTimeoutMs);
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(easy.get(), CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(easy.get(), CURLOPT_USERAGENT, "upscaled");
  if (!ca.empty()) {
    curl_easy_setopt(easy.get(), CURLOPT_CAINFO, ca.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_CAPATH, nullptr);
  }
  const CURLcode code = curl_easy_perform(easy.get());
  if (code == CURLE_WRITE_ERROR) {
    return absl::InvalidArgumentError(absl::StrCat(url, ": has more than ", max_bytes, " bytes"));
  }
  if (code != CURLE_OK) {
    return absl::UnavailableError(
        absl::StrCat(url, ": ", error[0] != '\0' ? error : curl_easy_strerror(code)));
  }
  long status = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status == kOk) return std::move(body.text);
  return absl::UnavailableError(absl::StrCat(url, ": answers with the status ", status));
}

// The place of the key set, of the issuer's own configuration.
absl::StatusOr<std::string> KeySetUrl(const std::string& configuration, const std::string& issuer) {
  const nlohmann::json json = nlohmann::json::parse(configuration, nullptr, false);
  if (!json.is_object()) return Wrong("is no JSON object");
  ASSIGN_OR_RETURN(const std::string named, TextOf(json, "issuer"));
  if (named != issuer) return Wrong(absl::StrCat("is of the issuer ", Shown(named)));
  ASSIGN_OR_RETURN(const std::string url, TextOf(json, "jwks_uri"));
  RETURN_IF_ERROR(CheckIssuerUrl(url));
  return url;
}

absl::Status At(const std::string& url, const absl::Status& status) {
  return {status.code(), absl::StrCat(url, ": ", status.message())};
}

}  // namespace

absl::Status CheckIssuerUrl(const std::string& text) {
  CurlUrl url;
  if (url.Read(text) != CURLUE_OK || !url.Part(CURLUPART_USER).empty() ||
      !url.Part(CURLUPART_FRAGMENT).empty()) {
    return Wrong(absl::StrCat(Shown(text), " must be a URL like https://login.example.org"));
  }
  const std::string scheme = url.Part(CURLUPART_SCHEME);
  const std::string host = url.Part(CURLUPART_HOST);
  const bool loopback = host == "127.0.0.1" || host == "[::1]" || host == "localhost";
  if (scheme == "https" || (scheme == "http" && loopback)) return absl::OkStatus();
  return Wrong(absl::StrCat(Shown(text), " must begin with https://"));
}

absl::StatusOr<std::string> FetchIssuerKeys(const Issuer& issuer) {
  const std::string configuration_url =
      absl::StrCat(absl::StripSuffix(issuer.url, "/"), kConfigurationPath);
  ASSIGN_OR_RETURN(const std::string configuration,
                   Get(configuration_url, issuer.ca, kMaxConfigurationBytes));
  const absl::StatusOr<std::string> url = KeySetUrl(configuration, issuer.url);
  if (!url.ok()) return At(configuration_url, url.status());
  ASSIGN_OR_RETURN(std::string text, Get(*url, issuer.ca, kMaxKeySetBytes));
  if (const auto keys = KeySet::Parse(text); !keys.ok()) return At(*url, keys.status());
  return text;
}

IssuerKeys::IssuerKeys(Timer& timer, Issuer issuer, absl::Duration min_interval, Fetch fetch)
    : issuer_(std::move(issuer)),
      min_interval_(min_interval),
      fetch_(std::move(fetch)),
      task_(
          timer, Timer::Length::kMayBlock, [this] { Update(); }, kInterval) {
  task_.Request();
}

std::shared_ptr<const KeySet> IssuerKeys::get() const {
  absl::MutexLock lock(&mutex_);
  return keys_;
}

void IssuerKeys::Await(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  tried_condition_.Await(mutex_, timeout, [this] {
    mutex_.AssertHeld();
    return tried_;
  });
}

absl::Status IssuerKeys::TakeFailure() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(failure_, absl::OkStatus());
}

void IssuerKeys::Request() {
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = absl::Now();
    if (now - last_ < min_interval_) return;
    last_ = now;
  }
  task_.Request();
}

void IssuerKeys::Update() {
  absl::StatusOr<std::string> text = fetch_(issuer_);
  absl::StatusOr<KeySet> keys = text.ok() ? KeySet::Parse(*text) : text.status();
  absl::MutexLock lock(&mutex_);
  last_ = absl::Now();
  tried_ = true;
  tried_condition_.NotifyAll();
  failure_ = keys.status();
  if (!keys.ok() || *text == text_) return;
  text_ = *std::move(text);
  keys_ = std::make_shared<const KeySet>(*std::move(keys));
}

}  // namespace upscaled::server
