// Requests over HTTP and their answers, several at a time on one thread.
#pragma once

#include <curl/curl.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/http/body_reader.h"
#include "client/http/http_target.h"
#include "client/image_io.h"

namespace upscaled::client {

struct HttpRequest {
  std::string path;  // begins with a slash
  HttpParameters parameters = {};
  ImageSource* body = nullptr;                            // borrowed; null: GET, else POST
  const char* content_type = "application/octet-stream";  // of the body
  std::string traceparent = {};                           // W3C's field; "": none
  std::string priority = {};                              // upscale-priority; "": none
};

// Hears of a request; any may be empty. Called on the thread with the wait for the answer.
struct HttpListener {
  std::function<void(int64_t bytes)> on_sent;  // of the body, so far
  // A field of a successful answer, its name in lower case, or of its trailer.
  std::function<void(absl::string_view name, absl::string_view value)> on_field;
  // A part of a successful answer's body. An error ends the transfer.
  std::function<absl::Status(absl::string_view bytes)> on_body;
};

// One request and its answer. Not thread safe.
class HttpTransfer {
 public:
  HttpTransfer(const HttpTarget& target, HttpRequest request, HttpListener listener);
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  bool ended() const { return result_.has_value(); }
  int http_status() const { return http_status_; }  // 0: no answer yet
  // Whether a successful answer has begun.
  bool is_success() const { return http_status_ >= 200 && http_status_ < 300; }
  // Result of an ended transfer. The first of these:
  //  - an error of the body or of on_body, or INTERNAL if one of them or a listener threw
  //  - UNAVAILABLE if the connection failed
  //  - the server's error if the answer is not a success (see FromHttpAnswer)
  absl::Status status() const;

 private:
  friend class HttpTransfers;
  // libcurl's callbacks: an exception ends the transfer, and never unwinds through it.
  static size_t Send(char* to, size_t size, size_t count, void* self) noexcept;
  static int Seek(void* self, curl_off_t offset, int origin) noexcept;
  static size_t ReceiveField(char* line, size_t size, size_t count, void* self) noexcept;
  static size_t ReceiveBody(char* bytes, size_t size, size_t count, void* self) noexcept;

  // The result of `callback`; `failure` when it throws.
  template <typename Result, typename Callback>
  Result Guard(Result failure, Callback callback);
  size_t OnSend(std::span<char> dst);
  int OnSeek(curl_off_t offset, int origin);
  void OnField(absl::string_view line);
  size_t OnBody(absl::string_view part);

  void SetUpBody();
  void AddField(const std::string& field);
  // Reads the body again, if there is one, and calls `wake_` whenever there is more of it.
  void StartReading();
  // Goes on sending, if there was nothing to send.
  void Resume();

  const HttpRequest request_;
  const HttpListener listener_;
  std::array<char, CURL_ERROR_SIZE> error_text_ = {};
  int64_t sent_bytes_ = 0;
  int http_status_ = 0;
  std::string refusal_;      // the body of an answer that is no success
  std::string retry_after_;  // its field
  absl::Status local_error_;
  std::optional<CURLcode> result_;  // when it has ended
  std::function<void()> wake_;      // who waits for it; thread safe
  bool waits_for_body_ = false;
  std::unique_ptr<curl_slist, CurlDeleter> fields_;
  std::unique_ptr<CURL, CurlEasyDeleter> easy_;
  std::optional<BodyReader> reader_;  // last: it calls wake_
};

// Keeps connections for the next transfers. One thread at a time.
class HttpTransfers {
 public:
  HttpTransfers() : multi_(curl_multi_init()) {}

  void Start(HttpTransfer& transfer);
  // Drives all started ones until `transfer` has ended. DEADLINE_EXCEEDED and CANCELLED come first
  // at `deadline` and at the request of `stop`.
  absl::Status Await(HttpTransfer& transfer, absl::Time deadline, std::stop_token stop);
  // Ends it, if it has not ended, and forgets it.
  void Remove(HttpTransfer& transfer) {
    curl_multi_remove_handle(multi_.get(), transfer.easy_.get());
  }

 private:
  void RecordEnds();

  std::unique_ptr<CURLM, CurlMultiDeleter> multi_;
};

}  // namespace upscaled::client
