#include "server/rest/upload.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/image/replay_source.h"
#include "server/base/error.h"
#include "server/rest/body_source.h"
#include "server/rest/content_digest.h"
#include "server/rest/json_body.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxValueBytes = 4096;
constexpr size_t kReadBytes = size_t{64} << 10;

absl::Status CheckEncoding(const HttpRequest& request) {
  const std::string encodings = request.AllFields("Content-Encoding");
  const absl::string_view encoding = absl::StripAsciiWhitespace(encodings);
  if (encoding.empty() || absl::EqualsIgnoreCase(encoding, "identity")) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnimplemented, ErrorReason::kUnsupported,
                   absl::StrCat("the body has the Content-Encoding \"", encoding.substr(0, 64),
                                "\"; send it without one"),
                   {{"field", "Content-Encoding"}});
}

absl::Status TextTooLong(std::string_view text) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                   absl::StrCat(ToAbsl(text), " has more than ", Upload::kMaxTextBytes,
                                " bytes; send a larger image as the body or in a form"),
                   {{"limit", "text-bytes"}, {"maximum", absl::StrCat(Upload::kMaxTextBytes)}});
}

absl::Status FileInOtherField(const std::string& name) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                   absl::StrCat("a file is in the form's field \"", name.substr(0, 64),
                                "\"; the image's field is called image or file (-F image=@FILE)"),
                   {{"field", name.substr(0, 64)}});
}

}  // namespace

// The part of a form's image on the disk.
class Upload::SpooledSource final : public ByteSource {
 public:
  explicit SpooledSource(std::unique_ptr<BodySpool> spool) : spool_(std::move(spool)) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override { return spool_->Read(dst); }

 private:
  const std::unique_ptr<BodySpool> spool_;
};

// The image's bytes within their limit.
class Upload::CountedSource final : public ByteSource {
 public:
  CountedSource(ByteSource& source, Upload& upload) : source_(source), upload_(upload) {}

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    ASSIGN_OR_RETURN(const size_t count, source_.Read(dst));
    int64_t& received = upload_.record_.received_bytes;
    received += static_cast<int64_t>(count);
    if (upload_.fetched_ != nullptr) {  // a body is charged as it comes
      upload_.admission_.Receive(upload_.payer_, static_cast<int64_t>(count)).IgnoreError();
    }
    RETURN_IF_ERROR(CheckSourceBytes(upload_.admission_.limits(), received));
    if (upload_.on_received_ != nullptr) upload_.on_received_(received);
    return count;
  }

 private:
  ByteSource& source_;
  Upload& upload_;
};

Upload::Upload(HttpExchange& exchange, AdmissionController& admission,
               AdmissionController::CallSlot& slot, const Payer& payer, RequestRecord& record,
               UpscaleParameters& parameters)
    : exchange_(exchange),
      admission_(admission),
      payer_(payer),
      record_(record),
      parameters_(parameters),
      reader_(parameters),
      body_(std::make_unique<BodySource>(exchange, slot, admission, payer)) {}

absl::Status Upload::CheckHeader() {
  const HttpRequest& request = exchange_.request();
  RETURN_IF_ERROR(CheckEncoding(request));
  ASSIGN_OR_RETURN(const std::vector<FormField> query, ParseQuery(request.query));
  for (const FormField& field : query) RETURN_IF_ERROR(reader_.Read(field));
  if (parameters_.request_id.empty()) {
    parameters_.request_id = std::string(request.Field("X-Request-Id"));
  }
  const std::string_view type = request.Field("Content-Type");
  if (IsMultipart(type)) {
    ASSIGN_OR_RETURN(const std::string boundary, MultipartBoundary(type));
    multipart_.emplace(*body_, boundary);
  }
  is_json_ = !multipart_.has_value() && IsJson(type);
  if (multipart_.has_value() || is_json_) {
    RETURN_IF_ERROR(CheckNoContentDigest(request, is_json_ ? "JSON" : "a form"));
  } else if (!parameters_.url.empty()) {
    RETURN_IF_ERROR(CheckNoContentDigest(request, "an image that url names"));
  } else {
    ASSIGN_OR_RETURN(digest_, ReadContentDigest(request));
  }
  if (!InBody()) return absl::OkStatus();
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  image_bytes_ = static_cast<int64_t>(std::min(request.content_length.value_or(0), kMax));
  return CheckSourceBytes(admission_.limits(), image_bytes_);
}

absl::Status Upload::Open() {
  if (multipart_.has_value()) RETURN_IF_ERROR(ReadForm());
  if (is_json_) RETURN_IF_ERROR(ReadJson());
  if (!parameters_.url.empty()) RETURN_IF_ERROR(CheckNoImage());
  if (IsDataUrl(parameters_.url)) {
    ASSIGN_OR_RETURN(const std::string bytes, DecodeDataUrl(parameters_.url));
    parameters_.url.clear();
    RETURN_IF_ERROR(HoldDecoded(bytes));
  }
  return parameters_.url.empty() ? OpenImage() : absl::OkStatus();
}

bool Upload::InBody() const { return !multipart_.has_value() && !is_json_ && !has_image_; }

absl::Status Upload::OpenImage() {
  const bool in_body = InBody();
  if (!in_body) {
    if (!has_image_) {
      return InvalidForm(is_json_ ? "the JSON has no image: no \"image\" in base64, and no \"url\""
                                  : "the form has no image: no file field \"image\" or \"file\", "
                                    "and no url");
    }
    kept_ = std::make_unique<ReplaySource>(std::move(held_), *spooled_);
  }
  image_ = std::make_unique<CountedSource>(in_body ? *body_ : *kept_, *this);
  return absl::OkStatus();
}

absl::Status Upload::CheckNoImage() {
  size_t sent = has_image_ ? 1 : 0;
  if (!multipart_.has_value() && !is_json_) {
    uint8_t first = 0;
    ASSIGN_OR_RETURN(sent, body_->Read({&first, 1}));
  }
  if (sent == 0) return absl::OkStatus();
  return InvalidForm("url is given next to an image that is sent; only one of them can be");
}

absl::Status Upload::Fetch(const std::string& text, const Fetcher& fetcher,
                           Cancellation& cancellation) {
  ASSIGN_OR_RETURN(const SourceUrl url, fetcher.Check(text));
  record_.fetched_from = url.Origin();
  ASSIGN_OR_RETURN(fetch_memory_,
                   admission_.Reserve({.memory_bytes = Fetcher::kMemoryBytes, .payer = payer_}));
  ASSIGN_OR_RETURN(FetchedSource fetched, fetcher.Fetch(url, cancellation));
  RETURN_IF_ERROR(CheckSourceBytes(admission_.limits(), fetched.total_bytes));
  file_name_ = url.FileName();
  image_bytes_ = fetched.total_bytes;
  fetched_ = std::move(fetched.bytes);
  image_ = std::make_unique<CountedSource>(*fetched_, *this);
  return absl::OkStatus();
}

absl::Status Upload::ReadForm() {
  size_t fields = 0;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<MultipartPart> part, multipart_->Next());
    if (!part.has_value()) return absl::OkStatus();
    if (++fields > kMaxFormFields) {
      return InvalidForm(absl::StrCat("the form has more than ", kMaxFormFields, " fields"));
    }
    if (!IsImage(*part)) {
      if (part->file_name.has_value()) return FileInOtherField(part->name);
      ASSIGN_OR_RETURN(std::string value, ReadValue(*part));
      RETURN_IF_ERROR(reader_.Read({part->name, std::move(value)}));
      continue;
    }
    if (has_image_) return InvalidForm("the form has two images; there can be one");
    file_name_ = part->file_name.value_or("");
    RETURN_IF_ERROR(KeepImage());
    // Browsers send a file input without a file so.
    has_image_ = image_bytes_ > 0 || part->file_name != "";
  }
}

absl::Status Upload::ReadJson() {
  RETURN_IF_ERROR(ReserveText());
  std::string text;
  std::vector<uint8_t> piece(kReadBytes);
  while (true) {
    ASSIGN_OR_RETURN(const size_t count, body_->Read(piece));
    if (count == 0) break;
    text.append(reinterpret_cast<const char*>(piece.data()), count);
    if (text.size() > kMaxTextBytes) return TextTooLong("the JSON");
  }
  ASSIGN_OR_RETURN(const JsonBody json, ParseJsonBody(text));
  for (const FormField& field : json.fields) RETURN_IF_ERROR(reader_.Read(field));
  return json.image.has_value() ? HoldDecoded(*json.image) : absl::OkStatus();
}

absl::Status Upload::HoldDecoded(std::string_view bytes) {
  held_.assign(bytes.begin(), bytes.end());
  spooled_ = std::make_unique<SpooledSource>(exchange_.MakeSpool());
  image_bytes_ = static_cast<int64_t>(bytes.size());
  has_image_ = true;
  return CheckSourceBytes(admission_.limits(), image_bytes_);
}

absl::Status Upload::ReserveText() {
  if (text_memory_.holds()) return absl::OkStatus();
  const uint64_t told = exchange_.request().content_length.value_or(kMaxTextBytes);
  const auto bytes = static_cast<int64_t>(std::min<uint64_t>(told, kMaxTextBytes));
  // The text, doubling as it grows, a value of it, and the decoded value.
  ASSIGN_OR_RETURN(text_memory_, admission_.Reserve({.memory_bytes = 4 * bytes, .payer = payer_}));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Upload::ReadValue(const MultipartPart& part) {
  std::string value;
  uint8_t bytes[512];
  while (true) {
    ASSIGN_OR_RETURN(const size_t count, multipart_->Read(bytes));
    if (count == 0) return value;
    value.append(reinterpret_cast<const char*>(bytes), count);
    if (value.size() <= kMaxValueBytes) continue;
    if (part.name == "url" && IsDataUrl(value)) {
      RETURN_IF_ERROR(ReserveText());
      if (value.size() > kMaxTextBytes) return TextTooLong("the data: URL");
    } else {
      return InvalidForm(absl::StrCat("the field \"", part.name.substr(0, 64), "\" has more than ",
                                      kMaxValueBytes,
                                      " bytes; the image's is called image or file"));
    }
  }
}

absl::Status Upload::KeepImage() {
  RETURN_IF_ERROR(KeepBeginning());
  auto spool = exchange_.MakeSpool();
  std::vector<uint8_t> piece(kReadBytes);
  image_bytes_ = static_cast<int64_t>(held_.size());
  while (true) {
    ASSIGN_OR_RETURN(const size_t count, multipart_->Read(piece));
    if (count == 0) break;
    image_bytes_ += static_cast<int64_t>(count);
    RETURN_IF_ERROR(CheckSourceBytes(admission_.limits(), image_bytes_));
    RETURN_IF_ERROR(spool->Append(std::span(piece).first(count)));
  }
  spooled_ = std::make_unique<SpooledSource>(std::move(spool));
  return absl::OkStatus();
}

absl::Status Upload::KeepBeginning() {
  const uint64_t told = exchange_.request().content_length.value_or(kMaxHeldBytes);
  const auto room = static_cast<size_t>(std::min<uint64_t>(told, kMaxHeldBytes));
  // Twice: it grows by doubling.
  ASSIGN_OR_RETURN(held_memory_, admission_.Reserve({.memory_bytes = static_cast<int64_t>(2 * room),
                                                     .payer = payer_}));
  size_t size = 0;
  while (size < kMaxHeldBytes) {
    if (held_.size() - size < kReadBytes) {
      held_.resize(std::min(std::max(2 * size, size + kReadBytes), kMaxHeldBytes));
    }
    ASSIGN_OR_RETURN(const size_t count, multipart_->Read(std::span(held_).subspan(size)));
    if (count == 0) break;
    size += count;
  }
  held_.resize(size);
  return CheckSourceBytes(admission_.limits(), static_cast<int64_t>(size));
}

}  // namespace upscaled::server
