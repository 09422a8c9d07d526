// upscale-bench codec: the cost of encoding and decoding an image, next to the libraries' own ways.
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
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
#include "engine/base/string_view.h"
#include "engine/image/codec.h"
#include "engine/image/memory_io.h"
#include "engine/image/replay_source.h"
#include "engine/image/resample.h"
#include "server/sandbox/decode_sandbox.h"
#include "tests/bench/commands.h"
#include "tests/bench/image_quality.h"
#include "tests/bench/machine.h"
#include "tests/bench/measure.h"
#include "tests/bench/options.h"

namespace upscaled::bench {
namespace {

struct CodecOptions {
  std::string image;
  std::vector<std::string> sizes = {"1920x1080", "3840x2160"};
  std::vector<std::string> files;
  int threads = 2;
  int rounds = 5;
  bool json = false;
};

// Encodes or decodes once.
struct CodecSubject {
  std::string name;
  int threads = 1;
  std::function<size_t()> run;                         // returns the bytes of the file
  ImageQuality quality = {.psnr_db = 100, .ssim = 1};  // of a lossy file
  size_t file_bytes = 0;
  std::vector<double> seconds = {};
};

struct Coding {
  std::string name;
  EncodeOptions options;
};

// Ways to write an image with one thread, each as this build can.
std::vector<Coding> Codings() {
  std::vector<Coding> codings = {{"png", {}}};
  const auto add = [&codings](ImageFormat format, std::initializer_list<int> qualities) {
    if (!CanEncode(format)) return;
    for (const int quality : qualities)
      codings.push_back({quality == 100
                             ? absl::StrCat(ToAbsl(FormatName(format)), ", lossless")
                             : absl::StrCat(ToAbsl(FormatName(format)), ", quality ", quality),
                         {.format = format, .quality = quality}});
  };
  add(ImageFormat::kJpeg, {75, 90});
  add(ImageFormat::kWebp, {75, 90, 100});
  add(ImageFormat::kAvif, {75, 90});
  add(ImageFormat::kJxl, {75, 90, 100});
  add(ImageFormat::kTiff, {100});
  return codings;
}

std::string ReadWhole(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream file;
  file << stream.rdbuf();
  return file.str();
}

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
  const std::string bytes = ReadWhole(path);
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

// The file is this bench's own, or its user's.
const DecodeLimits kTrusted = {.is_caged = true};

Image DecodeFile(const std::string& file) {
  MemorySource source(file);
  return ReadAll(*ValueOrExit(OpenImageDecoder(source, kTrusted)));
}

void AddEncoders(const Image& image, int threads, std::vector<CodecSubject>& subjects) {
  for (const Coding& coding : Codings()) {
    const EncodeOptions options = coding.options;
    subjects.push_back({.name = absl::StrCat("encode ", coding.name),
                        .run = [&image, options] { return Encode(image, options).size(); },
                        .quality = MeasureQuality(DecodeFile(Encode(image, options)).view(),
                                                  image.view(), /*crop_px=*/0)});
  }
  const auto add_png = [&](int level, int count) {
    const EncodeOptions options = {.compression = level, .threads = count};
    subjects.push_back({absl::StrCat("encode png, level ", level), count,
                        [&image, options] { return Encode(image, options).size(); }});
  };
  for (const int level : {0, 1, 2, 3, 6}) {
    add_png(level, 1);
    if (level > 0 && threads > 1) add_png(level, threads);
  }
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
  const ImageHeader header = ValueOrExit(ReadImageHeader(source, kTrusted, prefix));
  ReplaySource replay(std::move(prefix), source);
  ReadAll(*ValueOrExit(sandbox.Open(header, replay, kTrusted, nullptr)));
  return file.size();
}

void AddDecoder(const std::string& name, const std::string& file, server::DecodeSandbox& sandbox,
                std::vector<CodecSubject>& subjects) {
  subjects.push_back({absl::StrCat("decode ", name), 1, [file] {
                        DecodeFile(file);
                        return file.size();
                      }});
  subjects.push_back({absl::StrCat("decode ", name, ", in the sandbox"), 1,
                      [&sandbox, file] { return DecodeInSandbox(sandbox, file); }});
}

void AddDecoders(const Image& image, server::DecodeSandbox& sandbox,
                 std::vector<CodecSubject>& subjects) {
  for (const Coding& coding : Codings())
    AddDecoder(coding.name, Encode(image, coding.options), sandbox, subjects);
}

// Turn by turn: changes of the machine meanwhile meet all alike.
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
                    {"file_share", static_cast<double>(subject.file_bytes) / bytes},
                    {"psnr_db", subject.quality.psnr_db},
                    {"ssim", subject.quality.ssim}});
  }
}

void PrintTable(const nlohmann::ordered_json& rows) {
  PrintMachine();
  std::printf("%-36s %-12s %3s %9s %9s %7s %9s %7s\n", "name", "shape", "thr", "ms", "MB/s", "size",
              "PSNR, dB", "SSIM");
  for (const auto& row : rows) {
    std::printf("%-36s %-12s %3d %9.2f %9.0f %6.1f%%", row["name"].get<std::string>().c_str(),
                row["shape"].get<std::string>().c_str(), row["threads"].get<int>(),
                1e3 * row["seconds"].get<double>(), row["pixel_megabytes_per_second"].get<double>(),
                100 * row["file_share"].get<double>());
    if (row["ssim"].get<double>() < 1)
      std::printf(" %9.2f %7.4f", row["psnr_db"].get<double>(), row["ssim"].get<double>());
    std::printf("\n");
  }
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
  for (const std::string& path : options.files) {
    const std::string file = ReadWhole(path);
    const Image image = DecodeFile(file);
    std::vector<CodecSubject> subjects;
    AddDecoder(std::filesystem::path(path).filename(), file, *sandbox, subjects);
    MeasureAll(options.rounds, subjects);
    const std::string size = absl::StrCat(image.spec().width_px, "x", image.spec().height_px);
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
  command->add_option("--file", options->files, "Files to decode, too, of any format that is read")
      ->check(CLI::ExistingFile);
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
