// The `upscale-train` command.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "engine/model/repository.h"
#include "engine/train/cuda/cuda_convs.h"
#include "engine/train/gradient_check.h"
#include "engine/train/model_folder.h"
#include "engine/train/training.h"

namespace upscaled::train {
namespace {

namespace fs = std::filesystem;

enum ExitCode { kExitOk = 0, kExitFailed = 1, kExitBadArguments = 2 };

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

struct Command {
  std::string start = "general-2x";
  fs::path models, out, log;
  int noise_level = kNoDenoise;
  size_t cache_mb = 1024;
  fs::path recipe;
  std::string loss = "psnr", schedule = "cosine", device = "cpu";
  TrainingOptions training;
};

// Where this program and its likes are.
fs::path ProgramFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

// Where programs have the bundled models, installed or in the build folder.
fs::path BundledModels() {
  std::error_code error;
  const fs::path prefix = ProgramFolder().parent_path();
  const fs::path installed = prefix / "share/upscaled/models";
  return fs::is_directory(installed, error) ? installed
                                            : (prefix / UPSCALED_SOURCE_MODELS).lexically_normal();
}

const std::map<std::string, LossWeights>& Losses() {
  static const std::map<std::string, LossWeights> losses = {
      {"psnr", kPsnrLoss}, {"l1", {.l1 = 1}}, {"charbonnier", {.charbonnier = 1}}};
  return losses;
}

const std::map<std::string, Schedule>& Schedules() {
  static const std::map<std::string, Schedule> schedules = {
      {ScheduleName(Schedule::kCosine), Schedule::kCosine},
      {ScheduleName(Schedule::kOneCycle), Schedule::kOneCycle}};
  return schedules;
}

// The images, the model to begin with and the model to make.
void AddModelOptions(CLI::App& app, Command& command) {
  TrainingOptions& training = command.training;
  command.models = BundledModels();
  app.add_option("--images", training.images,
                 "folder of images to learn from, with its subfolders");
  app.add_option("--small", training.small_images,
                 "folder of their small images, under the same names; else the recipe makes them");
  app.add_option("--out", command.out, "folder of the model to make; its name is the model's");
  app.add_option("--start", command.start, "model to begin with")->capture_default_str();
  app.add_option("--models", command.models, "folder of models to find it in")
      ->capture_default_str();
  app.add_option("--noise-level", command.noise_level, "which of its networks; -1: the plain one")
      ->check(CLI::Range(-1, 3))
      ->capture_default_str();
}

void AddTrainingOptions(CLI::App& app, Command& command) {
  TrainingOptions& training = command.training;
  training.threads = AvailableCpuCount();
  app.add_option("--minutes", training.minutes, "how long to train")
      ->check(CLI::Range(0.01, 1e5))
      ->capture_default_str();
  app.add_option("--steps", training.steps, "how many steps to make, instead of --minutes")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--rate", training.rate, "peak learning rate")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  app.add_option("--schedule", command.schedule, "of the rate")
      ->check(CLI::IsMember(Schedules()))
      ->capture_default_str();
  app.add_option("--loss", command.loss,
                 "psnr (log of a patch's squared error, and its colours' means), l1 or charbonnier")
      ->check(CLI::IsMember(Losses()))
      ->capture_default_str();
  app.add_option("--expansion", training.expansion,
                 "learn each 3x3 kernel as a collapsible block, so many times as wide; 0: plainly")
      ->check(CLI::Range(0, 16))
      ->capture_default_str();
  app.add_option("--batch", training.batch, "patches a step")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--patch", training.patch_px, "side of a patch, in source pixels")
      ->check(CLI::Range(8, 512))
      ->capture_default_str();
  app.add_option("--threads", training.threads, "the result depends on their number")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--device", command.device,
                 "what computes the convolutions: cpu, or cuda by cuBLAS (all else is the CPU's)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--seed", training.seed, "of all that is random")->capture_default_str();
  app.add_option("--memory-mb", command.cache_mb, "for the images' pixels")
      ->check(CLI::Range(size_t{1}, size_t{1} << 24))
      ->capture_default_str();
  app.add_option("--recipe", command.recipe,
                 "JSON file: how images are made small, and spoilt (see engine/train)");
  app.add_option("--log", command.log, "file to append each report to, as a line of JSON");
  app.add_flag("--resume", training.resume, "go on where a training into --out was interrupted");
}

absl::StatusOr<const ModelVariant*> FindVariant(const ModelCard& card, int noise_level) {
  for (const ModelVariant& variant : card.variants) {
    if (variant.noise_level == noise_level && variant.scale > 1) return &variant;
  }
  return absl::NotFoundError(
      absl::StrCat("model '", card.name, "' does not enlarge with noise level ", noise_level));
}

// "4 min 10 s"
std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  return whole < 60 ? absl::StrCat(whole, " s")
                    : absl::StrCat(whole / 60, " min ", whole % 60, " s");
}

void Print(const Progress& progress, const Training& training) {
  const double left_s =
      static_cast<double>(progress.total_steps - progress.step) / progress.steps_per_second;
  absl::PrintF(
      "step %d of %d  loss %.4f  held out %.2f dB (%+.2f over Lanczos, %+.2f over the start)  "
      "%.2f steps/s  %s left\n",
      progress.step, progress.total_steps, progress.loss, progress.psnr_db,
      progress.psnr_db - training.lanczos_psnr_db(),
      progress.psnr_db - training.state().start_psnr_db, progress.steps_per_second,
      Duration(left_s));
  std::fflush(stdout);
}

absl::Status CreateFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot create ", folder.string(), ": ", error.message()));
}

absl::StatusOr<ConvDevice> OpenDevice(const std::string& name) {
  if (name == "cuda") return OpenCudaConvs();
  return ConvDevice();
}

absl::StatusOr<TrainingOptions> MakeTrainingOptions(const Command& command, const ModelCard& card) {
  TrainingOptions options = command.training;
  options.checkpoint = command.out / "checkpoint";
  options.start =
      absl::StrCat(card.name, " version ", card.version, " noise level ", command.noise_level);
  options.cache_bytes = command.cache_mb << 20;
  options.loss = Losses().at(command.loss);
  options.schedule = Schedules().at(command.schedule);
  ASSIGN_OR_RETURN(options.device, OpenDevice(command.device));
  if (!command.recipe.empty()) {
    ASSIGN_OR_RETURN(options.recipe, ReadRecipe(command.recipe));
  }
  if (!options.small_images.empty()) {
    if (options.recipe.reductions != Recipe().reductions) {
      return absl::InvalidArgumentError(absl::StrCat(
          command.recipe.string(), ": has 'reductions', and --small gives the small images"));
    }
    options.recipe.reductions.clear();
  }
  return options;
}

void PrintImages(const Training& training, const std::string& start) {
  const ImageFolder& images = training.images();
  for (const std::string& skipped : images.skipped) {
    absl::FPrintF(stderr, "skipped %s\n", skipped);
  }
  absl::PrintF("%d images to learn from, %d held out: Lanczos %.2f dB, %s %.2f dB\n",
               images.training.size(), images.held_out.size(), training.lanczos_psnr_db(), start,
               training.state().start_psnr_db);
  std::fflush(stdout);
}

// A file with a line of JSON for each report, if one is asked for.
class ProgressLog {
 public:
  static absl::StatusOr<ProgressLog> Open(const fs::path& file) {
    ProgressLog log;
    if (file.empty()) return log;
    log.lines_.open(file, std::ios::app);
    if (log.lines_) return log;
    return absl::UnavailableError(
        absl::StrCat("cannot write ", file.string(), ": ", std::strerror(errno)));
  }

  void Add(const Progress& progress, const Training& training) {
    if (!lines_.is_open()) return;
    lines_ << nlohmann::ordered_json({{"step", progress.step},
                                      {"total_steps", progress.total_steps},
                                      {"loss", progress.loss},
                                      {"psnr_db", progress.psnr_db},
                                      {"best_psnr_db", progress.best_psnr_db},
                                      {"start_psnr_db", training.state().start_psnr_db},
                                      {"lanczos_psnr_db", training.lanczos_psnr_db()},
                                      {"steps_per_second", progress.steps_per_second}})
                  .dump()
           << std::endl;
  }

  // UNAVAILABLE: lines are missing.
  absl::Status status() const {
    return lines_ ? absl::OkStatus() : absl::UnavailableError("--log lacks lines: cannot write it");
  }

 private:
  std::ofstream lines_;
};

absl::Status WriteModel(const Command& command, const ModelCard& card,
                        std::vector<KeptNetwork> kept, const Training& training) {
  const Checkpoint& state = training.state();
  const ImageFolder& images = training.images();
  return WriteModelFolder(
      command.out, training.BestNetwork(),
      {.start = &card,
       .noise_level = command.noise_level,
       .kept = std::move(kept),
       .images = fs::absolute(command.training.images / "").parent_path().filename(),
       .training_images = images.training.size(),
       .held_out_images = images.held_out.size(),
       .steps = state.learned.steps,
       .settings = state.settings,
       .lanczos_psnr_db = training.lanczos_psnr_db(),
       .start_psnr_db = state.start_psnr_db,
       .psnr_db = state.best_psnr_db});
}

absl::Status Train(Command& command) {
  if (command.training.images.empty() || command.out.empty()) {
    return absl::InvalidArgumentError("needs --images and --out; see --help");
  }
  ASSIGN_OR_RETURN(const ModelRepository models, ModelRepository::Open({command.models}));
  ASSIGN_OR_RETURN(const ModelCard* card, models.Find(command.start));
  ASSIGN_OR_RETURN(const ModelVariant* variant, FindVariant(*card, command.noise_level));
  ASSIGN_OR_RETURN(const Network start, LoadNetwork(*card, *variant));
  ASSIGN_OR_RETURN(std::vector<KeptNetwork> kept, KeepOtherNetworks(*card, *variant));
  if (!command.out.has_filename()) command.out = command.out.parent_path();
  RETURN_IF_ERROR(CreateFolder(command.out));
  ASSIGN_OR_RETURN(const TrainingOptions options, MakeTrainingOptions(command, *card));
  ASSIGN_OR_RETURN(ProgressLog log, ProgressLog::Open(command.log));
  ASSIGN_OR_RETURN(const std::unique_ptr<Training> training, Training::Create(start, options));
  PrintImages(*training, card->name);
  absl::Status trained = training->Run(interrupted, [&](const Progress& progress) {
    Print(progress, *training);
    log.Add(progress, *training);
  });
  trained.Update(log.status());
  RETURN_IF_ERROR(WriteModel(command, *card, std::move(kept), *training));
  const Checkpoint& state = training->state();
  absl::PrintF("%s: %.2f dB on held-out images, %+.2f over %s%s\n", command.out.string(),
               state.best_psnr_db, state.best_psnr_db - state.start_psnr_db, card->name,
               interrupted ? "; interrupted, --resume goes on" : "");
  return trained;
}

// Prints every step's error, and fails where one is too large.
absl::Status Check(const Command& command) {
  ASSIGN_OR_RETURN(const ConvDevice device, OpenDevice(command.device));
  absl::PrintF("Derivatives against central differences, in double, at most %g:\n", kMaxStepError);
  size_t wrong = 0;
  for (const StepError& step : CheckSteps(command.training.seed, device)) {
    const bool right = step.error <= kMaxStepError;
    absl::PrintF("%-20s %8.1e  %s\n", step.step, step.error, right ? "ok" : "wrong");
    wrong += right ? 0 : 1;
  }
  RETURN_IF_ERROR(device.status());
  if (wrong == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(wrong, " steps have wrong derivatives"));
}

// Becomes `upscale-bench train`, with these arguments.
absl::Status Bench(const std::vector<std::string>& args) {
  const std::string program = ProgramFolder() / "upscale-bench";
  std::vector<const char*> argv = {program.c_str(), "train"};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  argv.push_back(nullptr);
  execv(program.c_str(), const_cast<char**>(argv.data()));
  return absl::NotFoundError(absl::StrCat("cannot run ", program, ": ", std::strerror(errno)));
}

int Main(int argc, char** argv) {
  CLI::App app("Fine-tunes a model on your images.", "upscale-train");
  Command command;
  AddModelOptions(app, command);
  AddTrainingOptions(app, command);
  CLI::App* check = app.add_subcommand("check", "Check the derivatives of every step instead");
  check->fallthrough();
  CLI::App* bench = app.add_subcommand("bench", "Measure the speed instead (upscale-bench train)");
  bench->prefix_command();
  bench->set_help_flag();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // --help, too.
    return app.exit(error) == 0 ? kExitOk : kExitBadArguments;
  }
  signal(SIGINT, [](int) { interrupted = true; });
  signal(SIGTERM, [](int) { interrupted = true; });
  const absl::Status status = bench->parsed()   ? Bench(bench->remaining())
                              : check->parsed() ? Check(command)
                                                : Train(command);
  if (status.ok()) return kExitOk;
  absl::FPrintF(stderr, "upscale-train: %s\n", std::string(status.message()));
  return kExitFailed;
}

}  // namespace
}  // namespace upscaled::train

int main(int argc, char** argv) { return upscaled::train::Main(argc, argv); }
