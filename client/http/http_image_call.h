// One try of UpscaleImage over HTTP. Internal to the library.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/http/http_target.h"
#include "client/http/http_transfer.h"
#include "client/service.h"

namespace upscaled::client {

// The query of POST /v1/upscale for these options, without defaults.
HttpParameters ToParameters(const v1::UpscaleOptions& options);

// The image goes up and its result comes down on one connection. A second one brings the events of
// its progress; the last of them says why a result broke off. Losing those is no error. Used once.
class HttpImageCall {
 public:
  // All are borrowed.
  HttpImageCall(const HttpTarget& target, HttpTransfers& transfers, ImageSource& source,
                ImageSink& sink, ImageObserver& observer)
      : target_(target), transfers_(transfers), source_(source), sink_(sink), observer_(observer) {}

  // Fills `result` but for its attempts. `traceparent` and `priority` go along, unless they are
  // empty.
  absl::Status Run(const ImageRequest& request, const std::string& traceparent,
                   const std::string& priority, absl::Time deadline, std::stop_token stop,
                   ImageResult& result);

 private:
  HttpListener ImageListener(ImageResult& result);
  void OnField(absl::string_view name, absl::string_view value, ImageResult& result);
  void OnEvent(absl::string_view name, absl::string_view data);
  absl::Status CheckComplete(ImageResult& result) const;

  const HttpTarget& target_;
  HttpTransfers& transfers_;
  ImageSource& source_;
  ImageSink& sink_;
  ImageObserver& observer_;
  int64_t received_bytes_ = 0;
  bool has_header_ = false;
  bool has_summary_ = false;
  bool is_delimited_ = false;  // the answer's end is its own, and not the connection's
  absl::Status failure_;       // that the events told of
};

}  // namespace upscaled::client
