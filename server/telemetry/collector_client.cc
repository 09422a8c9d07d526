#include "server/telemetry/collector_client.h"

#include <algorithm>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{64} << 10;
constexpr int kPollMs = 50;

// The state for curl before the first handle, and until the last has gone.
CURLM* InitMulti() {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  return curl_multi_init();
}

}  // namespace

CollectorClient::CollectorClient(const std::string& url)
    : multi_(InitMulti(), curl_multi_cleanup),
      easy_(curl_easy_init(), curl_easy_cleanup),
      fields_(curl_slist_append(nullptr, "Content-Type: application/x-protobuf"),
              curl_slist_free_all) {
  if (multi_ == nullptr || easy_ == nullptr || fields_ == nullptr) throw std::bad_alloc();
  curl_slist_append(fields_.get(), "Expect:");  // no waiting for a word before long messages
  const auto set = [this](CURLoption option, auto value) {
    UPSCALED_CHECK(curl_easy_setopt(easy_.get(), option, value) == CURLE_OK);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_POST, 1L);
  set(CURLOPT_HTTPHEADER, fields_.get());
  set(CURLOPT_PROXY, "");
  set(CURLOPT_USERAGENT, "upscaled");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_WRITEFUNCTION, &CollectorClient::OnBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&answer_));
#if CURL_AT_LEAST_VERSION(7, 87, 0)
  set(CURLOPT_QUICK_EXIT, 1L);  // the end waits for no resolver
#endif
}

CollectorClient::~CollectorClient() { curl_multi_remove_handle(multi_.get(), easy_.get()); }

size_t CollectorClient::OnBody(const char* bytes, size_t size, size_t count, void* answer) {
  auto& text = *static_cast<std::string*>(answer);
  text.append(bytes, std::min(size * count, kMaxAnswerBytes - text.size()));
  return size * count;
}

absl::StatusOr<std::string> CollectorClient::Post(std::string_view message,
                                                  const std::function<bool()>& go_on) {
  answer_.clear();
  curl_easy_setopt(easy_.get(), CURLOPT_POSTFIELDS, message.data());
  curl_easy_setopt(easy_.get(), CURLOPT_POSTFIELDSIZE_LARGE,
                   static_cast<curl_off_t>(message.size()));
  curl_multi_add_handle(multi_.get(), easy_.get());
  const absl::StatusOr<CURLcode> code = Perform(go_on);
  curl_multi_remove_handle(multi_.get(), easy_.get());
  RETURN_IF_ERROR(code.status());
  if (*code != CURLE_OK) return absl::UnavailableError(curl_easy_strerror(*code));
  long status = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status / 100 != 2) return absl::UnavailableError(absl::StrCat("it answered ", status));
  return answer_;
}

absl::StatusOr<CURLcode> CollectorClient::Perform(const std::function<bool()>& go_on) {
  for (int running = 1; running > 0;) {
    if (!go_on()) return absl::DeadlineExceededError("it did not answer in time");
    CURLMcode code = curl_multi_perform(multi_.get(), &running);
    if (code == CURLM_OK && running > 0) {
      code = curl_multi_poll(multi_.get(), nullptr, 0, kPollMs, nullptr);
    }
    if (code != CURLM_OK) return absl::UnavailableError(curl_multi_strerror(code));
  }
  int left = 0;
  const CURLMsg* const end = curl_multi_info_read(multi_.get(), &left);
  return end == nullptr ? CURLE_FAILED_INIT : end->data.result;
}

}  // namespace upscaled::server
