// Upscaling the images of a plan, several at a time.
#pragma once

#include <atomic>
#include <stop_token>

#include "absl/time/time.h"
#include "client/cli/image_plan.h"
#include "client/cli/image_report.h"
#include "client/cli/progress_bar.h"
#include "client/service.h"

namespace upscaled::client {

struct BatchOptions {
  v1::UpscaleOptions upscale;  // But for the format, which each job has its own of.
  // Whether to keep existing outputs.
  bool resume = false;
  int parallel = 1;
  absl::Duration timeout = absl::InfiniteDuration();  // of each image
};

// A failed image does not stop the others; losing the server or `stop` does. Everything is
// borrowed. Used once.
class ImageBatch {
 public:
  ImageBatch(const ImagePlan& plan, const BatchOptions& options, Service& service, ProgressBar& bar,
             ImageReport& report, std::stop_token stop)
      : plan_(plan),
        options_(options),
        service_(service),
        bar_(bar),
        report_(report),
        stop_(stop) {}

  // Returns how many images were not tried.
  int Run();

 private:
  void Work();
  ImageOutcome RunJob(int id);
  absl::Status Transfer(int id, ImageSource& source, ImageSink& sink, ImageResult& result);
  absl::Status FromSource(int id, ImageSource& source, ImageResult& result);

  const ImagePlan& plan_;
  const BatchOptions& options_;
  Service& service_;
  ProgressBar& bar_;
  ImageReport& report_;
  const std::stop_token stop_;
  std::atomic<int> next_ = 0;
  std::atomic<int> tried_ = 0;
  std::atomic<bool> lost_server_ = false;
};

}  // namespace upscaled::client
