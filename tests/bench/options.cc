#include "tests/bench/options.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autotune/tuner.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "server/config/places.h"
#include "tests/bench/networks.h"

namespace upscaled::bench {

std::vector<std::filesystem::path> ModelOptions::Folders() const {
  std::vector<std::filesystem::path> folders = repositories;
  const auto bundled = server::BundledModelsDirectory();
  if (bundled.has_value() && !std::ranges::count(folders, *bundled)) folders.push_back(*bundled);
  return folders;
}

Network ModelOptions::Load() const { return ValueOrExit(LoadBenchNetwork(model, Folders())); }

void AddModelOptions(CLI::App& command, ModelOptions& options) {
  command.add_option("--model", options.model, "Name, weights file or random:SHAPE")->required();
  AddRepositoryOption(command, options.repositories);
}

void AddRepositoryOption(CLI::App& command, std::vector<std::filesystem::path>& repositories) {
  command.add_option("--model-repository", repositories,
                     "Folder of models; repeatable, the bundled ones come last");
}

void AddCommonOptions(CLI::App& command, CommonOptions& options) {
  command.add_option("--cpu-isa", options.backend.cpu_isa, "Instruction set; default the best");
  command.add_option("--kernel", options.backend.kernel, "Kernel to use where it applies");
  command.add_option("--tune-file", options.tune_file, "Table of upscale-bench tune");
  command.add_option("--time", options.budget_s, "Seconds to measure for")->capture_default_str();
  command.add_flag("--json", options.json, "Print a list of objects instead of a table");
}

absl::StatusOr<Size> ParseSize(const std::string& text) {
  Size size;
  char end;
  const int fields = std::sscanf(text.c_str(), "%dx%d%c", &size.width, &size.height, &end);
  if (fields == 2 && size.width > 0 && size.height > 0) return size;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no size; write width x height, as 960x540"));
}

Precision PrecisionOf(const std::string& name) {
  return name == PrecisionName(Precision::kFast) ? Precision::kFast : Precision::kExact;
}

void LoadTuning(CommonOptions& options) {
  if (options.tune_file.empty()) return;
  options.backend.chooser =
      ValueOrExit(Tuner::Create({.file = options.tune_file, .warn = [](const std::string& text) {
                                   std::fprintf(stderr, "upscale-bench: %s\n", text.c_str());
                                 }}));
}

cpu::Isa ChosenIsa(const BackendOptions& options) {
  ExitUnlessOk(CreateCpuBackend(options).status());
  const std::vector<cpu::Isa> isas = cpu::ListIsas();
  for (const cpu::Isa isa : isas) {
    if (cpu::IsaName(isa) == options.cpu_isa) return isa;
  }
  return isas.front();
}

void ExitUnlessOk(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "upscale-bench: %s\n", std::string(status.message()).c_str());
  throw CLI::RuntimeError(1);
}

}  // namespace upscaled::bench
