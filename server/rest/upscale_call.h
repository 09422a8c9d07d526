// POST /v1/upscale: an image in, the upscaled image out. GET of a signed URL: the same, for caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/image/byte_stream.h"
#include "server/admission/admission.h"
#include "server/calls/call_context.h"
#include "server/options/request_options.h"
#include "server/rest/rest_call.h"
#include "server/rest/upload.h"
#include "server/rest/upscale_parameters.h"

namespace upscaled::server {

// A source that keeps all read bytes, to be given once more.
class KeptSource final : public ByteSource {
 public:
  // Keeps up to `max_bytes`; `source` must outlive it.
  KeptSource(ByteSource& source, size_t max_bytes) : source_(source), max_bytes_(max_bytes) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    const absl::StatusOr<size_t> count = source_.Read(dst);
    if (!count.ok()) lost_ = true;
    if (!count.ok() || lost_) return count;
    lost_ = kept_.size() + *count > max_bytes_;
    if (lost_) {
      kept_ = {};
    } else {
      kept_.insert(kept_.end(), dst.begin(), dst.begin() + static_cast<ptrdiff_t>(*count));
    }
    return count;
  }

  // Whether kept() and the unread rest are the whole: nothing failed, nothing was too much.
  bool whole() const { return !lost_; }
  std::span<const uint8_t> kept() const { return kept_; }
  // The bytes after kept().
  ByteSource& rest() { return source_; }

 private:
  ByteSource& source_;
  const size_t max_bytes_;
  std::vector<uint8_t> kept_;
  bool lost_ = false;
};

// The transport reads its body while it works. HEAD asks for a verdict as dry_run does. A client
// with a preference for respond-async gets a job if the server keeps jobs.
class UpscaleCall final : public RestCall {
 public:
  // Answers `exchange`; on the server's thread.
  static void Begin(RestHost& host, std::unique_ptr<HttpExchange> exchange);

  UpscaleCall(RestHost& host, std::unique_ptr<HttpExchange> exchange)
      : RestCall(host, std::move(exchange), "Upscale"),
        upload_(this->exchange(), host.calls.admission, slot(), payer(), record(), parameters_) {}

 private:
  absl::Status CheckHeader() override;
  bool AwaitsBody() const override { return !IsVerdict(); }
  void Run() override;
  void Conclude(const absl::Status& status) override;

  // Whether the client asks for a verdict. The first bytes of the image are enough for one. HEAD of
  // a signed URL asks for the header of its GET.
  bool IsVerdict() const {
    return parameters_.dry_run || (request().method == "HEAD" && !request().signed_until);
  }
  // How long shared caches may keep the answer; nullopt: not at all.
  std::optional<absl::Duration> PublicFor() const;
  // For the first bytes of the body to come.
  void WatchStart();
  // Leaves the answer, or its end, to be sent.
  absl::Status Answer();
  absl::Status Judge(const RequestOptions& options);
  absl::Status Upscale(RequestOptions options);
  // Whether the client prefers a job, and its request can be one.
  bool WantsJob() const;
  absl::Status SubmitJob();
  // Whether Accept takes the result, unless the request names a format. Not: leaves a fault (406).
  absl::Status CheckAccept(const upscale::v1::UpscaleImageHeader& header);
  void Announce(const upscale::v1::UpscaleImageHeader& header);
  // Whether the client gets the source after `error`.
  bool AnswerOriginal(const absl::Status& error);
  CallContext MakeContext() {
    return {cancellation(), record(), start(), reservation_, payer(), deadline()};
  }

  AdmissionController::Reservation reservation_, kept_memory_;
  Watchdog::Id watch_;
  UpscaleParameters parameters_;
  Upload upload_;
  std::optional<KeptSource> kept_;
  ProgressBoard::Entry progress_;
  std::vector<std::string> header_warnings_;
  std::vector<HttpField> last_fields_;
  std::string summary_json_;
};

}  // namespace upscaled::server
