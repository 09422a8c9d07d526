#include "server/rest/answer_sink.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/image/memory_io.h"

namespace upscaled::server {

void AnswerSink::Open(HttpResponse response, std::vector<std::string> last_names) {
  response_ = std::move(response);
  last_names_ = std::move(last_names);
}

absl::Status AnswerSink::Write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    if (piece_.capacity() < kPieceBytes) piece_.reserve(kPieceBytes);
    if (piece_.size() == kPieceBytes) RETURN_IF_ERROR(Flush());
    const size_t count = std::min(bytes.size(), kPieceBytes - piece_.size());
    piece_.append(reinterpret_cast<const char*>(bytes.data()), count);
    bytes = bytes.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status AnswerSink::Flush() {
  if (!begun_) {
    begun_ = true;
    RETURN_IF_ERROR(exchange_.Begin(*std::move(response_), last_names_));
  }
  RETURN_IF_ERROR(exchange_.Write(AsBytes(piece_)));
  piece_.clear();
  return absl::OkStatus();
}

absl::Status AnswerSink::Settle() {
  if (!begun_) return absl::OkStatus();
  if (!piece_.empty()) RETURN_IF_ERROR(Flush());
  return exchange_.Settle();
}

void AnswerSink::Finish(std::vector<HttpField> last) {
  if (begun_) return exchange_.Finish(std::move(last));
  begun_ = true;
  for (HttpField& field : last) {
    std::erase_if(response_->fields, [&](const HttpField& f) { return f.name == field.name; });
    response_->fields.push_back(std::move(field));
  }
  response_->body = std::move(piece_);
  exchange_.Send(*std::move(response_));
}

void AnswerSink::Reset() {
  response_.reset();
  piece_.clear();
}

}  // namespace upscaled::server
