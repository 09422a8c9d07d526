// Hands messages to a collector over HTTP.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace upscaled::server {

// One message at a time, over a kept connection. Not thread safe.
class CollectorClient {
 public:
  // `url` is a whole one. Takes nothing out of the environment: no proxy.
  explicit CollectorClient(const std::string& url);
  ~CollectorClient();
  CollectorClient(const CollectorClient&) = delete;
  CollectorClient& operator=(const CollectorClient&) = delete;

  // The body of the answer, at most its first 64 KiB. `go_on` is asked every 50 ms at least;
  // DEADLINE_EXCEEDED when it says no. UNAVAILABLE: there is no answer, or none with 2xx.
  absl::StatusOr<std::string> Post(std::string_view message, const std::function<bool()>& go_on);

 private:
  static size_t OnBody(const char* bytes, size_t size, size_t count, void* answer);
  absl::StatusOr<CURLcode> Perform(const std::function<bool()>& go_on);

  const std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi_;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy_;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> fields_;
  std::string answer_;
};

}  // namespace upscaled::server
