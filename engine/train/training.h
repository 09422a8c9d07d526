// A whole training: from a network and a folder of images to the best parameters on the held-out
// images.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "engine/train/adam.h"
#include "engine/train/checkpoint.h"
#include "engine/train/collapsible.h"
#include "engine/train/conv_kernel.h"
#include "engine/train/held_out.h"
#include "engine/train/image_folder.h"
#include "engine/train/learner.h"
#include "engine/train/loss.h"
#include "engine/train/recipe.h"

namespace upscaled::train {

struct TrainingOptions {
  std::filesystem::path images;  // folder
  // Folder of their small images; empty: the recipe's reductions make them.
  std::filesystem::path small_images;
  std::filesystem::path checkpoint;  // file
  bool resume = false;               // go on from the checkpoint
  std::string start;                 // what the network is called
  double minutes = 60;               // as many steps are made as take so long, by a few tried first
  int64_t steps = 0;                 // or so many
  uint64_t seed = 0;
  int batch = 8;
  int patch_px = 48;
  int threads = 1;
  double rate = 4e-4;  // at its peak
  Schedule schedule = Schedule::kCosine;
  LossWeights loss = kPsnrLoss;
  int expansion = 0;  // of collapsible.h
  ConvDevice device;
  size_t cache_bytes = size_t{1} << 30;
  Recipe recipe;
};

struct Progress {
  int64_t step = 0, total_steps = 0;
  double loss = 0;  // mean over the steps since the last report
  double psnr_db = 0, best_psnr_db = 0;
  double steps_per_second = 0;
};

// The same images, options and number of threads give the same bits, also where it was interrupted
// and resumed.
class Training {
 public:
  // INVALID_ARGUMENT or UNIMPLEMENTED: the network cannot be trained; FAILED_PRECONDITION: too few
  // images, or the checkpoint is of other settings, or is there and not to be resumed; UNAVAILABLE:
  // the checkpoint cannot be written; NOT_FOUND names the missing file or folder.
  static absl::StatusOr<std::unique_ptr<Training>> Create(const Network& start,
                                                          const TrainingOptions& options);

  // Trains until all steps are made or `stop` is set; writes the checkpoint periodically and at the
  // end. ABORTED: a gradient is not finite; UNAVAILABLE: the checkpoint cannot be written, or the
  // device failed. In any case BestNetwork() is the best so far.
  absl::Status Run(const std::atomic<bool>& stop, absl::FunctionRef<void(const Progress&)> report);

  // The start, if no step was better.
  Network BestNetwork() const;
  const ImageFolder& images() const { return images_; }
  const Checkpoint& state() const { return state_; }
  double lanczos_psnr_db() const { return lanczos_psnr_db_; }

 private:
  Training(const Network& start, const TrainingOptions& options)
      : start_(start), options_(options), blocks_(start, options.expansion) {}

  absl::Status Begin();
  absl::Status Resume();
  std::string Settings() const;
  int64_t StepsOfMinutes();
  double Gradient(std::vector<float>& gradient);
  double PsnrDb(const std::vector<float>& parameters);
  absl::Status Evaluate(Progress& progress);

  const Network start_;
  const TrainingOptions options_;
  const CollapsibleBlocks<float> blocks_;
  PatchShape shape_;
  ImageFolder images_;
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<HeldOut> held_out_;
  Checkpoint state_{.learned = Learned({})};
  double lanczos_psnr_db_ = 0;
};

}  // namespace upscaled::train
