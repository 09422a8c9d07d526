// upscale-bench quality: the gain of a model over Lanczos-3 on a folder of images. Each is reduced
// by the model's scale, enlarged again and compared with the original.
// PSNR and SSIM are of the Y plane, cropped by 8 px.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/backend_list.h"
#include "engine/base/status_macros.h"
#include "engine/model/repository.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/upscaler.h"
#include "tests/bench/commands.h"
#include "tests/bench/image_quality.h"
#include "tests/bench/images.h"
#include "tests/bench/machine.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kCropPx = 8;
constexpr int kMinSidePx = 2 * kCropPx + 11;  // the minimum of MeasureQuality

struct NamedReduction {
  Reduction reduction;
  const char* name;
};
constexpr NamedReduction kReductions[] = {
    {Reduction::kBox, "box"}, {Reduction::kBicubic, "bicubic"}, {Reduction::kLanczos, "lanczos"}};

struct QualityOptions {
  BackendOptions backend;
  ModelOptions model;
  fs::path images;
  std::string device = "auto";
  std::string precision = "exact";
  int noise_level = kNoDenoise;
  bool keep_colours = true;
  int jpeg_quality = 0;  // 0: the reduced image is not compressed
  bool each = false;
  bool json = false;
};

// One model on one device.
class Model {
 public:
  static absl::StatusOr<Model> Load(const QualityOptions& options) {
    ASSIGN_OR_RETURN(const ModelRepository repository,
                     ModelRepository::Open(options.model.Folders()));
    ASSIGN_OR_RETURN(const ModelCard* card, repository.Find(options.model.model));
    Model model;
    for (const int scale : card->Scales()) {
      if (scale == 1) continue;
      model.scale_ = scale;
      model.keep_colours_ = options.keep_colours;
      const ModelVariant* variant = card->Find(scale, options.noise_level);
      if (variant == nullptr) continue;
      ASSIGN_OR_RETURN(const Network network, LoadNetwork(*card, *variant));
      ASSIGN_OR_RETURN(model.backend_, CreateBackend(options.device, options.backend));
      ASSIGN_OR_RETURN(model.executable_,
                       model.backend_->Compile(network, PrecisionOf(options.precision)));
      model.executor_ = MakeLocalExecutor(*model.backend_);
      return model;
    }
    return absl::NotFoundError(absl::StrCat("model '", card->name, "' has no weights that enlarge",
                                            " at noise level ", options.noise_level));
  }

  int scale() const { return scale_; }

  absl::StatusOr<Image> Upscale(const Image& image) const {
    const Size size = image.spec().size();
    UpscaleOptions options;
    options.keep_colours = keep_colours_;
    options.concurrency = executor_->concurrency();
    ASSIGN_OR_RETURN(const UpscalePlan plan,
                     PlanUpscale(image.spec(), {size.width * scale_, size.height * scale_},
                                 {executable_}, options));
    ImageRows rows(image);
    return ReadAll(*MakeUpscaler(plan, rows, *executor_, /*cancellation=*/nullptr));
  }

 private:
  Model() = default;

  int scale_ = 0;
  bool keep_colours_ = true;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<TileExecutor> executor_;
};

struct Comparison {
  std::string image;
  ImageQuality lanczos;
  ImageQuality model;
  double gain_db() const { return model.psnr_db - lanczos.psnr_db; }
};

absl::StatusOr<Comparison> Compare(const Model& model, const Image& original, Reduction reduction,
                                   int jpeg_quality) {
  ASSIGN_OR_RETURN(Image small, Reduce(original, model.scale(), reduction));
  if (jpeg_quality > 0) {
    ASSIGN_OR_RETURN(small, ThroughJpeg(small, jpeg_quality));
  }
  ASSIGN_OR_RETURN(const Image enlarged, model.Upscale(small));
  ASSIGN_OR_RETURN(const Image lanczos, EnlargeByLanczos(small, original.spec().size()));
  Comparison comparison;
  comparison.lanczos = MeasureQuality(lanczos.view(), original.view(), kCropPx);
  comparison.model = MeasureQuality(enlarged.view(), original.view(), kCropPx);
  return comparison;
}

template <typename Field>
double Mean(const std::vector<Comparison>& list, Field field) {
  double sum = 0;
  for (const Comparison& comparison : list) sum += field(comparison);
  return sum / static_cast<double>(list.size());
}

Comparison Summary(const std::vector<Comparison>& list) {
  Comparison mean;
  mean.image = absl::StrCat("mean of ", list.size());
  for (const auto side : {&Comparison::lanczos, &Comparison::model}) {
    (mean.*side).psnr_db = Mean(list, [&](const Comparison& c) { return (c.*side).psnr_db; });
    (mean.*side).ssim = Mean(list, [&](const Comparison& c) { return (c.*side).ssim; });
    for (const Comparison& c : list) {
      (mean.*side).mean_shift = std::max((mean.*side).mean_shift, (c.*side).mean_shift);
    }
  }
  return mean;
}

double WorstGain(const std::vector<Comparison>& list) {
  const auto less = [](const Comparison& a, const Comparison& b) {
    return a.gain_db() < b.gain_db();
  };
  return std::min_element(list.begin(), list.end(), less)->gain_db();
}

using ComparisonsByReduction = std::vector<std::vector<Comparison>>;  // as kReductions

void PrintTable(const ComparisonsByReduction& all, bool each) {
  PrintMachine();
  std::printf("%-9s %-32s %9s %9s %7s %7s %8s %8s %7s %7s\n", "reduced", "image", "Lanczos-3",
              "model", "gain", "worst", "SSIM L-3", "SSIM", "shift", "of L-3");
  const auto print = [](const char* reduction, const Comparison& c, double worst) {
    std::printf("%-9s %-32.32s %9.2f %9.2f %+7.2f %+7.2f %8.4f %8.4f %7.3f %7.3f\n", reduction,
                c.image.c_str(), c.lanczos.psnr_db, c.model.psnr_db, c.gain_db(), worst,
                c.lanczos.ssim, c.model.ssim, c.model.mean_shift, c.lanczos.mean_shift);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    if (each) {
      for (const Comparison& c : all[i]) print(kReductions[i].name, c, c.gain_db());
    }
    print(kReductions[i].name, Summary(all[i]), WorstGain(all[i]));
  }
  std::printf(
      "PSNR in dB and SSIM of the Y plane, %d px cropped; shift: the largest difference of\n"
      "a channel's mean from the original's, in levels.\n",
      kCropPx);
}

void PrintJson(const ComparisonsByReduction& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto side = [](const ImageQuality& q) {
    return nlohmann::ordered_json{
        {"psnr_db", q.psnr_db}, {"ssim", q.ssim}, {"mean_shift", q.mean_shift}};
  };
  for (size_t i = 0; i < all.size(); ++i) {
    for (const Comparison& c : all[i]) {
      list.push_back({{"image", c.image},
                      {"reduction", kReductions[i].name},
                      {"gain_db", c.gain_db()},
                      {"lanczos3", side(c.lanczos)},
                      {"model", side(c.model)}});
    }
  }
  std::printf("%s\n", list.dump(2).c_str());
}

void RunQualityCommand(const QualityOptions& options) {
  const Model model = ValueOrExit(Model::Load(options));
  ComparisonsByReduction all(std::size(kReductions));
  for (const fs::path& path : ValueOrExit(ListImages(options.images))) {
    const absl::StatusOr<Image> original = LoadImage(path, model.scale(), kMinSidePx);
    if (!original.ok()) {
      std::fprintf(stderr, "upscale-bench: passed over %s: %s\n", path.c_str(),
                   std::string(original.status().message()).c_str());
      continue;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      Comparison comparison =
          ValueOrExit(Compare(model, *original, kReductions[i].reduction, options.jpeg_quality));
      comparison.image = path.filename().string();
      all[i].push_back(std::move(comparison));
    }
  }
  if (all.front().empty()) {
    ExitUnlessOk(absl::NotFoundError(
        absl::StrCat("no image to compare in '", options.images.string(), "'")));
  }
  options.json ? PrintJson(all) : PrintTable(all, options.each);
}

}  // namespace

void AddQualityCommand(CLI::App& app) {
  auto options = std::make_shared<QualityOptions>();
  CLI::App* command =
      app.add_subcommand("quality", "What a model gains over Lanczos-3 on a folder of images");
  command->add_option("--model", options->model.model, "Name")->required();
  AddRepositoryOption(*command, options->model.repositories);
  command->add_option("--images", options->images, "Folder of PNG, JPEG and WebP files")
      ->required();
  command->add_option("--noise", options->noise_level, "Noise level")
      ->check(CLI::Range(kNoDenoise, 3))
      ->capture_default_str();
  command->add_flag("!--free-colours", options->keep_colours,
                    "Do not carry the source's low frequencies over");
  command->add_option("--jpeg", options->jpeg_quality, "Compress the reduced image first")
      ->check(CLI::Range(1, 100));
  command->add_option("--device", options->device, "Device")->capture_default_str();
  command->add_option("--precision", options->precision, "exact or fast")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command->add_option("--threads", options->backend.threads, "Threads; 0 = all available")
      ->capture_default_str();
  command->add_flag("--each", options->each, "A line per image, too");
  command->add_flag("--json", options->json, "Print a list of objects instead of a table");
  command->callback([options] { RunQualityCommand(*options); });
}

}  // namespace upscaled::bench
