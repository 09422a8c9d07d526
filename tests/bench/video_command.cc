// upscale-bench video: frames of films against single images, in turns.
// In three films a tenth of the area changes, another picture comes every 100 frames, and all of
// the grain changes.
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/backend_list.h"
#include "engine/image/view_rows.h"
#include "engine/pipeline/frame_upscaler.h"
#include "engine/pipeline/local_executor.h"
#include "tests/bench/commands.h"
#include "tests/bench/images.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct VideoOptions {
  BackendOptions backend;
  std::string device = "cpu";
  ModelOptions model;
  std::string precision = "exact";
  std::string size = "960x540";
  int frames = 200;
  bool json = false;
};

// Gives the frames of a film, each made from the one before.
struct Film {
  const char* name;
  std::function<void(int number, Image& frame)> next;
};

void CopyInto(const Image& from, const Rect& place, Image& frame) {
  const ImageView source = from.view().Crop({0, 0, place.width, place.height});
  const MutableImageView to = frame.mutable_view().Crop(place);
  for (int y = 0; y < place.height; ++y)
    std::memcpy(to.row(y), source.row(y), source.spec.row_bytes());
}

// A tenth of the area changes, and wanders over the frame; another picture every 100 frames; other
// grain everywhere.
std::vector<Film> Films(Size size) {
  const Size part{size.width * 316 / 1000, size.height * 316 / 1000};
  const Rect all{0, 0, size.width, size.height};
  return {{"a tenth changes",
           [=](int number, Image& frame) {
             const Rect place{number * 7 % (size.width - part.width),
                              number * 3 % (size.height - part.height), part.width, part.height};
             CopyInto(ShadedImage(part, static_cast<unsigned>(number)), place, frame);
           }},
          {"slide show",
           [=](int number, Image& frame) {
             if (number % 100 == 0)
               CopyInto(ShadedImage(size, static_cast<unsigned>(number)), all, frame);
           }},
          {"noise", [=](int number, Image& frame) {
             CopyInto(ShadedImage(size, static_cast<unsigned>(number)), all, frame);
           }}};
}

struct VideoRow {
  std::string film;
  double images_s = 0, frames_s = 0;  // in all
  double unchanged = 0;               // share of the source's pixels
};

class VideoBench {
 public:
  explicit VideoBench(const VideoOptions& options)
      : options_(options), size_(ValueOrExit(ParseSize(options.size))) {
    const Network network = options.model.Load();
    backend_ = ValueOrExit(CreateBackend(options.device, options.backend));
    const auto executable = ValueOrExit(backend_->Compile(network, PrecisionOf(options.precision)));
    executor_ = MakeLocalExecutor(*backend_);
    plan_ = ValueOrExit(PlanUpscale({size_.width, size_.height, kRgbChannels, SampleType::kU8},
                                    {size_.width * network.scale, size_.height * network.scale},
                                    {executable}, {.concurrency = executor_->concurrency()}));
    result_ = Image(plan_.result);
  }

  Size size() const { return size_; }

  VideoRow Measure(const Film& film) {
    VideoRow row{.film = film.name};
    Image frame = ShadedImage(size_);
    FrameUpscaler upscaler(plan_, options_.frames, *executor_, nullptr, {});
    for (int i = 0; i < options_.frames; ++i) {
      film.next(i, frame);
      // Each frame begins with the other one.
      for (const bool first : {true, false}) {
        const absl::Time start = absl::Now();
        if (first == (i % 2 == 0)) {
          ViewRows source(frame.view());
          Read(*ValueOrExit(upscaler.Next(source)));
          row.frames_s += absl::ToDoubleSeconds(absl::Now() - start);
        } else {
          ViewRows source(frame.view());
          Read(*MakeUpscaler(plan_, source, *executor_, nullptr));
          row.images_s += absl::ToDoubleSeconds(absl::Now() - start);
        }
      }
    }
    row.unchanged = static_cast<double>(upscaler.unchanged_px()) /
                    static_cast<double>(options_.frames * size_.Area());
    return row;
  }

 private:
  void Read(RowSource& rows) { ExitUnlessOk(rows.ReadRows(result_.mutable_view())); }

  const VideoOptions& options_;
  const Size size_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<TileExecutor> executor_;
  UpscalePlan plan_;
  Image result_;
};

void RunVideoCommand(const VideoOptions& options) {
  VideoBench bench(options);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  if (!options.json) {
    PrintMachine();
    std::printf("%d frames of %dx%d\n%-16s %10s %10s %10s %7s\n", options.frames,
                bench.size().width, bench.size().height, "film", "unchanged", "images/s",
                "frames/s", "time");
  }
  for (const Film& film : Films(bench.size())) {
    const VideoRow row = bench.Measure(film);
    if (!options.json) {
      std::printf("%-16s %9.1f%% %10.2f %10.2f %7.3f\n", row.film.c_str(), 100 * row.unchanged,
                  options.frames / row.images_s, options.frames / row.frames_s,
                  row.frames_s / row.images_s);
      std::fflush(stdout);
    }
    list.push_back({{"film", row.film},
                    {"frames", options.frames},
                    {"unchanged", row.unchanged},
                    {"images_seconds", row.images_s},
                    {"frames_seconds", row.frames_s},
                    {"ratio", row.frames_s / row.images_s}});
  }
  if (options.json) std::printf("%s\n", list.dump(2).c_str());
}

}  // namespace

void AddVideoCommand(CLI::App& app) {
  auto options = std::make_shared<VideoOptions>();
  CLI::App* command =
      app.add_subcommand("video", "Frames of films against single images, in turns");
  AddModelOptions(*command, options->model);
  command->add_option("--size", options->size, "Of a frame, WxH")->capture_default_str();
  command->add_option("--frames", options->frames, "Frames of each film")
      ->check(CLI::Range(2, 100'000))
      ->capture_default_str();
  command->add_option("--device", options->device, "Device")->capture_default_str();
  command->add_option("--precision", options->precision, "exact or fast")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str();
  command->add_option("--threads", options->backend.threads, "Threads; 0 = all available")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print a list of objects instead of a table");
  command->callback([options] { RunVideoCommand(*options); });
}

}  // namespace upscaled::bench
