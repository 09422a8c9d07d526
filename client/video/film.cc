#include "client/video/film.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/error_details.h"
#include "engine/base/status_macros.h"
#include "engine/base/with_prefix.h"

namespace upscaled::client {
namespace {

// A frame without more changed bytes goes to the server together with the frame before.
constexpr double kMaxChanged = 0.5;
// Frames in one call, at most: the first of them is computed whole.
constexpr size_t kLongestRun = 16;
// Twice as many go together after this many calls within a server's limits.
constexpr int kGoodRuns = 8;
// Calls at a time, if frames go one by one; more if the window has this many frames for each.
constexpr int kFewCalls = 8, kFramesPerCall = 4;

// A frame's way from its bytes to those of its result.
struct Frame {
  int64_t number = 0;
  bool repeats = false;    // the frame before
  bool continues = false;  // the last frame that does not repeat another, with few changes
  std::string bytes;       // until it is computed
  bool begun = false;
  std::optional<absl::StatusOr<FrameResult>> result;
  // Pixels of the frame, and of its run in the run's first frame.
  int64_t source_px = 0, unchanged_px = 0;
};

// Frames computed together, in order.
using FrameRun = std::vector<Frame*>;

// Whether fewer frames in a call may get through.
bool IsRefusedByLimits(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status) ||
         DetailsOf(status).reason == "LIMIT_EXCEEDED";
}

bool HasFixedLayout(const FilmFormat& format) {
  return format.kind != FrameKind::kPng && format.kind != FrameKind::kPpm;
}

class FilmRun {
 public:
  // `end` stops the reader, too.
  FilmRun(Service& service, const FilmOptions& options, FrameReader& reader, std::stop_source& end,
          std::stop_token stop)
      : service_(service), options_(options), reader_(reader), end_(end), stop_(std::move(stop)) {
    request_.options = options.upscale;
    request_.options.set_format(v1::IMAGE_FORMAT_PNG);
    // A level for each frame would flicker.
    request_.options.set_auto_noise(false);
    // Results of y4m and PPM are decoded here; for PNG frames the options say how small.
    if (reader.format().kind != FrameKind::kPng) request_.options.set_png_compression(0);
  }

  absl::Status Run(ImageSink& sink, const std::function<void(const FilmProgress&)>& on_progress,
                   FilmProgress& progress) {
    const std::stop_callback on_stop(stop_, [this] { End(); });
    std::vector<std::jthread> threads;
    threads.emplace_back([this] { Read(); });
    const int calls = std::min(options_.frames_ahead,
                               std::max(kFewCalls, options_.frames_ahead / kFramesPerCall));
    for (int i = 0; i < calls; ++i) threads.emplace_back([this] { Work(); });
    const absl::Status status = Write(sink, on_progress, progress);
    End();
    return stop_.stop_requested() ? absl::CancelledError("interrupted") : status;
  }

 private:
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_ || frames_.size() < static_cast<size_t>(options_.frames_ahead);
  }
  // The next frames of one call; `*closed` tells that no further frame will join them.
  FrameRun NextRun(bool* closed) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    FrameRun run;
    *closed = all_read_ || frames_.size() >= static_cast<size_t>(options_.frames_ahead);
    for (const auto& frame : frames_) {
      if (frame->begun) continue;
      if (!run.empty() && (!frame->continues || run.size() >= longest_run_)) {
        *closed = true;
        break;
      }
      run.push_back(frame.get());
    }
    *closed |= run.size() >= longest_run_;
    return run;
  }
  // A run waits for further frames while the servers have other work.
  bool CanBegin() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    bool closed = false;
    const FrameRun run = NextRun(&closed);
    return ended_ || (run.empty() ? all_read_ : closed || calls_ == 0);
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
      // Held blocks go back to the first frame: those left out count.
      const bool is_held = options_.hold_noise > 0 && bytes.ok() && bytes->has_value();
      if (is_held && !before.empty())
        HoldNoise(reader_.format(), options_.hold_noise, before, **bytes);
      if (bytes.ok() && bytes->has_value() && number < options_.resume_at) {
        if (is_held) before = **std::move(bytes);
        continue;
      }
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &FilmRun::HasRoom));
      if (!bytes.ok()) read_error_ = bytes.status();
      if (bytes.ok() && !bytes->has_value() && number <= options_.resume_at) {
        read_error_ = absl::InvalidArgumentError(
            absl::StrCat("the film has ", number, " frames, and the first ", options_.resume_at,
                         " are to be left out"));
      }
      all_read_ = ended_ || !bytes.ok() || !bytes->has_value();
      if (all_read_) return;
      auto frame = std::make_unique<Frame>();
      frame->number = number;
      frame->repeats = number > options_.resume_at && **bytes == before;
      frame->continues = !before.empty() && HasPlainSamples(reader_.format()) &&
                         ChangedShare(reader_.format(), before, **bytes) <= kMaxChanged;
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
      FrameRun run;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &FilmRun::CanBegin));
        bool closed = false;
        run = NextRun(&closed);
        if (ended_ || run.empty()) return;
        for (Frame* const frame : run) frame->begun = true;
        ++calls_;
      }
      Compute(run);
      absl::MutexLock lock(&mutex_);
      --calls_;
    }
  }

  // Gives all frames of the run a result.
  void Compute(const FrameRun& run) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<std::string> frames;
    for (Frame* const frame : run) frames.push_back(std::move(frame->bytes));
    ComputeTogether(run, frames);
  }

  // In halves if a server's limits refuse the whole.
  void ComputeTogether(std::span<Frame* const> run, std::span<const std::string> frames)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::StatusOr<Results> results = Upscale(frames);
    const bool refused =
        run.size() > 1 && IsRefusedByLimits(results.status()) && !end_.stop_requested();
    LearnLength(run.size(), refused);
    if (!refused) return Settle(run, std::move(results));
    const size_t half = run.size() / 2;
    ComputeTogether(run.first(half), frames.first(half));
    ComputeTogether(run.subspan(half), frames.subspan(half));
  }

  // Fewer frames go together after a refusal, and more again as calls get through.
  void LearnLength(size_t frames, bool refused) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (refused) {
      longest_run_ = std::min(longest_run_, frames / 2);
      good_runs_ = 0;
    } else if (frames == longest_run_ && ++good_runs_ >= kGoodRuns) {
      longest_run_ = std::min(2 * longest_run_, kLongestRun);
      good_runs_ = 0;
    }
  }

  struct Results {
    std::vector<FrameResult> frames;
    int64_t source_px = 0, unchanged_px = 0;
  };

  absl::StatusOr<Results> Upscale(std::span<const std::string> frames) {
    const FilmFormat& format = reader_.format();
    ASSIGN_OR_RETURN(const std::string png, frames.size() == 1 ? FrameToPng(frames[0], format)
                                                               : FramesToPng(frames, format));
    MemorySource source(png);
    MemorySink result;
    ImageObserver nobody;
    ASSIGN_OR_RETURN(const ImageResult told,
                     service_.UpscaleImage(request_, source, result, nobody, end_.get_token()));
    Results results{
        .source_px = int64_t{1} * told.header.source_width_px() * told.header.source_height_px(),
        .unchanged_px = told.summary.unchanged_pixels()};
    if (frames.size() == 1) {
      ASSIGN_OR_RETURN(results.frames.emplace_back(),
                       FrameFromPng(result.bytes(), frames[0], format));
    } else {
      ASSIGN_OR_RETURN(results.frames, FramesFromPng(result.bytes(), frames, format));
    }
    return results;
  }

  void Settle(std::span<Frame* const> run, absl::StatusOr<Results> results)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < run.size(); ++i) {
      if (!results.ok()) {
        run[i]->result = results.status();
        continue;
      }
      run[i]->source_px = results->source_px;
      run[i]->unchanged_px = i == 0 ? results->unchanged_px : 0;
      run[i]->result = std::move(results->frames[i]);
    }
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
    FrameResult result;     // of the last frame
    int64_t source_px = 0;  // of the last frame
    while (true) {
      ASSIGN_OR_RETURN(const std::unique_ptr<Frame> frame, NextResult());
      if (frame == nullptr) return absl::OkStatus();
      if (!frame->repeats) {
        if (!frame->result->ok())
          return WithPrefix(absl::StrCat("frame ", frame->number, ": "), frame->result->status());
        result = **std::move(frame->result);
        source_px = frame->source_px;
      }
      if (progress.written == 0) {
        format.yuv.size = result.size;
        const std::string header = FilmHeader(format);
        RETURN_IF_ERROR(sink.Write(header));
        progress.bytes += static_cast<int64_t>(header.size());
      }
      if (HasFixedLayout(format) && result.size != format.yuv.size) {
        return absl::InvalidArgumentError(absl::StrCat(
            "frame ", frame->number, " has ", result.size.width, " x ", result.size.height,
            " px, the film has ", format.yuv.size.width, " x ", format.yuv.size.height));
      }
      RETURN_IF_ERROR(sink.Write(result.bytes));
      ++progress.written;
      progress.bytes += static_cast<int64_t>(result.bytes.size());
      progress.repeated += frame->repeats ? 1 : 0;
      progress.source_px += source_px;
      progress.unchanged_px += frame->repeats ? source_px : frame->unchanged_px;
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
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;                              // in flight
  size_t longest_run_ ABSL_GUARDED_BY(mutex_) = kLongestRun;
  int good_runs_ ABSL_GUARDED_BY(mutex_) = 0;  // of longest_run_ frames, since that changed
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
  if (options.hold_noise > 0 && !HasFixedLayout(reader->format())) {
    return absl::InvalidArgumentError(
        "noise is held of YUV4MPEG2 and raw frames; this film's frames are PNG or PPM files");
  }
  return FilmRun(service, options, *reader, end, std::move(stop)).Run(sink, on_progress, progress);
}

}  // namespace upscaled::client
