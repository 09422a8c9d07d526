// upscale-bench network: whole pictures through the engine's public call, 8 bits to 8 bits.
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/model/repository.h"
#include "engine/tiling/tile_grid.h"
#include "engine/tiling/tile_shape.h"
#include "tests/bench/commands.h"
#include "tests/bench/measure.h"
#include "tests/bench/networks.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"

namespace upscaled::bench {
namespace {

struct NetworkOptions {
  CommonOptions common;
  std::string model;
  std::string repository;
  std::string size = "960x540";
  std::string tile;  // "" = the backend's choice
  std::string precision = "exact";
};

Image NoiseImage(Size size) {
  Image image({size.width, size.height, 3, SampleType::kU8});
  std::mt19937 random(1);
  uint8_t* pixels = image.mutable_view().data;
  for (size_t i = 0; i < image.bytes(); ++i) pixels[i] = static_cast<uint8_t>(random());
  return image;
}

// Tasks that cover the picture.
std::vector<TileTask> MakeTasks(const Executable& executable, const Image& source, Image& result,
                                Size max_tile) {
  const int scale = executable.network().scale;
  const Size size = source.spec().size();
  const TileGrid grid(size, max_tile);
  std::vector<TileTask> tasks;
  for (int row = 0; row < grid.rows(); ++row) {
    for (int column = 0; column < grid.columns(); ++column) {
      const Rect tile = grid.Tile(column, row);
      const Rect input = executable.InputRect(tile, size);
      tasks.push_back({source.view().Crop(input), input, size, tile,
                       result.mutable_view().Crop(Scale(tile, scale))});
    }
  }
  return tasks;
}

// What the pipeline would choose: tiles that keep all streams busy to the end.
Size DefaultTile(const Executable& executable, Size image, int streams) {
  const Rect one{image.width / 2, image.height / 2, 1, 1};
  TileShapeInput input;
  input.image = image;
  input.max_tile = executable.PreferredTile();
  input.halo_px = executable.InputRect(one, image).width - 1;
  input.streams = streams;
  return ChooseTileShape(input).tile;
}

// Each thread takes the next tile until none is left.
absl::Status RunTasks(const Executable& executable, std::span<const TileTask> tasks,
                      std::span<const std::unique_ptr<Stream>> streams) {
  std::atomic<size_t> next = 0;
  std::vector<absl::Status> results(streams.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < streams.size(); ++i) {
    threads.emplace_back([&, i] {
      for (size_t task = next++; task < tasks.size() && results[i].ok(); task = next++) {
        results[i] = streams[i]->Run(executable, tasks.subspan(task, 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) {
    if (!result.ok()) return result;
  }
  return absl::OkStatus();
}

void RunNetworkCommand(const NetworkOptions& options) {
  const Network network = ValueOrExit(LoadBenchNetwork(options.model, options.repository));
  const Size size = ValueOrExit(ParseSize(options.size));
  const auto backend = ValueOrExit(CreateCpuBackend(options.common.backend));
  const Precision precision = options.precision == "fast" ? Precision::kFast : Precision::kExact;
  const auto executable = ValueOrExit(backend->Compile(network, precision));
  const Size tile = options.tile.empty() ? DefaultTile(*executable, size, backend->StreamCount())
                                         : ValueOrExit(ParseSize(options.tile));
  const Image source = NoiseImage(size);
  Image result({size.width * network.scale, size.height * network.scale, 3, SampleType::kU8});
  const std::vector<TileTask> tasks = MakeTasks(*executable, source, result, tile);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < backend->StreamCount(); ++i) streams.push_back(backend->CreateStream());

  MeasureOptions measure;
  measure.isa = ChosenIsa(options.common.backend);
  measure.threads = backend->StreamCount();
  measure.budget_s = options.common.budget_s;
  const double operations =
      2 * network.MacsPerOutputPixel() * static_cast<double>(result.spec().size().Area());
  ReportRow row;
  row.name = absl::StrCat(network.name.empty() ? options.model : network.name);
  row.shape = absl::StrCat(size.width, "x", size.height, " tile ", tile.width, "x", tile.height);
  row.precision = options.precision;
  row.threads = measure.threads;
  row.measurement =
      Measure([&] { ExitUnlessOk(RunTasks(*executable, tasks, streams)); }, operations, measure);
  PrintReport({row}, options.common.json);
}

}  // namespace

void AddNetworkCommand(CLI::App& app) {
  auto options = std::make_shared<NetworkOptions>();
  CLI::App* command = app.add_subcommand("network", "Whole pictures through a network");
  command->add_option("--model", options->model, "Name, weights file or random:SHAPE")->required();
  command->add_option("--model-repository", options->repository, "Folder of models");
  command->add_option("--size", options->size, "Picture")->capture_default_str();
  command->add_option("--tile", options->tile, "Largest tile; default the backend's choice");
  command->add_option("--threads", options->common.backend.threads, "Threads; 0 = all available")
      ->capture_default_str();
  command->add_option("--precision", options->precision, "exact or fast")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  AddCommonOptions(*command, options->common);
  command->callback([options] { RunNetworkCommand(*options); });
}

}  // namespace upscaled::bench
