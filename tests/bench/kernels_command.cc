// upscale-bench kernels: every listed kernel, from the naive loop on, and oneDNN on its supported
// shapes; one thread.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/cpu/kernel_candidate.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/base/string_view.h"
#include "tests/bench/commands.h"
#include "tests/bench/measure.h"
#include "tests/bench/networks.h"
#include "tests/bench/onednn.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"

namespace upscaled::bench {
namespace {

struct KernelsOptions {
  CommonOptions common;
  bool peers = true;
};

struct Shape {
  int in_channels, out_channels, kernel_px;
  int groups = 1;
};
constexpr Shape kShapes[] = {
    {3, 32, 3},    {32, 32, 3},   {32, 64, 3},     {48, 48, 3},     {64, 64, 3},   {64, 128, 3},
    {128, 128, 3}, {128, 256, 3}, {64, 12, 3},     {128, 3, 3},     {64, 64, 1},   {64, 64, 5},
    {32, 32, 7},   {16, 16, 17},  {64, 64, 3, 64}, {64, 64, 7, 64}, {64, 64, 3, 4}};

constexpr Size kOutput{168, 168};  // a multiple of every kernel's block and register tile
// Kernels slow on the whole output compute the first rows of it.
constexpr double kMaxRun_s = 0.05;
constexpr int kMinRows = 12;

Layer LayerOf(const Shape& shape) {
  Layer layer =
      RandomConv(shape.in_channels / shape.groups, shape.out_channels, 0, shape.kernel_px);
  if (shape.groups == 1) return layer;
  layer.op = Op::kGroupedConv;
  layer.in_channels = shape.in_channels;
  layer.groups = shape.groups;
  return layer;
}

std::string Describe(const Shape& shape) {
  const std::string text = absl::StrFormat("%d-%d %dx%d", shape.in_channels, shape.out_channels,
                                           shape.kernel_px, shape.kernel_px);
  return shape.groups == 1 ? text : absl::StrCat(text, " in ", shape.groups, " groups");
}

double Operations(const Layer& layer, Size output) {
  return 2.0 * layer.kernel_px * layer.kernel_px * layer.in_channels * layer.out_channels /
         layer.groups * static_cast<double>(output.Area());
}

std::unique_ptr<cpu::KernelCandidate> MakeCandidate(const Layer& layer,
                                                    const cpu::KernelEntry& info, cpu::Isa isa,
                                                    int rows) {
  const int border = layer.kernel_px - 1;
  return std::make_unique<cpu::KernelCandidate>(layer, info, isa,
                                                Size{kOutput.width + border, rows + border});
}

double BestSecondsOf(cpu::KernelCandidate& candidate) {
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < 3; ++i) {
    const absl::Time start = absl::Now();
    candidate.Run();
    best = std::min(best, absl::Now() - start);
  }
  return absl::ToDoubleSeconds(best);
}

// The subjects of one layer: kernels first, then the peer's variants.
struct InterleavedBenchmark {
  std::vector<Subject> subjects;
  std::vector<ReportRow> rows;                                    // one each
  std::vector<std::unique_ptr<cpu::KernelCandidate>> candidates;  // that the subjects run
  std::vector<size_t> rivals;                                     // peer's subjects in fp32

  void Add(std::string name, std::string_view precision, Subject subject) {
    ReportRow row;
    row.name = std::move(name);
    row.precision = precision;
    rows.push_back(std::move(row));
    subjects.push_back(std::move(subject));
  }
};

void AddKernels(const Layer& layer, const CommonOptions& options, cpu::Isa isa,
                InterleavedBenchmark& benchmark) {
  for (const cpu::KernelEntry& info : cpu::ListKernels()) {
    const bool wanted = options.backend.kernel.empty() || options.backend.kernel == info.name;
    if (!wanted || !info.RunsOn(isa) || !info.supports(layer)) continue;
    const double estimate_s =
        BestSecondsOf(*MakeCandidate(layer, info, isa, kMinRows)) * kOutput.height / kMinRows;
    const int rows = estimate_s > kMaxRun_s ? kMinRows : kOutput.height;
    benchmark.candidates.push_back(MakeCandidate(layer, info, isa, rows));
    cpu::KernelCandidate& candidate = *benchmark.candidates.back();
    benchmark.Add(absl::StrCat(ToAbsl(info.name), " ", ToAbsl(cpu::IsaName(isa))),
                  PrecisionName(info.precision),
                  {[&candidate] { candidate.Run(); }, Operations(layer, candidate.output_size())});
  }
}

void AddPeers(const Layer& layer, InterleavedBenchmark& benchmark) {
  for (const OnednnVariant variant : kOnednnVariants) {
    auto run = MakeOnednnLayer(layer, kOutput, variant);
    if (!run.ok()) continue;
    const std::string_view precision = OnednnPrecision(variant);
    if (precision == "exact") benchmark.rivals.push_back(benchmark.subjects.size());
    benchmark.Add(std::string(OnednnName(variant)), precision,
                  {*std::move(run), Operations(layer, kOutput)});
  }
}

// "1.85x oneDNN winograd", the fastest of the peer in fp32, for the rows before its own.
void RecordSpeedups(InterleavedBenchmark& benchmark, const std::vector<Measurement>& results) {
  if (benchmark.rivals.empty()) return;
  const size_t best =
      *std::max_element(benchmark.rivals.begin(), benchmark.rivals.end(),
                        [&](size_t a, size_t b) { return results[a].gflops < results[b].gflops; });
  for (size_t i = 0; i < benchmark.rivals.front(); ++i) {
    benchmark.rows[i].note =
        absl::StrFormat("%.2fx %s", Speedup(results[i], results[best]), benchmark.rows[best].name);
  }
}

void RunKernelsCommand(const KernelsOptions& options) {
  const cpu::Isa isa = ChosenIsa(options.common.backend);
  std::vector<ReportRow> rows;
  for (const Shape& shape : kShapes) {
    const Layer layer = LayerOf(shape);
    InterleavedBenchmark benchmark;
    AddKernels(layer, options.common, isa, benchmark);
    if (benchmark.subjects.empty()) continue;
    if (options.peers && shape.groups == 1) AddPeers(layer, benchmark);
    const std::vector<Measurement> results =
        Measure(benchmark.subjects, {.isa = isa, .budget_s = options.common.budget_s});
    RecordSpeedups(benchmark, results);
    for (size_t i = 0; i < results.size(); ++i) {
      benchmark.rows[i].shape = Describe(shape);
      benchmark.rows[i].measurement = results[i];
      rows.push_back(std::move(benchmark.rows[i]));
    }
  }
  PrintReport(rows, options.common.json);
}

}  // namespace

void AddKernelsCommand(CLI::App& app) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App* command = app.add_subcommand("kernels", "Every kernel on the usual shapes");
  AddCommonOptions(*command, options->common);
  command->add_flag("!--no-peers", options->peers, "Leave oneDNN out");
  command->callback([options] { RunKernelsCommand(*options); });
}

}  // namespace upscaled::bench
