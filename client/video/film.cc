#include "client/video/film.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"
#include "engine/base/with_prefix.h"

namespace upscaled::client {
namespace {

// A frame's way from its bytes to those of its result.
struct Frame {
  int64_t number = 0;
  bool repeats = false;  // the frame before
  std::string bytes;     // until it is computed
  bool begun = false;
  std::optional<absl::StatusOr<FrameResult>> result;
};

class FilmRun {
 public:
  // `end` stops the reader, too.
  FilmRun(Service& service, const FilmOptions& options, FrameReader& reader, std::stop_source& end,
          std::stop_token stop)
      : service_(service), options_(options), reader_(reader), end_(end), stop_(std::move(stop)) {
    request_.options = options.upscale;
    request_.options.set_format(v1::IMAGE_FORMAT_PNG);
    // Results of y4m and PPM are decoded here; for PNG frames the options say how small.
    if (reader.format().kind != FrameKind::kPng) request_.options.set_png_compression(0);
  }

  absl::Status Run(ImageSink& sink, const std::function<void(const FilmProgress&)>& on_progress,
                   FilmProgress& progress) {
    const std::stop_callback on_stop(stop_, [this] { End(); });
    std::vector<std::jthread> threads;
    threads.emplace_back([this] { Read(); });
    for (int i = 0; i < options_.frames_ahead; ++i) threads.emplace_back([this] { Work(); });
    const absl::Status status = Write(sink, on_progress, progress);
    End();
    return stop_.stop_requested() ? absl::CancelledError("interrupted") : status;
  }

 private:
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_ || frames_.size() < static_cast<size_t>(options_.frames_ahead);
  }
  Frame* NextToBegin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const auto& frame : frames_)
      if (!frame->begun) return frame.get();
    return nullptr;
  }
  bool CanBegin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_ || all_read_ || NextToBegin() != nullptr;
  }
  bool CanWrite() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_ || (!frames_.empty() && frames_.front()->result.has_value()) ||
           (frames_.empty() && all_read_);
  }

  void End() ABSL_LOCKS_EXCLUDED(mutex_) {
    end_.request_stop();
    absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

  void Read() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::string before;
    for (int64_t number = 0;; ++number) {
      absl::StatusOr<std::optional<std::string>> bytes = reader_.Next();
      if (bytes.ok() && bytes->has_value() && number < options_.resume_at) continue;
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &FilmRun::HasRoom));
      if (!bytes.ok()) read_error_ = bytes.status();
      all_read_ = ended_ || !bytes.ok() || !bytes->has_value();
      if (all_read_) return;
      auto frame = std::make_unique<Frame>();
      frame->number = number;
      frame->repeats = number > options_.resume_at && **bytes == before;
      frame->begun = frame->repeats;
      if (frame->repeats) {
        frame->result = FrameResult();
      } else {
        before = **bytes;
        frame->bytes = *std::move(*bytes);
      }
      frames_.push_back(std::move(frame));
    }
  }

  void Work() ABSL_LOCKS_EXCLUDED(mutex_) {
    while (true) {
      Frame* frame = nullptr;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &FilmRun::CanBegin));
        frame = NextToBegin();
        if (ended_ || frame == nullptr) return;
        frame->begun = true;
      }
      absl::StatusOr<FrameResult> result = Compute(std::move(frame->bytes));
      absl::MutexLock lock(&mutex_);
      frame->result = std::move(result);
    }
  }

  absl::StatusOr<FrameResult> Compute(std::string bytes) {
    ASSIGN_OR_RETURN(const std::string png, FrameToPng(std::move(bytes), reader_.format()));
    MemorySource source(png);
    MemorySink result;
    ImageObserver nobody;
    RETURN_IF_ERROR(
        service_.UpscaleImage(request_, source, result, nobody, end_.get_token()).status());
    return FrameFromPng(result.bytes(), reader_.format());
  }

  // nullopt: the film has ended.
  absl::StatusOr<std::unique_ptr<Frame>> NextResult() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &FilmRun::CanWrite));
    if (ended_) return absl::CancelledError("interrupted");
    if (frames_.empty())
      return read_error_.ok() ? absl::StatusOr<std::unique_ptr<Frame>>(nullptr) : read_error_;
    std::unique_ptr<Frame> frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }

  absl::Status Write(ImageSink& sink, const std::function<void(const FilmProgress&)>& on_progress,
                     FilmProgress& progress) {
    FilmFormat format = reader_.format();
    FrameResult result;  // of the last frame
    while (true) {
      ASSIGN_OR_RETURN(const std::unique_ptr<Frame> frame, NextResult());
      if (frame == nullptr) return absl::OkStatus();
      if (!frame->repeats) {
        if (!frame->result->ok())
          return WithPrefix(absl::StrCat("frame ", frame->number, ": "), frame->result->status());
        result = **std::move(frame->result);
      }
      if (progress.written == 0) {
        format.yuv.size = result.size;
        RETURN_IF_ERROR(sink.Write(FilmHeader(format)));
      }
      if (format.kind == FrameKind::kY4m && result.size != format.yuv.size) {
        return absl::InvalidArgumentError(absl::StrCat(
            "frame ", frame->number, " has ", result.size.width, " x ", result.size.height,
            " px, the film has ", format.yuv.size.width, " x ", format.yuv.size.height));
      }
      RETURN_IF_ERROR(sink.Write(result.bytes));
      ++progress.written;
      progress.repeated += frame->repeats ? 1 : 0;
      on_progress(progress);
    }
  }

  Service& service_;
  const FilmOptions& options_;
  FrameReader& reader_;
  std::stop_source& end_;  // of reading, and of calls in flight
  const std::stop_token stop_;
  ImageRequest request_;
  absl::Mutex mutex_;
  std::deque<std::unique_ptr<Frame>> frames_ ABSL_GUARDED_BY(mutex_);  // read, not yet written
  bool all_read_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // before the film has
  absl::Status read_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status UpscaleFilm(Service& service, const FilmOptions& options, ImageSource& source,
                         ImageSink& sink, std::function<void(const FilmProgress&)> on_progress,
                         FilmProgress& progress, std::stop_token stop) {
  std::stop_source end;
  const std::stop_callback on_stop(stop, [&end] { end.request_stop(); });
  ASSIGN_OR_RETURN(const std::unique_ptr<FrameReader> reader,
                   FrameReader::Open(source, options.reader, end.get_token()));
  return FilmRun(service, options, *reader, end, std::move(stop)).Run(sink, on_progress, progress);
}

}  // namespace upscaled::client
