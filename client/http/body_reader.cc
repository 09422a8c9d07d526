#include "client/http/body_reader.h"

#include <algorithm>
#include <utility>

namespace upscaled::client {

BodyReader::BodyReader(ImageSource& source, std::function<void()> on_news)
    : source_(source),
      on_news_(std::move(on_news)),
      thread_([this](std::stop_token stop) { Run(std::move(stop)); }) {}

BodyReader::~BodyReader() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  thread_.request_stop();  // its end, without the lock, is waited for last
}

std::optional<absl::StatusOr<size_t>> BodyReader::Take(std::span<char> dst) {
  absl::MutexLock lock(&mutex_);
  const size_t bytes = std::min(dst.size(), piece_.size() - taken_bytes_);
  if (bytes > 0) {
    piece_.copy(dst.data(), bytes, taken_bytes_);
    taken_bytes_ += bytes;
    return bytes;
  }
  if (!end_.has_value()) return std::nullopt;
  if (!end_->ok()) return *end_;
  return size_t{0};
}

void BodyReader::Run(std::stop_token stop) {
  std::string piece;
  while (true) {
    piece.resize(kPieceBytes);
    const absl::StatusOr<size_t> bytes = source_.Read(piece, stop);
    if (!bytes.ok() || *bytes == 0) return End(bytes.status());
    piece.resize(*bytes);
    if (!Offer(piece)) return;
    on_news_();
  }
}

bool BodyReader::Offer(std::string& piece) {
  absl::MutexLock lock(&mutex_);
  const auto wanted = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopped_ || taken_bytes_ == piece_.size();
  };
  mutex_.Await(absl::Condition(&wanted));
  if (stopped_) return false;
  piece_.swap(piece);
  taken_bytes_ = 0;
  return true;
}

void BodyReader::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    end_ = status;
  }
  on_news_();
}

}  // namespace upscaled::client
