// Options of several subcommands, and how their failures end.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/base/geometry.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::bench {

// The network, and the folders of models.
struct ModelOptions {
  std::string model;
  std::vector<std::filesystem::path> repositories;

  // Where the server, too, would look: the bundled models come last.
  std::vector<std::filesystem::path> Folders() const;
  // As LoadBenchNetwork; ends the command if no model is found.
  Network Load() const;
};

// --model and --model-repository.
void AddModelOptions(CLI::App& command, ModelOptions& options);
void AddRepositoryOption(CLI::App& command, std::vector<std::filesystem::path>& repositories);

struct CommonOptions {
  BackendOptions backend;
  std::string tune_file;  // "" = the shipped order of kernels
  double budget_s = 0.5;
  bool json = false;
};

// --cpu-isa, --kernel, --tune-file, --time and --json.
void AddCommonOptions(CLI::App& command, CommonOptions& options);

// Sets options.backend.chooser from options.tune_file.
void LoadTuning(CommonOptions& options);

// "960x540". INVALID_ARGUMENT quotes anything else.
absl::StatusOr<Size> ParseSize(const std::string& text);

// "exact" or "fast", the values of the flags.
Precision PrecisionOf(const std::string& name);

// The set in `options`, otherwise the best of this machine. Ends the command when the backend
// refuses the options.
cpu::Isa ChosenIsa(const BackendOptions& options);

// Prints the message and ends the command with exit code 1 when `status` is not OK.
void ExitUnlessOk(const absl::Status& status);
template <typename T>
T ValueOrExit(absl::StatusOr<T> value) {
  ExitUnlessOk(value.status());
  return *std::move(value);
}

}  // namespace upscaled::bench
