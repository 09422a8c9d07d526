// The request of POST /v1/upscale: its options, and the bytes of its image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/cancellation.h"
#include "engine/image/byte_stream.h"
#include "server/admission/admission.h"
#include "server/base/payer.h"
#include "server/base/request_record.h"
#include "server/fetch/fetcher.h"
#include "server/http/http_exchange.h"
#include "server/rest/multipart.h"
#include "server/rest/upscale_parameters.h"
#include "server/results/digest.h"

namespace upscaled::server {

// The image is the body itself, or a part "image" or "file" of multipart/form-data, or base64 text
// in JSON or in a data: URL, or is at a URL in the fields. Fields of a form may stand on both sides
// of the image, as curl's users write them. So the whole form is read before the image is: it waits
// in memory up to kMaxHeldBytes, the rest of it on the disk (BodySpool).
class Upload {
 public:
  static constexpr size_t kMaxHeldBytes = size_t{8} << 20;
  // Bytes of a body of JSON, and of a data: URL.
  static constexpr size_t kMaxTextBytes = size_t{16} << 20;

  // `slot` is the call's. The call waits for its client while it reads the body. All must outlive
  // it.
  Upload(HttpExchange& exchange, AdmissionController& admission,
         AdmissionController::CallSlot& slot, const Payer& payer, RequestRecord& record,
         UpscaleParameters& parameters);

  // First, and before the body has come: reads the header and the query. UNIMPLEMENTED
  // (kUnsupported) for a body with a Content-Encoding. INVALID_ARGUMENT (kInvalidOption) for
  // options refused by ParameterReader, (kLimitExceeded) for an image with too large a length.
  absl::Status CheckHeader();
  // Reads the whole form, or the JSON. INVALID_ARGUMENT (kInvalidOption) for refusals of
  // ParameterReader and MultipartReader, and for no or a second image; (kLimitExceeded) for too
  // large an image; as Reserve and BodySpool if it cannot be kept; as HttpExchange::Read.
  absl::Status Open();

  // After Open, where the fields name a URL (but no data: URL, read by Open), for image() to read.
  // `fetcher` and `cancellation` must outlive this. As Fetcher and Reserve; as Open for too large
  // an image.
  absl::Status Fetch(const std::string& url, const Fetcher& fetcher, Cancellation& cancellation);

  // Takes the number of image bytes read so far, from their reader.
  void OnReceived(std::function<void(int64_t bytes)> callback) {
    on_received_ = std::move(callback);
  }

  // After Open. INVALID_ARGUMENT (kLimitExceeded) beyond --max-source-bytes. Other errors as Open,
  // or as Transfer::Read.
  ByteSource& image() { return *image_; }
  // Its bytes at most; 0: unknown.
  int64_t image_bytes() const { return image_bytes_; }
  // The image's file name, as the form or the URL has it; "" without a name.
  const std::string& file_name() const { return file_name_; }

  // The SHA-256 that the client names for an image that is the body (content_digest.h).
  std::optional<Digest> digest() const { return digest_; }

 private:
  class SpooledSource;
  class CountedSource;

  absl::Status ReadForm();
  absl::Status ReadJson();
  // Whether the image is the body itself.
  bool InBody() const;
  // Memory for a text with an image, once.
  absl::Status ReserveText();
  // Makes `bytes`, decoded from text, the form's image.
  absl::Status HoldDecoded(std::string_view bytes);
  absl::Status OpenImage();     // that is sent
  absl::Status CheckNoImage();  // that nothing is sent beside a URL
  absl::StatusOr<std::string> ReadValue(const MultipartPart& part);
  // Keeps the reader's present image. KeepBeginning reads its first kMaxHeldBytes, or all.
  absl::Status KeepImage();
  absl::Status KeepBeginning();

  HttpExchange& exchange_;
  AdmissionController& admission_;
  const Payer& payer_;
  RequestRecord& record_;
  UpscaleParameters& parameters_;
  ParameterReader reader_;
  const std::unique_ptr<ByteSource> body_;
  std::optional<MultipartReader> multipart_;
  AdmissionController::Reservation held_memory_, text_memory_, fetch_memory_;
  std::optional<Digest> digest_;
  bool is_json_ = false;
  bool has_image_ = false;  // the form, the JSON or a data: URL
  std::vector<uint8_t> held_;
  std::string file_name_;
  std::function<void(int64_t)> on_received_;
  int64_t image_bytes_ = 0;
  std::unique_ptr<ByteSource> spooled_, kept_, fetched_, image_;
};

}  // namespace upscaled::server
