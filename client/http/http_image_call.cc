#include "client/http/http_image_call.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/error_details.h"
#include "client/http/event_stream.h"
#include "client/http/http_problem.h"
#include "engine/base/random_uuid.h"
#include "engine/base/status_macros.h"
#include "proto/json/enum_names.h"
#include "proto/json/message_json.h"

namespace upscaled::client {
namespace {

constexpr char kPath[] = "/v1/upscale";
constexpr char kProgressPath[] = "/v1/progress/";
// For the reason of a broken result.
constexpr absl::Duration kReasonPatience = absl::Seconds(1);

// A number in its shortest exact text.
std::string Number(double value) { return absl::StrFormat("%.17g", value); }

absl::Status LacksHeader() {
  return WithOrigin(absl::UnimplementedError("the answer lacks the field Upscale-Header"),
                    ErrorOrigin::kServer);
}

}  // namespace

HttpParameters ToParameters(const v1::UpscaleOptions& options) {
  HttpParameters parameters;
  const auto add = [&](const char* name, std::string value) {
    parameters.emplace_back(name, std::move(value));
  };
  const auto add_positive = [&](const char* name, int64_t value) {
    if (value > 0) add(name, absl::StrCat(value));
  };
  if (!options.model().empty()) add("model", options.model());
  if (options.has_noise_level()) add("noise_level", absl::StrCat(options.noise_level()));
  if (options.auto_noise()) add("noise_level", "auto");
  if (options.has_scale()) add("scale", Number(options.scale()));
  add_positive("width_px", options.size().width_px());
  add_positive("height_px", options.size().height_px());
  add_positive("short_side_px", options.size().short_side_px());
  add_positive("long_side_px", options.size().long_side_px());
  if (options.size().fit() != v1::FIT_UNSPECIFIED) {
    add("fit", ShortName(options.size().fit()));
  }
  add_positive("max_pixels", options.max_pixels());
  if (options.no_enlarge()) add("no_enlarge", "1");
  if (options.tta()) add("tta", "1");
  if (options.seamless()) add("seamless", "1");
  if (options.format() != v1::IMAGE_FORMAT_UNSPECIFIED) {
    add("format", ShortName(options.format()));
  }
  add_positive("quality", options.quality());
  if (options.has_png_compression()) {
    add("png_compression", absl::StrCat(options.png_compression()));
  }
  if (options.keep_16_bit()) add("keep_16_bit", "1");
  if (options.depth() != v1::DEPTH_UNSPECIFIED) {
    add("depth", ShortName(options.depth()));
  }
  if (options.alpha() != v1::ALPHA_METHOD_UNSPECIFIED) {
    add("alpha", ShortName(options.alpha()));
  }
  if (options.alpha_colour() != v1::ALPHA_COLOUR_UNSPECIFIED) {
    add("alpha_colour", ShortName(options.alpha_colour()));
  }
  if (options.has_keep_colours()) add("keep_colours", options.keep_colours() ? "1" : "0");
  if (options.metadata() != v1::METADATA_POLICY_UNSPECIFIED) {
    add("metadata", ShortName(options.metadata()));
  }
  if (options.on_damage() != v1::DAMAGE_POLICY_UNSPECIFIED) {
    add("on_damage", ShortName(options.on_damage()));
  }
  add_positive("frame", options.frame());
  if (options.precision() != v1::PRECISION_UNSPECIFIED) {
    add("precision", ShortName(options.precision()));
  }
  add_positive("tile_px", options.tile_px());
  if (options.has_prefilter()) {
    add("sigma_space", Number(options.prefilter().sigma_space()));
    add("sigma_range", Number(options.prefilter().sigma_range()));
  }
  return parameters;
}

absl::Status HttpImageCall::Run(const ImageRequest& request, const std::string& traceparent,
                                const std::string& priority, absl::Time deadline,
                                std::stop_token stop, ImageResult& result) {
  const std::string id = request.request_id.empty() ? RandomUuid() : request.request_id;
  HttpParameters parameters = ToParameters(request.options);
  parameters.emplace_back("request_id", id);
  if (!request.source_url.empty()) parameters.emplace_back("url", request.source_url);
  if (const absl::Duration left = deadline - absl::Now();
      left > absl::ZeroDuration() && left < absl::InfiniteDuration()) {
    parameters.emplace_back("timeout", Number(absl::ToDoubleSeconds(left)));
  }
  HttpTransfer image(target_,
                     {.path = kPath,
                      .parameters = std::move(parameters),
                      .body = &source_,
                      .traceparent = traceparent,
                      .priority = priority},
                     ImageListener(result));

  EventStream events(
      [this](absl::string_view name, absl::string_view data) { OnEvent(name, data); });
  const auto feed = [&events](absl::string_view bytes) {
    events.Feed(bytes);
    return absl::OkStatus();
  };
  HttpTransfer progress(target_,
                        {.path = absl::StrCat(kProgressPath, id), .traceparent = traceparent},
                        {.on_body = feed});

  transfers_.Start(progress);
  transfers_.Start(image);
  const absl::Cleanup remove = [&] {
    transfers_.Remove(image);
    transfers_.Remove(progress);
  };
  RETURN_IF_ERROR(transfers_.Await(image, deadline, stop));
  const absl::Status status = image.status();
  if (status.ok()) return CheckComplete(result);
  if (stop.stop_requested()) return absl::CancelledError("cancelled");
  if (!image.is_success() || DetailsOf(status).origin != ErrorOrigin::kConnection) return status;
  if (failure_.ok()) {
    const absl::Time patience = std::min(deadline, absl::Now() + kReasonPatience);
    (void)transfers_.Await(progress, patience, stop);
  }
  return failure_.ok() ? status : failure_;
}

HttpListener HttpImageCall::ImageListener(ImageResult& result) {
  return {.on_sent =
              [this, &result](int64_t bytes) {
                result.source_bytes = bytes;
                observer_.OnSent(bytes);
              },
          .on_field = [this, &result](absl::string_view name,
                                      absl::string_view value) { OnField(name, value, result); },
          .on_body = [this](absl::string_view bytes) -> absl::Status {
            if (!has_header_) return LacksHeader();
            received_bytes_ += static_cast<int64_t>(bytes.size());
            return sink_.Write(bytes);
          }};
}

void HttpImageCall::OnField(absl::string_view name, absl::string_view value, ImageResult& result) {
  if (name == "upscale-header" && ReadMessageJson(value, result.header)) {
    has_header_ = true;
    observer_.OnHeader(result.header);
  }
  if (name == "content-length" || name == "transfer-encoding") is_delimited_ = true;
  if (name == "upscale-summary") has_summary_ = ReadMessageJson(value, result.summary);
}

void HttpImageCall::OnEvent(absl::string_view name, absl::string_view data) {
  if (name == "failed") {
    failure_ = FromProblem(/*http_status=*/0, data, /*retry_after=*/"");
  } else if (name == "started" || name == "tiles") {
    v1::UpscaleProgress progress;
    if (ReadMessageJson(data, progress)) observer_.OnProgress(progress);
  }
}

absl::Status HttpImageCall::CheckComplete(ImageResult& result) const {
  if (!has_header_) return LacksHeader();
  if (!has_summary_ && !is_delimited_) {
    return WithOrigin(absl::DataLossError("the result ended without its summary"),
                      ErrorOrigin::kServer);
  }
  // nginx passes no trailers on.
  if (!has_summary_) result.summary.set_result_bytes(received_bytes_);
  if (result.summary.result_bytes() != received_bytes_) {
    return absl::DataLossError(absl::StrCat("received ", received_bytes_, " of ",
                                            result.summary.result_bytes(), " bytes of the result"));
  }
  return absl::OkStatus();
}

}  // namespace upscaled::client
