#include "engine/train/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/train/parameters.h"

namespace upscaled::train {
namespace {

constexpr double kMaxGradientNorm = 0.5;
constexpr int64_t kReports = 30;  // of a training; the checkpoint is written as often
constexpr int kTriedSteps = 3;
constexpr double kTrainedPart = 0.9;  // of the time; the rest goes to held-out images

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Training>> Training::Create(const Network& start,
                                                           const TrainingOptions& options) {
  std::unique_ptr<Training> training(new Training(start, options));
  training->shape_ = {options.patch_px, start.pad_px, start.scale};
  ASSIGN_OR_RETURN(training->learner_, Learner::Create(start, options.patch_px, options.batch,
                                                       options.threads, options.device));
  ASSIGN_OR_RETURN(training->images_,
                   LoadImageFolder(options.images, {.scale = start.scale,
                                                    .min_side_px = options.patch_px * start.scale,
                                                    .reductions = options.recipe.reductions,
                                                    .small_images = options.small_images,
                                                    .cache_bytes = options.cache_bytes}));
  training->held_out_ =
      std::make_unique<HeldOut>(training->images_.held_out, training->shape_, options.recipe);
  ASSIGN_OR_RETURN(training->lanczos_psnr_db_, training->held_out_->LanczosPsnrDb());
  RETURN_IF_ERROR(options.resume ? training->Resume() : training->Begin());
  return training;
}

absl::Status Training::Begin() {
  std::error_code ignored;
  if (std::filesystem::exists(options_.checkpoint, ignored)) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.checkpoint.string(), ": is there; resume it or train elsewhere"));
  }
  state_.settings = Settings();
  state_.learned = Learned(blocks_.Expand(ReadParameters(start_), options_.seed));
  state_.best = state_.learned.parameters;
  state_.start_psnr_db = PsnrDb(state_.best);
  RETURN_IF_ERROR(options_.device.status());
  state_.best_psnr_db = state_.start_psnr_db;
  if (!std::isfinite(state_.start_psnr_db)) {
    return absl::InvalidArgumentError("the start model gives no finite results");
  }
  state_.total_steps = options_.steps > 0 ? options_.steps : StepsOfMinutes();
  // An unwritable file shows now instead of in an hour.
  return WriteCheckpoint(options_.checkpoint, state_);
}

absl::Status Training::Resume() {
  ASSIGN_OR_RETURN(state_, ReadCheckpoint(options_.checkpoint, blocks_.parameter_count()));
  if (state_.settings == Settings()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(options_.checkpoint.string(),
                                                    ": was made with ", state_.settings,
                                                    ", not with ", Settings()));
}

std::string Training::Settings() const {
  int64_t pixels = 0;
  for (const auto* images : {&images_.training, &images_.held_out}) {
    for (const TrainingImage& image : *images) pixels += image.original.spec().size().Area();
  }
  // Left out where it is the CPU: so were all checkpoints before there were others.
  const std::string& name = options_.device.name;
  const std::string device = name == ConvDevice().name ? "" : absl::StrCat(" on ", name);
  const std::string pairs = options_.small_images.empty() ? "" : " in pairs";
  return absl::StrFormat(
      "start %s, seed %d, batch %d, patch %d, threads %d%s, rate %g by %s, loss %s, expansion %d, "
      "images %d + %d of %d pixels%s, recipe %s",
      options_.start, options_.seed, options_.batch, options_.patch_px, options_.threads, device,
      options_.rate, ScheduleName(options_.schedule), LossText(options_.loss), options_.expansion,
      images_.training.size(), images_.held_out.size(), pixels, pairs, RecipeText(options_.recipe));
}

int64_t Training::StepsOfMinutes() {
  std::vector<float> gradient;
  Gradient(gradient);  // warms up
  const double begin = Seconds();
  for (int i = 0; i < kTriedSteps; ++i) Gradient(gradient);
  const double step_s = (Seconds() - begin) / kTriedSteps;
  return std::max<int64_t>(1, std::llround(kTrainedPart * 60 * options_.minutes / step_s));
}

double Training::Gradient(std::vector<float>& gradient) {
  const auto fill = [&](int patch, int image, Tensor<float>& input, Tensor<float>& target) {
    const Patch chosen = RandomPatch(images_.training, shape_, options_.recipe, options_.seed,
                                     state_.learned.steps, patch);
    CutPatch(images_.training, shape_, chosen, image, input, target);
  };
  const std::vector<float>& parameters = state_.learned.parameters;
  std::vector<float> by_folded;
  const double loss = learner_->Gradient(blocks_.Fold(parameters), options_.loss, fill, by_folded);
  gradient = blocks_.Gradient(parameters, by_folded);
  return loss;
}

double Training::PsnrDb(const std::vector<float>& parameters) {
  return held_out_->PsnrDb(*learner_, blocks_.Fold(parameters));
}

absl::Status Training::Evaluate(Progress& progress) {
  progress.psnr_db = PsnrDb(state_.learned.average);
  RETURN_IF_ERROR(options_.device.status());
  if (progress.psnr_db > state_.best_psnr_db) {
    state_.best = state_.learned.average;
    state_.best_psnr_db = progress.psnr_db;
  }
  progress.best_psnr_db = state_.best_psnr_db;
  return absl::OkStatus();
}

absl::Status Training::Run(const std::atomic<bool>& stop,
                           absl::FunctionRef<void(const Progress&)> report) {
  const int64_t total = state_.total_steps;
  const int64_t report_every = std::max<int64_t>(1, total / kReports);
  std::vector<float> gradient;
  double loss = 0, begin = Seconds();
  int64_t reported = state_.learned.steps;
  while (state_.learned.steps < total && !stop) {
    loss += Gradient(gradient);
    RETURN_IF_ERROR(options_.device.status());
    const double norm = ClipNorm(gradient, kMaxGradientNorm);
    if (!std::isfinite(norm)) {
      return absl::AbortedError(absl::StrCat("the gradient of step ", state_.learned.steps,
                                             " is not finite; try a lower rate than ",
                                             options_.rate));
    }
    AdamStep(gradient, RateAt(options_.schedule, options_.rate, state_.learned.steps, total),
             state_.learned);
    const int64_t step = state_.learned.steps;
    if (step % report_every != 0 && step != total) continue;
    const auto steps = static_cast<double>(step - reported);
    Progress progress{.step = step,
                      .total_steps = total,
                      .loss = loss / steps,
                      .steps_per_second = steps / (Seconds() - begin)};
    RETURN_IF_ERROR(Evaluate(progress));
    RETURN_IF_ERROR(WriteCheckpoint(options_.checkpoint, state_));
    report(progress);
    loss = 0, begin = Seconds(), reported = step;
  }
  return WriteCheckpoint(options_.checkpoint, state_);
}

Network Training::BestNetwork() const {
  Network network = start_;
  WriteParameters(blocks_.Fold(state_.best), network);
  return network;
}

}  // namespace upscaled::train
