#include "client/cli/image_batch.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/forced_exit.h"
#include "client/error_details.h"
#include "client/http/http_target.h"
#include "client/image_io.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

namespace fs = std::filesystem;

// Passes the library's events on to the bar and the report.
class JobObserver final : public ImageObserver {
 public:
  JobObserver(int id, const ImageJob& job, ProgressBar& bar, ImageReport& report)
      : id_(id), job_(job), bar_(bar), report_(report) {}

  void OnSent(int64_t bytes) override { bar_.Sent(id_, bytes); }
  void OnHeader(const v1::UpscaleImageHeader& header) override {
    bar_.Tiles(id_, 0, header.tiles());
  }
  void OnProgress(const v1::UpscaleProgress& progress) override {
    bar_.Tiles(id_, progress.tiles_done(), progress.tiles());
  }
  void OnRetry(const absl::Status& error, absl::Duration wait) override {
    bar_.Tiles(id_, 0, 0);
    bar_.Sent(id_, 0);
    report_.Retrying(job_, error, wait);
  }

 private:
  const int id_;
  const ImageJob& job_;
  ProgressBar& bar_;
  ImageReport& report_;
};

absl::Status MakeFolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot make ", folder.native()));
}

}  // namespace

int ImageBatch::Run() {
  const int jobs = static_cast<int>(plan_.jobs.size());
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < std::min(jobs, options_.parallel); ++i)
      workers.emplace_back([this] { Work(); });
  }
  return jobs - tried_;
}

void ImageBatch::Work() {
  for (;;) {
    const int id = next_++;
    if (id >= static_cast<int>(plan_.jobs.size()) || lost_server_ || stop_.stop_requested()) return;
    ++tried_;
    const ImageOutcome outcome = RunJob(id);
    bar_.Finish(id);
    report_.Add(outcome);
    if (DetailsOf(outcome.status).origin == ErrorOrigin::kConnection) lost_server_ = true;
  }
}

ImageOutcome ImageBatch::RunJob(int id) {
  const absl::Time start = absl::Now();
  ImageOutcome outcome{.job = plan_.jobs[id]};
  std::error_code ignored;
  if (options_.resume && fs::is_regular_file(outcome.job.output, ignored)) {
    outcome.skipped = true;
  } else if (outcome.job.input == kStandardStream) {
    PipeSource source(STDIN_FILENO);
    outcome.status = FromSource(id, source, outcome.result);
  } else if (IsHttpUrl(outcome.job.input)) {
    MemorySource nothing("");
    outcome.status = FromSource(id, nothing, outcome.result);
  } else if (const auto source = OpenSource(outcome.job.input); source.ok()) {
    outcome.status = FromSource(id, **source, outcome.result);
  } else {
    outcome.status = source.status();
  }
  outcome.elapsed = absl::Now() - start;
  return outcome;
}

absl::Status ImageBatch::FromSource(int id, ImageSource& source, ImageResult& result) {
  const ImageJob& job = plan_.jobs[id];
  if (job.output == kStandardStream) {
    PipeSink sink(STDOUT_FILENO);
    return Transfer(id, source, sink, result);
  }
  ASSIGN_OR_RETURN(const UniqueFd device, OpenDevice(job.output));
  if (device.valid()) {
    PipeSink sink(device.get());
    return Transfer(id, source, sink, result);
  }
  RETURN_IF_ERROR(MakeFolderOf(job.output));
  ASSIGN_OR_RETURN(FileSink sink, FileSink::Create(job.output));
  RETURN_IF_ERROR(Transfer(id, source, sink, result));
  return sink.Commit();
}

absl::Status ImageBatch::Transfer(int id, ImageSource& source, ImageSink& sink,
                                  ImageResult& result) {
  const ImageJob& job = plan_.jobs[id];
  bar_.Start(id, job.input, source.total_bytes());
  JobObserver observer(id, job, bar_, report_);
  ImageRequest request{.options = options_.upscale};
  request.options.set_format(job.format);
  if (IsHttpUrl(job.input)) request.source_url = job.input;
  const ForcedExit end(options_.timeout);
  ASSIGN_OR_RETURN(result, service_.UpscaleImage(request, source, sink, observer, stop_));
  return absl::OkStatus();
}

}  // namespace upscaled::client
