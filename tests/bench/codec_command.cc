// upscale-bench codec: the cost of encoding and decoding an image, next to the libraries' own ways.
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <png.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/image/codec.h"
#include "engine/image/memory_io.h"
#include "engine/image/replay_source.h"
#include "engine/image/resample.h"
#include "server/sandbox/decode_sandbox.h"
#include "tests/bench/commands.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct CodecOptions {
  std::string image;
  std::vector<std::string> sizes = {"1920x1080", "3840x2160"};
  int threads = 2;
  int rounds = 5;
  bool json = false;
};

// Encodes or decodes once.
struct CodecSubject {
  std::string name;
  int threads = 1;
  std::function<size_t()> run;  // returns the bytes of the file
  size_t file_bytes = 0;
  std::vector<double> seconds = {};
};

Image ReadAll(RowSource& rows) {
  Image image(rows.spec());
  ExitUnlessOk(rows.ReadRows(image.mutable_view()));
  return image;
}

// Waves with some grain.
Image SyntheticImage(Size size) {
  Image image({size.width, size.height, 3, SampleType::kU8});
  std::mt19937 random(1);
  std::normal_distribution<double> grain(0, 1.5);
  for (int y = 0; y < size.height; ++y)
    for (int i = 0; i < 3 * size.width; ++i) {
      const double shade = 127 + 60 * std::sin(0.01 * (i / 3) + i % 3) * std::cos(0.013 * y);
      image.mutable_view().row(y)[i] = static_cast<uint8_t>(shade + grain(random));
    }
  return image;
}

// The image in `path` at another size, or a synthetic one.
Image ImageOf(const std::string& path, Size size) {
  if (path.empty()) return SyntheticImage(size);
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream file;
  file << stream.rdbuf();
  const std::string bytes = file.str();
  MemorySource source(bytes);
  const auto decoder = ValueOrExit(OpenImageDecoder(source, {}));
  if (decoder->spec().channels != 3 || decoder->spec().type != SampleType::kU8)
    ExitUnlessOk(absl::InvalidArgumentError(absl::StrCat(path, " is not RGB of 8 bits")));
  return ReadAll(*MakeResizer(*decoder, size, Filter::kLanczos3));
}

std::string Encode(const Image& image, const EncodeOptions& options) {
  StringSink sink;
  const auto encoder = ValueOrExit(CreateImageEncoder(options, image.spec(), {}, sink));
  ExitUnlessOk(encoder->WriteRows(image.view()));
  ExitUnlessOk(encoder->Finish());
  return sink.Take();
}

// As libpng does it, with zlib; `filters` as png_set_filter takes them.
std::string EncodeWithLibpng(const Image& image, int level, int filters) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) std::abort();
  const auto append = [](png_structp png, png_bytep bytes, size_t count) {
    static_cast<std::string*>(png_get_io_ptr(png))
        ->append(reinterpret_cast<const char*>(bytes), count);
  };
  png_set_write_fn(png, &file, append, nullptr);
  png_set_IHDR(png, info, image.spec().width_px, image.spec().height_px, 8, PNG_COLOR_TYPE_RGB, 0,
               0, 0);
  png_set_compression_level(png, level);
  png_set_filter(png, PNG_FILTER_TYPE_BASE, filters);
  png_write_info(png, info);
  for (int y = 0; y < image.spec().height_px; ++y) png_write_row(png, image.view().row(y));
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

void AddEncoders(const Image& image, int threads, std::vector<CodecSubject>& subjects) {
  const auto add = [&](const std::string& name, const EncodeOptions& options) {
    subjects.push_back({absl::StrCat("encode ", name), options.threads,
                        [&image, options] { return Encode(image, options).size(); }});
  };
  for (const int level : {0, 1, 2, 3, 6}) {
    add(absl::StrCat("png, level ", level), {.compression = level});
    if (level > 0 && threads > 1)
      add(absl::StrCat("png, level ", level), {.compression = level, .threads = threads});
  }
  add("jpeg, quality 90", {.format = ImageFormat::kJpeg});
  add("webp, quality 90", {.format = ImageFormat::kWebp});
  add("webp, lossless", {.format = ImageFormat::kWebp, .quality = 100});
  const auto add_libpng = [&](const std::string& name, int level, int filters) {
    subjects.push_back(
        {absl::StrCat("encode with libpng, level ", level, ", ", name), 1,
         [&image, level, filters] { return EncodeWithLibpng(image, level, filters).size(); }});
  };
  for (const int level : {1, 2}) {
    add_libpng("up", level, PNG_FILTER_UP);
    add_libpng("paeth", level, PNG_FILTER_PAETH);
  }
}

// As a request does: the header first.
size_t DecodeInSandbox(server::DecodeSandbox& sandbox, const std::string& file) {
  MemorySource source(file);
  std::vector<uint8_t> prefix;
  const DecodeLimits limits;
  const ImageHeader header = ValueOrExit(ReadImageHeader(source, limits, prefix));
  ReplaySource replay(std::move(prefix), source);
  ReadAll(*ValueOrExit(sandbox.Open(header, replay, limits, nullptr)));
  return file.size();
}

void AddDecoders(const Image& image, server::DecodeSandbox& sandbox,
                 std::vector<CodecSubject>& subjects) {
  const auto add = [&](const std::string& name, const EncodeOptions& options) {
    const std::string file = Encode(image, options);
    subjects.push_back({absl::StrCat("decode ", name), 1, [file] {
                          MemorySource source(file);
                          ReadAll(*ValueOrExit(OpenImageDecoder(source, {})));
                          return file.size();
                        }});
    subjects.push_back({absl::StrCat("decode ", name, ", in the sandbox"), 1,
                        [&sandbox, file] { return DecodeInSandbox(sandbox, file); }});
  };
  add("png", {});
  add("jpeg", {.format = ImageFormat::kJpeg});
  add("webp", {.format = ImageFormat::kWebp});
  add("webp, lossless", {.format = ImageFormat::kWebp, .quality = 100});
}

// Turn by turn, so that what changes meanwhile on the machine meets all alike.
void MeasureAll(int rounds, std::vector<CodecSubject>& subjects) {
  for (int round = 0; round < rounds; ++round)
    for (CodecSubject& subject : subjects) {
      const absl::Time start = absl::Now();
      subject.file_bytes = subject.run();
      subject.seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
    }
}

void AddRows(const std::vector<CodecSubject>& subjects, const std::string& size, size_t pixel_bytes,
             nlohmann::ordered_json& rows) {
  for (const CodecSubject& subject : subjects) {
    const double median = Median(subject.seconds);
    const double bytes = static_cast<double>(pixel_bytes);
    rows.push_back({{"name", subject.name},
                    {"shape", size},
                    {"threads", subject.threads},
                    {"seconds", median},
                    {"pixel_megabytes_per_second", bytes * 1e-6 / median},
                    {"file_share", static_cast<double>(subject.file_bytes) / bytes}});
  }
}

void PrintTable(const nlohmann::ordered_json& rows) {
  PrintMachine();
  std::printf("%-36s %-12s %3s %9s %9s %7s\n", "name", "shape", "thr", "ms", "MB/s", "size");
  for (const auto& row : rows)
    std::printf("%-36s %-12s %3d %9.2f %9.0f %6.1f%%\n", row["name"].get<std::string>().c_str(),
                row["shape"].get<std::string>().c_str(), row["threads"].get<int>(),
                1e3 * row["seconds"].get<double>(), row["pixel_megabytes_per_second"].get<double>(),
                100 * row["file_share"].get<double>());
}

void RunCodecCommand(const CodecOptions& options) {
  auto rows = nlohmann::ordered_json::array();
  const auto sandbox = ValueOrExit(server::DecodeSandbox::Start(server::DecodeWorkerProgram()));
  for (const std::string& size : options.sizes) {
    const Image image = ImageOf(options.image, ValueOrExit(ParseSize(size)));
    std::vector<CodecSubject> subjects;
    AddEncoders(image, options.threads, subjects);
    AddDecoders(image, *sandbox, subjects);
    MeasureAll(options.rounds, subjects);
    AddRows(subjects, size, image.bytes(), rows);
  }
  if (options.json)
    std::printf("%s\n", rows.dump(2).c_str());
  else
    PrintTable(rows);
}

}  // namespace

void AddCodecCommand(CLI::App& app) {
  auto options = std::make_shared<CodecOptions>();
  CLI::App* command = app.add_subcommand("codec", "Encoding and decoding, beside libpng's own way");
  command->add_option("--image", options->image, "RGB of 8 bits; default a synthetic one")
      ->check(CLI::ExistingFile);
  command->add_option("--size", options->sizes, "Sizes that it is resized to")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads beside one")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Times that each is measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print a list of objects instead of a table");
  command->callback([options] { RunCodecCommand(*options); });
}

}  // namespace upscaled::bench
