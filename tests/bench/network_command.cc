// upscale-bench network: whole images, 8 bits to 8 bits, through the engine's public call; all
// wanted precisions and thread counts, and oneDNN, in turns.
// The image is shaded, without flat areas; --picture takes one of yours, since `fast` takes longer
// if values leave its range. Times of one thread are processor time: neighbours change it least.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "engine/pipeline/image_run.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/reach.h"
#include "engine/pipeline/upscaler.h"
#include "tests/bench/commands.h"
#include "tests/bench/images.h"
#include "tests/bench/measure.h"
#include "tests/bench/onednn.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"

namespace upscaled::bench {
namespace {

struct NetworkOptions {
  CommonOptions common;
  ModelOptions model;
  std::vector<std::string> sizes = {"960x540"};
  std::string picture;  // "" = shaded
  std::string tile;     // "" = the backend's choice
  std::vector<std::string> precisions = {"exact"};
  std::vector<int> threads = {1};
  bool tile_memory = true;
  bool peers = true;
  std::string peer_tile = "240x135";
};

Image SourceImage(const NetworkOptions& options, Size size) {
  if (options.picture.empty()) return ShadedImage(size);
  return CutOrRepeat(ValueOrExit(LoadImage(options.picture, /*factor=*/1, /*min_side_px=*/1)),
                     size);
}

// One backend, its threads and an image to compute with them.
class Engine {
 public:
  // The error of a network without an executable in this precision.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const Network& network,
                                                        const NetworkOptions& options,
                                                        Precision precision, int threads,
                                                        const Image& source) {
    BackendOptions backend_options = options.common.backend;
    backend_options.threads = threads;
    ASSIGN_OR_RETURN(auto backend, CreateCpuBackend(backend_options));
    ASSIGN_OR_RETURN(auto executable, backend->Compile(network, precision));
    return std::make_unique<Engine>(std::move(backend), std::move(executable), options, threads,
                                    source);
  }

  Engine(std::unique_ptr<Backend> backend, std::shared_ptr<const Executable> executable,
         const NetworkOptions& options, int threads, const Image& source)
      : source_(source),
        backend_(std::move(backend)),
        executable_(std::move(executable)),
        executor_(MakeLocalExecutor(*backend_)) {
    const int scale = executable_->network().scale;
    result_ = Image(
        {source.spec().width_px * scale, source.spec().height_px * scale, 3, SampleType::kU8});
    const Size size = source.spec().size();
    tile_ = options.tile.empty() ? TileSizeFor(*executable_, size, size,
                                               ReachOf(*executable_, size).halo.Mean(), threads)
                                 : ValueOrExit(ParseSize(options.tile));
    keeps_ = options.tile_memory;
    if (!options.tile.empty()) return;
    UpscalePlan plan =
        ValueOrExit(PlanUpscale(source.spec(), result_.spec().size(), {executable_},
                                {.spare_flat_areas = false, .concurrency = threads}));
    if (plan.passes.front().rows) rows_ = std::move(plan);
  }

  // How the image is cut.
  std::string Describe() const {
    const Size image = source_.spec().size();
    const std::string cut =
        rows_ ? "rows" : absl::StrFormat("tile %dx%d", tile_.width, tile_.height);
    return absl::StrFormat("%dx%d %s", image.width, image.height, cut);
  }

  void Run() {
    if (rows_) return RunRows();
    std::vector<TileTask> tiles =
        CutImage(*executable_, source_.view(), result_.mutable_view(), tile_);
    const int64_t cached_tiles = keeps_ ? std::ssize(tiles) : 0;
    ExitUnlessOk(ImageRun(*executable_, std::move(tiles), cached_tiles)
                     .Run([this](std::span<const TileTask> pass) {
                       RunTiles({pass.begin(), pass.end()});
                       return absl::OkStatus();
                     }));
  }

 private:
  void RunRows() {
    ImageRows source(source_);
    ExitUnlessOk(MakeUpscaler(*rows_, source, *executor_, /*cancellation=*/nullptr)
                     ->ReadRows(result_.mutable_view()));
  }

  void RunTiles(std::vector<TileTask> tasks) {
    absl::BlockingCounter left(static_cast<int>(tasks.size()));
    executor_->Submit(executable_, std::move(tasks), /*cancellation=*/nullptr,
                      [&left](size_t, const absl::Status& status) {
                        ExitUnlessOk(status);
                        left.DecrementCount();
                      });
    left.Wait();
  }

  const Image& source_;
  Image result_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<TileExecutor> executor_;
  Size tile_;
  bool keeps_ = false;
  std::optional<UpscalePlan> rows_;  // set: the image flows by in rows instead of tiles
};

// The subjects of the measurement, row by row of the report.
struct InterleavedBenchmark {
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<Subject> subjects;
  std::vector<ReportRow> rows;
  std::vector<ReportRow> failed;  // peers that cannot run the network

  void Add(ReportRow row, std::function<void()> run, double operations) {
    subjects.push_back(
        {std::move(run), operations, row.threads, /*processor_time=*/row.threads == 1});
    rows.push_back(std::move(row));
  }
};

std::string Describe(Size image, Size tile) {
  return absl::StrFormat("%dx%d tile %dx%d", image.width, image.height, tile.width, tile.height);
}

void AddEngines(const Network& network, const NetworkOptions& options, const Image& source,
                double operations, InterleavedBenchmark& benchmark) {
  for (const std::string& precision : options.precisions) {
    for (const int wanted : options.threads) {
      const int threads = wanted > 0 ? wanted : AvailableCpuCount();
      ReportRow row;
      row.name = network.name.empty() ? options.model.model : network.name;
      row.precision = precision;
      row.threads = threads;
      auto created = Engine::Create(network, options, PrecisionOf(precision), threads, source);
      if (!created.ok()) {
        row.note = std::string(created.status().message());
        benchmark.failed.push_back(std::move(row));
        continue;
      }
      Engine& engine = *benchmark.engines.emplace_back(*std::move(created));
      row.shape = engine.Describe();
      benchmark.Add(
          std::move(row), [&engine] { engine.Run(); }, operations);
    }
  }
}

void AddPeers(const Network& network, const NetworkOptions& options, const Image& source,
              double operations, InterleavedBenchmark& benchmark) {
  const Size tile = ValueOrExit(ParseSize(options.peer_tile));
  for (const OnednnVariant variant : kOnednnVariants) {
    ReportRow row;
    row.name = OnednnName(variant);
    row.shape = Describe(source.spec().size(), tile);
    row.precision = OnednnPrecision(variant);
    auto run = MakeOnednnNetwork(network, source.view(), tile, variant);
    if (run.ok()) {
      benchmark.Add(std::move(row), *std::move(run), operations);
    } else {
      row.note = std::string(run.status().message());
      benchmark.failed.push_back(std::move(row));
    }
  }
}

// How the engine's rows relate to fewer threads, and to the peer's fastest row of fp32 and int8.
void RecordSpeedups(InterleavedBenchmark& benchmark, const std::vector<Measurement>& results) {
  const size_t engines = benchmark.engines.size();
  std::map<std::string, size_t> rivals;  // by precision
  for (size_t i = engines; i < results.size(); ++i) {
    const auto [rival, first] = rivals.try_emplace(benchmark.rows[i].precision, i);
    if (!first && results[i].seconds < results[rival->second].seconds) rival->second = i;
  }
  for (size_t i = 0; i < engines; ++i) {
    ReportRow& row = benchmark.rows[i];
    std::vector<std::string> notes;
    for (size_t j = 0; j < i; ++j) {
      const ReportRow& other = benchmark.rows[j];
      if (other.precision != row.precision || other.threads != 1) continue;
      row.note += absl::StrFormat("%.2fx one thread ", Speedup(results[i], results[j]));
    }
    for (const auto& [precision, rival] : rivals) {
      if (row.threads != 1) continue;
      row.note += absl::StrFormat("%.2fx %s ", Speedup(results[i], results[rival]),
                                  benchmark.rows[rival].name);
    }
  }
}

std::vector<ReportRow> MeasureSize(const NetworkOptions& options, const Network& network,
                                   Size size) {
  const Image source = SourceImage(options, size);
  const double operations = 2 * network.MacsPerOutputPixel() * network.scale * network.scale *
                            static_cast<double>(source.spec().size().Area());
  InterleavedBenchmark benchmark;
  AddEngines(network, options, source, operations, benchmark);
  if (options.peers && HasOnednn()) AddPeers(network, options, source, operations, benchmark);
  const std::vector<Measurement> results =
      Measure(benchmark.subjects,
              {.isa = ChosenIsa(options.common.backend), .budget_s = options.common.budget_s});
  for (size_t i = 0; i < results.size(); ++i) benchmark.rows[i].measurement = results[i];
  RecordSpeedups(benchmark, results);
  std::ranges::move(benchmark.failed, std::back_inserter(benchmark.rows));
  return std::move(benchmark.rows);
}

void RunNetworkCommand(const NetworkOptions& options) {
  const Network network = options.model.Load();
  std::vector<ReportRow> rows;
  for (const std::string& size : options.sizes) {
    std::ranges::move(MeasureSize(options, network, ValueOrExit(ParseSize(size))),
                      std::back_inserter(rows));
  }
  PrintReport(rows, options.common.json);
}

}  // namespace

void AddNetworkCommand(CLI::App& app) {
  auto options = std::make_shared<NetworkOptions>();
  CLI::App* command = app.add_subcommand("network", "Whole images through a network");
  AddModelOptions(*command, options->model);
  command->add_option("--size", options->sizes, "Images, one after the other")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--picture", options->picture,
                      "File of which the image is the middle; default a shaded one");
  command->add_option("--tile", options->tile, "Largest tile; default the backend's choice");
  command->add_option("--threads", options->threads, "Thread counts; 0 = all available")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--precision", options->precisions, "exact, fast or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command->add_flag("!--no-tile-memory", options->tile_memory,
                    "With global poolings: compute again instead of keeping layers");
  command->add_flag("!--no-peers", options->peers, "Leave oneDNN out");
  command->add_option("--peer-tile", options->peer_tile, "oneDNN's largest tile")
      ->capture_default_str();
  AddCommonOptions(*command, options->common);
  command->callback([options] {
    LoadTuning(options->common);
    RunNetworkCommand(*options);
  });
}

}  // namespace upscaled::bench
