// upscale-bench accuracy: the distance from fp32 of the results of `fast`, and of 8 bits.
// 8 bits are as a library's int8 has them: plain loops over each convolution's inputs and weights,
// by the image's own ranges, in int8's favour.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/pipeline/image_run.h"
#include "tests/bench/commands.h"
#include "tests/bench/eight_bits.h"
#include "tests/bench/images.h"
#include "tests/bench/machine.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct AccuracyOptions {
  BackendOptions backend{.threads = 1};
  ModelOptions model;
  std::vector<std::filesystem::path> images;
  bool json = false;
};

// Between 8-bit samples; infinite where they are equal.
double Psnr_dB(const Image& image, const Image& exact) {
  double squares = 0;
  for (size_t i = 0; i < exact.bytes(); ++i) {
    squares += std::pow(image.view().data[i] - exact.view().data[i], 2);
  }
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(exact.bytes()) / squares);
}

Image RunWhole(Backend& backend, const Executable& executable, const Image& source) {
  const Size size = source.spec().size();
  const int scale = executable.network().scale;
  Image result({size.width * scale, size.height * scale, 3, SampleType::kU8});
  const std::unique_ptr<Stream> stream = backend.CreateStream();
  ExitUnlessOk(
      ImageRun(executable, CutImage(executable, source.view(), result.mutable_view(), size))
          .Run([&](std::span<const TileTask> tiles) { return stream->Run(executable, tiles); }));
  return result;
}

void RunAccuracyCommand(const AccuracyOptions& options) {
  const Network network = options.model.Load();
  const auto backend = ValueOrExit(CreateCpuBackend(options.backend));
  const auto exact = ValueOrExit(backend->Compile(network, Precision::kExact));
  const auto fast = ValueOrExit(backend->Compile(network, Precision::kFast));
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  if (!options.json) {
    PrintMachine();
    std::printf("%-32s %9s %9s   (dB to exact)\n", "image", "fast", "8 bits");
  }
  for (const std::filesystem::path& path : options.images) {
    const Image source = ValueOrExit(LoadImage(path, /*factor=*/1, /*min_side_px=*/1));
    const Image expected = RunWhole(*backend, *exact, source);
    const double fast_dB = Psnr_dB(RunWhole(*backend, *fast, source), expected);
    const double eight_bits_dB = Psnr_dB(RunInEightBits(network, source.view()), expected);
    const std::string name = path.filename().string();
    if (!options.json) std::printf("%-32.32s %9.2f %9.2f\n", name.c_str(), fast_dB, eight_bits_dB);
    list.push_back({{"image", name}, {"fast_db", fast_dB}, {"eight_bits_db", eight_bits_dB}});
  }
  if (options.json) std::printf("%s\n", list.dump(2).c_str());
}

}  // namespace

void AddAccuracyCommand(CLI::App& app) {
  auto options = std::make_shared<AccuracyOptions>();
  CLI::App* command = app.add_subcommand(
      "accuracy", "How near to exact ones the results of fast are, and of 8-bit integers");
  AddModelOptions(*command, options->model);
  command->add_option("--image", options->images, "PNG, JPEG or WebP files, small; repeatable")
      ->required();
  command->add_option("--cpu-isa", options->backend.cpu_isa, "Instruction set of fast");
  command->add_flag("--json", options->json, "Print a list of objects instead of a table");
  command->callback([options] { RunAccuracyCommand(*options); });
}

}  // namespace upscaled::bench
