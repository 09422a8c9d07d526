// upscale-bench profile: where the time of one tile goes on a device, layer by layer.
// GB/s count inputs, output and weights once each. The peak is one thread's FMA peak on the CPU,
// else
// --peak-gflops.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/backend_list.h"
#include "engine/backends/layer_profile.h"
#include "engine/graph/pooling.h"
#include "tests/bench/commands.h"
#include "tests/bench/fma_peak.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct ProfileOptions {
  CommonOptions common;
  std::string device = "cpu";
  ModelOptions model;
  std::string size = "480x270";
  std::string precision = "exact";
  double peak_gflops = 0;  // 0: one thread's of this machine's CPU, where the device is that
};

// Each layer's median over runs of the tile.
std::vector<LayerProfile> ProfileLayers(Stream& stream, const Executable& executable,
                                        const TileTask& task, double budget_s) {
  const absl::Time begin = absl::Now();
  std::vector<LayerProfile> layers = ValueOrExit(stream.Profile(executable, task));  // warms up
  std::vector<std::vector<double>> seconds(layers.size());                           // by layer
  for (int run = 0; run < 3 || absl::Now() - begin < absl::Seconds(budget_s); ++run) {
    layers = ValueOrExit(stream.Profile(executable, task));
    for (size_t i = 0; i < layers.size(); ++i) seconds[i].push_back(layers[i].seconds);
  }
  for (size_t i = 0; i < layers.size(); ++i) layers[i].seconds = Median(std::move(seconds[i]));
  return layers;
}

// Per second, in thousands of millions; 0 for a layer without time.
double Giga(double amount, double seconds) { return seconds > 0 ? amount / seconds * 1e-9 : 0; }

// The fields of PrintReport and of a profile; no peak and ratio if they are not known.
void PrintJson(const std::vector<LayerProfile>& layers, const std::string& precision,
               double peak_gflops) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const LayerProfile& layer : layers) {
    const double gflops = Giga(layer.operations, layer.seconds);
    nlohmann::ordered_json object = {{"name", layer.layer},
                                     {"shape", layer.shape},
                                     {"precision", precision},
                                     {"threads", 1},
                                     {"kernel", layer.kernel},
                                     {"work_group", layer.work_group},
                                     {"seconds", layer.seconds},
                                     {"gflops", gflops},
                                     {"gbytes_per_second", Giga(layer.bytes, layer.seconds)}};
    if (peak_gflops > 0) {
      object["peak_gflops"] = peak_gflops;
      object["ratio"] = gflops / peak_gflops;
    }
    list.push_back(std::move(object));
  }
  std::printf("%s\n", list.dump(2).c_str());
}

void PrintTable(const std::vector<LayerProfile>& layers, double peak_gflops) {
  double total_s = 0;
  for (const LayerProfile& layer : layers) total_s += layer.seconds;
  PrintMachine();
  std::printf("%-16s %-24s %-18s %-8s %10s %6s %9s %7s %6s\n", "layer", "shape", "kernel", "group",
              "ms", "time", "GFLOP/s", "GB/s", "peak");
  for (const LayerProfile& layer : layers) {
    const double gflops = Giga(layer.operations, layer.seconds);
    const std::string share = peak_gflops > 0 ? absl::StrFormat("%.2f", gflops / peak_gflops) : "-";
    std::printf("%-16s %-24s %-18s %-8s %10.3f %5.1f%% %9.1f %7.1f %6s\n", layer.layer.c_str(),
                layer.shape.c_str(), layer.kernel.c_str(),
                layer.work_group.empty() ? "-" : layer.work_group.c_str(), layer.seconds * 1e3,
                100 * layer.seconds / total_s, gflops, Giga(layer.bytes, layer.seconds),
                share.c_str());
  }
  std::printf("%-16s %-24s %-18s %-8s %10.3f\n", "all", "", "", "", total_s * 1e3);
}

void RunProfileCommand(const ProfileOptions& options) {
  const Network network = options.model.Load();
  const Size size = ValueOrExit(ParseSize(options.size));
  const auto backend = ValueOrExit(CreateBackend(options.device, options.common.backend));
  const Precision precision = PrecisionOf(options.precision);
  const auto executable = ValueOrExit(backend->Compile(network, precision));
  const Image source({size.width, size.height, 3, SampleType::kU8});
  Image result({size.width * network.scale, size.height * network.scale, 3, SampleType::kU8});
  const Rect whole{0, 0, size.width, size.height};
  // The last run over an image with global poolings. Any means will do for it.
  std::vector<ChannelMeans> means;
  for (const int pooling : ListPoolings(executable->network())) {
    means.emplace_back(executable->network().layers[pooling].out_channels, 0.5f);
  }
  const PoolingPass pass{.means = means};
  const TileTask task{std::make_shared<const TilePlan>(executable->Plan(whole, size)),
                      source.view(), whole, result.mutable_view(), &pass};
  double peak_gflops = options.peak_gflops;
  if (peak_gflops == 0 && (backend->name() == "cpu" || backend->name() == "reference")) {
    peak_gflops = FmaPeakGflops(ChosenIsa(options.common.backend));
  }
  const std::vector<LayerProfile> layers =
      ProfileLayers(*backend->CreateStream(), *executable, task, options.common.budget_s);
  if (options.common.json) {
    PrintJson(layers, options.precision, peak_gflops);
  } else {
    PrintTable(layers, peak_gflops);
  }
}

}  // namespace

void AddProfileCommand(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* command = app.add_subcommand("profile", "Time of each layer, on one stream");
  command->add_option("--device", options->device, "As upscaled's")->capture_default_str();
  AddModelOptions(*command, options->model);
  command->add_option("--size", options->size, "Image, run as one tile")->capture_default_str();
  command->add_option("--precision", options->precision, "exact or fast")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command->add_option("--peak-gflops", options->peak_gflops,
                      "The device's, for the last column; default one thread's FMA peak on cpu");
  AddCommonOptions(*command, options->common);
  command->callback([options] {
    LoadTuning(options->common);
    RunProfileCommand(*options);
  });
}

}  // namespace upscaled::bench
