#include "client/cli/model_commands.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/errors.h"
#include "client/cli/exit_code.h"
#include "client/cli/flags.h"
#include "client/cli/forced_exit.h"
#include "client/cli/interrupt.h"
#include "client/http/http_target.h"
#include "client/worker/url_file.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

// The server takes no larger ones.
constexpr int64_t kMaxModelBytes = int64_t{512} << 20;

struct AddModelFlags {
  ConnectionFlags connection;
  std::string from, name, sha256, bin_sha256;
};

struct ExportModelFlags {
  ConnectionFlags connection;
  std::string model, format, output;
  int scale = 0;
  std::optional<int> noise_level;
};

void AddAdminConnection(CLI::App& command, ConnectionFlags& connection) {
  connection.AddTo(command);
  command.footer("\nAsks the server's --admin address, 127.0.0.1:8002 by default.");
}

// The last part of its path, as it is written.
std::string UrlFileName(const std::string& url) {
  const std::string path = url.substr(0, url.find_first_of("?#"));
  return path.substr(path.rfind('/') + 1);
}

// `sha256_flag`: which names the digest `sha256`.
absl::StatusOr<std::unique_ptr<ImageSource>> OpenModel(const std::string& from,
                                                       const char* sha256_flag,
                                                       const std::string& sha256,
                                                       std::stop_token stop) {
  std::unique_ptr<ImageSource> source;
  if (!IsHttpUrl(from)) {
    ASSIGN_OR_RETURN(source, OpenSource(from));
  } else if (sha256.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model from a URL needs its ", sha256_flag, ", which its publisher tells"));
  } else {
    ASSIGN_OR_RETURN(UniqueFd file,
                     Download(from, kMaxModelBytes, {}, /*allowed=*/nullptr, std::move(stop)));
    struct stat info {};
    if (fstat(file.get(), &info) != 0) return absl::UnavailableError("the file is gone");
    source = std::make_unique<FileSource>(from, std::move(file), info.st_size);
  }
  if (source->total_bytes() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(from, " is empty, or no file"));
  }
  return source;
}

// Where the .bin of an ncnn .param lies: under the same name; empty for other files.
std::string BinBeside(const std::string& from) {
  constexpr size_t kEnding = sizeof(".param") - 1;
  const size_t end = std::min(from.find_first_of(IsHttpUrl(from) ? "?#" : ""), from.size());
  if (end < kEnding || !absl::EndsWithIgnoreCase(from.substr(0, end), ".param")) return "";
  const bool upper = from[end - 1] == 'M';
  return from.substr(0, end - kEnding) + (upper ? ".BIN" : ".bin") + from.substr(end);
}

absl::StatusOr<v1::AddModelResponse> AddModel(const AddModelFlags& flags, std::stop_token stop) {
  std::vector<std::unique_ptr<ImageSource>> sources;
  ASSIGN_OR_RETURN(sources.emplace_back(), OpenModel(flags.from, "--sha256", flags.sha256, stop));
  v1::AddModelStart start;
  const std::string name = IsHttpUrl(flags.from)
                               ? UrlFileName(flags.from)
                               : std::filesystem::path(flags.from).filename().string();
  start.set_file_name(flags.name.empty() ? name : flags.name);
  start.set_size_bytes(sources.front()->total_bytes());
  start.set_sha256(flags.sha256);
  if (const std::string bin = BinBeside(flags.from); !bin.empty()) {
    ASSIGN_OR_RETURN(sources.emplace_back(),
                     OpenModel(bin, "--bin-sha256", flags.bin_sha256, stop));
    start.set_bin_size_bytes(sources.back()->total_bytes());
  }
  start.set_bin_sha256(flags.bin_sha256);
  ASSIGN_OR_RETURN(const std::unique_ptr<UpscaleClient> client, flags.connection.MakeAdminClient());
  return client->AddModel(start, sources, stop);
}

int RunAdd(const AddModelFlags& flags) {
  const Interrupt interrupt;
  const ForcedExit end(flags.connection.timeout());
  const absl::StatusOr<v1::AddModelResponse> added = AddModel(flags, interrupt.token());
  if (!added.ok()) return Fail(added.status());
  const v1::Model& model = added->model();
  absl::PrintF(
      "added %s: %s, scale %d, %.0f multiply-adds a pixel\nSHA-256 %s%s\n", model.name(),
      model.family(), model.scales().empty() ? 0 : model.scales(0), model.multiply_adds_per_pixel(),
      added->sha256(),
      added->bin_sha256().empty() ? "" : absl::StrCat(", of its .bin ", added->bin_sha256()));
  return kExitOk;
}

// One file after the other; they appear when all are whole.
class PieceWriter {
 public:
  explicit PieceWriter(std::string stem) : stem_(std::move(stem)) {}

  absl::Status Write(const v1::ExportModelResponse& piece) {
    if (files_.empty() || piece.extension() != files_.back().extension) {
      ASSIGN_OR_RETURN(FileSink sink, FileSink::Create(stem_ + piece.extension()));
      files_.push_back({piece.extension(), std::move(sink)});
    }
    return files_.back().sink.Write(piece.chunk());
  }
  // The last one first: others look for weights next to the first.
  absl::Status Commit() {
    for (; !files_.empty(); files_.pop_back()) {
      RETURN_IF_ERROR(files_.back().sink.Commit());
      absl::PrintF("%s%s\n", stem_, files_.back().extension);
    }
    return absl::OkStatus();
  }

 private:
  struct File {
    std::string extension;
    FileSink sink;
  };

  const std::string stem_;
  std::vector<File> files_;
};

// The output's path without the format's ending, for "-o f.onnx" as for "-o f".
std::string StemOf(const ExportModelFlags& flags) {
  if (flags.output.empty()) return flags.model;
  const std::vector<std::string> endings =
      flags.format == "ncnn" ? std::vector<std::string>{".param", ".bin"}
                             : std::vector<std::string>{absl::StrCat(".", flags.format)};
  for (const std::string& ending : endings) {
    if (flags.output.size() > ending.size() && absl::EndsWithIgnoreCase(flags.output, ending)) {
      return flags.output.substr(0, flags.output.size() - ending.size());
    }
  }
  return flags.output;
}

absl::Status ExportModel(const ExportModelFlags& flags, std::stop_token stop) {
  v1::ExportModelRequest request;
  request.set_name(flags.model);
  request.set_scale(flags.scale);
  if (flags.noise_level) request.set_noise_level(*flags.noise_level);
  request.set_format(flags.format == "onnx"   ? v1::MODEL_FORMAT_ONNX
                     : flags.format == "ncnn" ? v1::MODEL_FORMAT_NCNN
                                              : v1::MODEL_FORMAT_SAFETENSORS);
  ASSIGN_OR_RETURN(const std::unique_ptr<UpscaleClient> client, flags.connection.MakeAdminClient());
  PieceWriter writer(StemOf(flags));
  RETURN_IF_ERROR(client->ExportModel(
      request, [&](const v1::ExportModelResponse& piece) { return writer.Write(piece); }, stop));
  return writer.Commit();
}

int RunExport(const ExportModelFlags& flags) {
  const Interrupt interrupt;
  const ForcedExit end(flags.connection.timeout());
  const absl::Status status = ExportModel(flags, interrupt.token());
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

void AddModelFileCommands(CLI::App& models, int& exit_code) {
  auto add = std::make_shared<AddModelFlags>();
  CLI::App* command = models.add_subcommand("add", "Add a model to the server's repository");
  command
      ->add_option("from", add->from,
                   "A .pth, .safetensors, .onnx or .param file (its .bin lies "
                   "next to it), or its URL")
      ->type_name("FILE|URL")
      ->required();
  command->add_option("--name", add->name, "File name there, with its ending; default: its own")
      ->type_name("NAME");
  command->add_option("--sha256", add->sha256, "SHA-256 that the file must have; a URL needs it")
      ->type_name("HEX");
  command
      ->add_option("--bin-sha256", add->bin_sha256, "The same of the .bin that belongs to a .param")
      ->type_name("HEX");
  AddAdminConnection(*command, add->connection);
  command->callback([add, &exit_code] { exit_code = RunAdd(*add); });

  auto flags = std::make_shared<ExportModelFlags>();
  command = models.add_subcommand("export", "Write a model's network as a file for other programs");
  command->add_option("model", flags->model, "Name of the model")->type_name("MODEL")->required();
  command->add_option("--to", flags->format, "Format")
      ->check(CLI::IsMember({"onnx", "ncnn", "safetensors"}))
      ->required();
  command
      ->add_option("-o,--output", flags->output,
                   "Path, with or without the format's ending; default: the model's name")
      ->type_name("PATH");
  command->add_option("--scale", flags->scale, "Which of its networks; default: the least above 1")
      ->type_name("N");
  command->add_option("-n,--noise", flags->noise_level, "Noise level of the network; default: -1")
      ->type_name("N");
  AddAdminConnection(*command, flags->connection);
  command->callback([flags, &exit_code] { exit_code = RunExport(*flags); });
}

}  // namespace upscaled::client
