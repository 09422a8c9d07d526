#include "client/cli/load_command.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/cli/forced_exit.h"
#include "client/cli/interrupt.h"
#include "client/cli/load_stats.h"
#include "client/error_details.h"
#include "client/image_io.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr char kLoadFooter[] = R"(
Each client has a connection of its own and makes one call after the other. Nothing is tried again, so
refusals show. The command waits for the calls that run at the end, and counts them. Of how to upscale, --size takes
model, noise, scale and precision only.

Examples:
  upscale load --clients 8 --seconds 10 --image photo.png -f jpeg
  upscale load --clients 1 --seconds 20 --size 64x64 --interval-ms 1100

Exit status: 0 some calls succeeded, 1 bad arguments, 2 cannot connect, 3 all calls failed, 5 the
image could not be read, 130 interrupted.)";

constexpr int kChannels = 3;
constexpr int64_t kMaxTilePixels = 16 << 20;  // So that a tile fits into a message.
constexpr size_t kMaxImageBytes = 1 << 30;
constexpr size_t kReadBytes = 1 << 20;
constexpr absl::Duration kConnectPatience = absl::Seconds(10);

struct LoadFlags {
  ConnectionFlags connection;
  UpscaleFlags upscale;
  std::string format;
  std::string image_path;
  std::string size;
  int clients = 1;
  double seconds = 10;
  double interval_ms = 0;
  bool json = false;
};

// The payload of every call: an encoded image, or raw pixels without one.
struct Load {
  std::string image;
  v1::Tile tile;
  v1::UpscaleOptions options;
};

class DiscardingSink final : public ImageSink {
 public:
  absl::Status Write(absl::string_view) override { return absl::OkStatus(); }
  absl::Status Restart() override { return absl::OkStatus(); }
};

absl::StatusOr<v1::Tile> RandomTile(const std::string& size) {
  int width = 0, height = 0, end = 0;
  if (std::sscanf(size.c_str(), "%5dx%5d%n", &width, &height, &end) != 2 ||
      end != static_cast<int>(size.size()) || width < 1 || height < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--size ", size, " is not WIDTHxHEIGHT, and there is no --image"));
  }
  const int64_t pixels = static_cast<int64_t>(width) * height;
  if (pixels > kMaxTilePixels) {
    return absl::InvalidArgumentError(absl::StrCat("--size ", size, " is ", pixels,
                                                   " pixels, above the limit of ", kMaxTilePixels));
  }
  v1::Tile tile;
  tile.set_width_px(width);
  tile.set_height_px(height);
  tile.set_bits_per_sample(8);
  std::minstd_rand random{std::random_device{}()};
  std::string& samples = *tile.mutable_pixels();
  samples.resize(static_cast<size_t>(pixels) * kChannels);
  std::generate(samples.begin(), samples.end(), [&] { return static_cast<char>(random() >> 8); });
  return tile;
}

absl::StatusOr<std::string> ReadImage(const std::string& path, std::stop_token stop) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageSource> source, OpenSource(path));
  std::string image;
  for (;;) {
    const size_t size = image.size();
    if (size > kMaxImageBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("--image ", path, " is above the limit of ", kMaxImageBytes, " bytes"));
    }
    image.resize(size + kReadBytes);
    ASSIGN_OR_RETURN(const size_t count, source->Read(std::span(image).subspan(size), stop));
    image.resize(size + count);
    if (count == 0) break;
  }
  if (image.empty()) return absl::InvalidArgumentError(absl::StrCat("--image ", path, " is empty"));
  return image;
}

absl::StatusOr<Load> MakeLoad(const LoadFlags& flags, std::stop_token stop) {
  Load load;
  load.options = flags.upscale.ToProto();
  load.options.set_format(ParseFormat(flags.format));
  if (flags.image_path.empty()) {
    if (load.options.scale() != std::floor(load.options.scale())) {
      return absl::InvalidArgumentError("--size needs a whole --scale");
    }
    ASSIGN_OR_RETURN(load.tile, RandomTile(flags.size));
    return load;
  }
  ASSIGN_OR_RETURN(load.image, ReadImage(flags.image_path, stop));
  return load;
}

// One call; returns how many pixels were upscaled.
absl::StatusOr<int64_t> CallWithImage(UpscaleClient& client, const Load& load,
                                      std::stop_token stop) {
  MemorySource source(load.image);
  DiscardingSink sink;
  ImageObserver nobody;
  ASSIGN_OR_RETURN(const ImageResult result,
                   client.UpscaleImage({.options = load.options}, source, sink, nobody, stop));
  return static_cast<int64_t>(result.header.source_width_px()) * result.header.source_height_px();
}

absl::StatusOr<int64_t> CallWithTile(UpscaleClient& client, const Load& load,
                                     std::stop_token stop) {
  v1::UpscaleTilesStart start;
  start.set_model(load.options.model());
  if (load.options.has_noise_level()) start.set_noise_level(load.options.noise_level());
  start.set_scale(static_cast<int>(load.options.scale()));
  start.set_precision(load.options.precision());
  absl::Status tile_status;
  RETURN_IF_ERROR(client.UpscaleTiles(
      start, {&load.tile, 1},
      [&](const v1::UpscaleTilesResponse& answer) {
        if (answer.has_error()) tile_status = FromTileError(answer.error());
      },
      stop));
  RETURN_IF_ERROR(tile_status);
  return static_cast<int64_t>(load.tile.width_px()) * load.tile.height_px();
}

// Calls until `end` or `stop`.
LoadStats RunClient(UpscaleClient& client, const Load& load, absl::Time end,
                    absl::Duration interval, std::stop_token stop) {
  LoadStats stats;
  while (!stop.stop_requested()) {
    const absl::Time start = absl::Now();
    const absl::StatusOr<int64_t> pixels =
        load.image.empty() ? CallWithTile(client, load, stop) : CallWithImage(client, load, stop);
    if (stop.stop_requested()) break;  // A call that was stopped is no measurement.
    if (pixels.ok()) {
      stats.AddSuccess(absl::Now() - start, *pixels);
    } else {
      stats.AddError(pixels.status());
    }
    if (absl::Now() + interval >= end) break;
    RetryClock::Real().Sleep(interval, stop);
  }
  return stats;
}

absl::StatusOr<std::vector<std::unique_ptr<UpscaleClient>>> ConnectClients(const LoadFlags& flags,
                                                                           const LocalServer* own) {
  ASSIGN_OR_RETURN(ClientOptions options, flags.connection.ToOptions(own));
  options.channel.own_connections = true;
  std::vector<std::unique_ptr<UpscaleClient>> clients;
  for (int i = 0; i < flags.clients; ++i) {
    ASSIGN_OR_RETURN(clients.emplace_back(), UpscaleClient::Create(options));
    RETURN_IF_ERROR(clients.back()->Connect(kConnectPatience));
  }
  return clients;
}

int RunLoad(const LoadFlags& flags) {
  const Interrupt interrupt;
  const absl::StatusOr<Load> load = MakeLoad(flags, interrupt.token());
  if (!load.ok()) return Fail(load.status());
  const auto own = flags.connection.StartLocal(interrupt.token());
  if (!own.ok()) return Fail(own.status());
  const auto clients = ConnectClients(flags, own->get());
  if (!clients.ok()) return Fail(clients.status());

  std::vector<LoadStats> stats(clients->size());
  const absl::Time start = absl::Now();
  const absl::Time end = start + absl::Seconds(flags.seconds);
  {
    const ForcedExit forced_exit(absl::Seconds(flags.seconds) + flags.connection.timeout());
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < clients->size(); ++i) {
      threads.emplace_back([&, i] {
        stats[i] = RunClient(*(*clients)[i], *load, end, absl::Milliseconds(flags.interval_ms),
                             interrupt.token());
      });
    }
  }
  const absl::Duration elapsed = absl::Now() - start;
  LoadStats all;
  for (const LoadStats& each : stats) all.Add(each);
  if (flags.json) {
    absl::PrintF("%s\n", all.ToJson(elapsed).dump());
  } else {
    absl::PrintF("%s", all.ToText(elapsed));
    if (!all.sample_error().ok()) absl::PrintF("  such as: %s\n", ErrorLine(all.sample_error()));
  }
  if (interrupt.token().stop_requested()) return kExitInterrupted;
  return all.successes() == 0 && all.errors() > 0 ? kExitRpcFailed : kExitOk;
}

void AddFlags(CLI::App& command, LoadFlags& flags) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* description) {
    return command.add_option(name, value, description)->type_name(type);
  };
  CLI::Option* image = add("--image", flags.image_path, "FILE", "Image to send with UpscaleImage");
  CLI::Option* size =
      add("--size", flags.size, "WIDTHxHEIGHT", "Or: a tile of random pixels, with UpscaleTiles")
          ->excludes(image);
  add("--clients", flags.clients, "N", "Clients at a time")
      ->check(Between(1, 1000))
      ->capture_default_str();
  add("--seconds", flags.seconds, "N", "Time after which no new call is made")
      ->check(Between(0.01, 86400.0))
      ->capture_default_str();
  add("--interval-ms", flags.interval_ms, "N", "Pause of a client after each call")
      ->check(Between(0.0, 86400e3));
  flags.upscale.AddTo(command);
  add("-f,--format", flags.format, "png|jpeg|webp|avif|jxl|tiff",
      "Format of the result; default: the image's")
      ->check(CLI::IsMember({"png", "jpg", "jpeg", "webp", "avif", "jxl", "tif", "tiff"},
                            CLI::ignore_case)
                  .description(""));
  for (const char* name :
       {"--width", "--height", "--prefilter-space", "--tta", "--tile", "--format"}) {
    size->excludes(command.get_option(name));  // UpscaleTiles has no such thing.
  }
  command.add_flag("--json", flags.json, "Print JSON");
  flags.connection.AddTo(command);
  flags.connection.AddLocalTo(command);
  command.footer(kLoadFooter);
}

}  // namespace

void AddLoadCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<LoadFlags>();
  flags->connection.retries = 0;
  flags->connection.timeout_s = 60;
  CLI::App* command = app.add_subcommand("load", "Measure throughput and latency under load");
  AddFlags(*command, *flags);
  command->callback([flags, &exit_code] { exit_code = RunLoad(*flags); });
}

}  // namespace upscaled::client
